package keepalived

import _ "github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow" // want depguard floor-1
