package remediation

import (
	"fmt"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// Limits are the number of tries of a remediation, and their timeout.
type Limits struct {
	// Retries is the number of tries after the first one.
	Retries int32

	// Timeout is the time limit of a try.
	Timeout time.Duration
}

// LimitsOf returns the limits of a strategy. Missing or zero values have the default. An unknown strategy is blocked.
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
