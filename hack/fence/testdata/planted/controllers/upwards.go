package controllers

import _ "github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks" // want depguard floor-4-setup
