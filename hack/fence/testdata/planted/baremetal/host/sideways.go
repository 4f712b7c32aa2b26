package host

import (
	_ "sigs.k8s.io/controller-runtime/pkg/client" // want depguard floor-1

	_ "github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived" // want depguard floor-1
)
