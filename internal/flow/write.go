package flow

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
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

// Discard removes a finalizer from an object of another controller, and deletes the object unless it is being deleted.
// It ignores an object that does not exist. It returns a conflict if the object was replaced, if it has changed since
// it was read and has the finalizer, and, with exact, if it has changed since the finalizer was removed.
func Discard(ctx context.Context, c client.Client, object client.Object, finalizer string, exact bool) error {
	before, _ := object.DeepCopyObject().(client.Object)
	if controllerutil.RemoveFinalizer(object, finalizer) {
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := c.Patch(ctx, object, patch); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the finalizer of %s %s: %w", kindOf(object), object.GetName(), err)
		}
	}
	if !object.GetDeletionTimestamp().IsZero() {
		return nil
	}
	unchanged := client.Preconditions{UID: ptr.To(object.GetUID())}
	if exact {
		unchanged.ResourceVersion = ptr.To(object.GetResourceVersion())
	}
	if err := c.Delete(ctx, object, unchanged); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %s: %w", kindOf(object), object.GetName(), err)
	}
	return nil
}
