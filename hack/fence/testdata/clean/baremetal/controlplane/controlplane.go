package controlplane

import (
	_ "github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	_ "github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/staticpod"
)
