package app

import _ "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"

import _ "github.com/onsi/ginkgo/v2" // want depguard floor-5-app
