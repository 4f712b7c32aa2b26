package host_test

import (
	_ "context"
	_ "os"

	_ "github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)
