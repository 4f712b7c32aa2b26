package flow

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
)

// firstRetry and lastRetry are the times until the retries after the first and after many errors. An error drops the
// timers of other stages, and the end of an outage, such as that of a webhook, is no event. So lastRetry is short.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = time.Minute
)

// NewLimiter returns the limiter of retries of one controller.
func NewLimiter() workqueue.TypedRateLimiter[ctrl.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetry, lastRetry)
}
