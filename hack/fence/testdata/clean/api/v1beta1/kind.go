package v1beta1

import (
	_ "sigs.k8s.io/cluster-api/util/conversion"

	_ "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)
