package main

import _ "github.com/metal3-pivot/cluster-api-provider-metal3/controllers" // want depguard floor-5-main

func main() {}
