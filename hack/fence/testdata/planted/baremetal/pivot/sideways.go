package pivot

import (
	_ "github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/controlplane" // want depguard floor-2
	_ "github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)
