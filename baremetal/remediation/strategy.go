package remediation

import (
	"fmt"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// Limits are how often and how long a remediation tries.
type Limits struct {
	// Retries is how many tries may follow the first one.
	Retries int32

	// Timeout is how long a try may take.
	Timeout time.Duration
}

// LimitsOf returns the limits of a strategy. What it leaves open, or sets to zero, has the default. A strategy that
// does not exist is blocked.
func LimitsOf(strategy *infrav1.RemediationStrategy) (Limits, outcome.Outcome) {
	given := ptr.Deref(strategy, infrav1.RemediationStrategy{})
	if given.Type != "" && given.Type != infrav1.RebootRemediation {
		return Limits{}, outcome.Blocked(infrav1.InvalidStrategyReason, fmt.Sprintf(
			"spec.strategy.type is %q. Set it to %s here and in the Metal3RemediationTemplate.",
			given.Type, infrav1.RebootRemediation))
	}
	limits := Limits{Retries: infrav1.DefaultRemediationRetryLimit}
	if given.RetryLimit > 0 {
		limits.Retries = given.RetryLimit
	}
	seconds := infrav1.DefaultRemediationTimeoutSeconds
	if timeout := ptr.Deref(given.TimeoutSeconds, 0); timeout > 0 {
		seconds = timeout
	}
	limits.Timeout = time.Duration(seconds) * time.Second
	return limits, outcome.Done()
}
