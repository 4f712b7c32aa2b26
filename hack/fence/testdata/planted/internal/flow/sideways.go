package flow

import (
	_ "github.com/onsi/gomega" // want depguard floor-3

	_ "github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets" // want depguard floor-3
)
