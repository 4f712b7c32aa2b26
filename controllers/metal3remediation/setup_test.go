package metal3remediation

import (
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// TestRetryLimiter expects that the timeout of a try is never read much later because of errors.
func TestRetryLimiter(t *testing.T) {
	limiter, last := retryLimiter(), time.Duration(0)
	for range 100 {
		last = limiter.When(ctrl.Request{})
	}
	if last != maxRetryDelay {
		t.Errorf("the retry after 100 errors comes after %s, want %s", last, maxRetryDelay)
	}
}
