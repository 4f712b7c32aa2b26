package v1beta2

import (
	_ "sigs.k8s.io/controller-runtime/pkg/client" // want depguard floor-api

	_ "github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome" // want depguard floor-api
)
