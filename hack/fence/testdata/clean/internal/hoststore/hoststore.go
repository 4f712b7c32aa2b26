package hoststore

import _ "github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
