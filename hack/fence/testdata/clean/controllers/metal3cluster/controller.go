package metal3cluster

import (
	_ "sigs.k8s.io/controller-runtime"

	_ "github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	_ "github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	_ "github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
)
