package controllers

import (
	_ "github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3cluster"
	_ "github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3machine"
)
