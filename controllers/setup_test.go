package controllers

import (
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// TestLimits expects that nothing waits much longer than an outage.
func TestLimits(t *testing.T) {
	limiter, last := limits(1).RateLimiter, time.Duration(0)
	for range 100 {
		last = limiter.When(ctrl.Request{})
	}
	if last != lastRetry {
		t.Errorf("the retry after 100 errors comes after %s, want %s", last, lastRetry)
	}
}
