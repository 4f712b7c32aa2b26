package v1beta2

import _ "github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets" // want depguard floor-4-webhooks
