package flow

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
)

// refusalDelay is the time until the next write after the API server refused one. A change of the object requeues it
// sooner. A change of a policy, a webhook or a permission is no event.
const refusalDelay = time.Minute

// AfterRefusal returns the result of a reconcile whose write was refused. A webhook that does not answer may do so
// soon, so its error is returned and retried with back-off.
func AfterRefusal(err error) (ctrl.Result, error) {
	if apierrors.IsInternalError(err) {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: refusalDelay}, nil
}
