package outcome

import _ "github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/staticpod" // want depguard floor-0
