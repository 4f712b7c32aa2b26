package build

import _ "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
