package rule

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// FillStrategy sets the defaults of a remediation strategy.
func FillStrategy(strategy *infrav1.RemediationStrategy) {
	if strategy.Type == "" {
		strategy.Type = infrav1.RebootRemediation
	}
	if strategy.RetryLimit == 0 {
		strategy.RetryLimit = infrav1.DefaultRemediationRetryLimit
	}
	if strategy.TimeoutSeconds == nil {
		strategy.TimeoutSeconds = ptr.To(infrav1.DefaultRemediationTimeoutSeconds)
	}
}

// Strategy validates a remediation strategy. Nil and a timeout of zero are valid.
func Strategy(path *field.Path, strategy *infrav1.RemediationStrategy) Findings {
	if strategy == nil {
		return Findings{}
	}
	var errs field.ErrorList
	if strategy.Type != infrav1.RebootRemediation {
		errs = append(errs, field.NotSupported(path.Child("type"), strategy.Type,
			[]infrav1.RemediationType{infrav1.RebootRemediation}))
	}
	timeout := ptr.Deref(strategy.TimeoutSeconds, 0)
	if timeout != 0 && timeout < infrav1.MinRemediationTimeoutSeconds {
		errs = append(errs, field.Invalid(path.Child("timeoutSeconds"), timeout,
			fmt.Sprintf("is too short for a host to boot; use at least %d, or omit it for %d",
				infrav1.MinRemediationTimeoutSeconds, infrav1.DefaultRemediationTimeoutSeconds)))
	}
	if strategy.RetryLimit < 1 {
		errs = append(errs, field.Invalid(path.Child("retryLimit"), strategy.RetryLimit,
			fmt.Sprintf("disables all tries; set at least 1, or omit it for %d",
				infrav1.DefaultRemediationRetryLimit)))
	}
	return Refusals(errs...)
}
