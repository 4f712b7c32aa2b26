package webhooks

import (
	_ "sigs.k8s.io/controller-runtime"

	_ "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta1"
)
