package metal3cluster

import (
	_ "github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3machine" // want depguard floor-4-kinds
	_ "github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"    // want depguard floor-4-kinds
	_ "github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/v1beta2" // want depguard floor-4-kinds
)
