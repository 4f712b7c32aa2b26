package flow

import (
	_ "context"
	"time"

	_ "sigs.k8s.io/controller-runtime/pkg/client"

	_ "github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

func Now() time.Time { return time.Now() }
