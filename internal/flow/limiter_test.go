package flow

import (
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// TestLimiter expects that nothing waits much longer than an outage.
func TestLimiter(t *testing.T) {
	limiter, last := NewLimiter(), time.Duration(0)
	for range 100 {
		last = limiter.When(ctrl.Request{})
	}
	if last != lastRetry {
		t.Errorf("the retry after 100 errors comes after %s, want %s", last, lastRetry)
	}
}
