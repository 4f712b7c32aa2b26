package phases

import _ "github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3machine" // want depguard floor-4-kinds
