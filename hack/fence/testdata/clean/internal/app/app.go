package app

import (
	_ "github.com/metal3-pivot/cluster-api-provider-metal3/controllers"
	_ "github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks"
)
