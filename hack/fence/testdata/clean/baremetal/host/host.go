package host

import (
	"time"

	_ "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	_ "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	_ "github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

func Later(now time.Time) time.Time { return now.Add(time.Minute) }
