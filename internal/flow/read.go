package flow

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Presence is the result of Open.
type Presence int

// Results of Open.
const (
	// Present is an object to reconcile.
	Present Presence = iota

	// Gone is an object that does not exist.
	Gone

	// Ignored is an object of another manager, or one that clusterctl move deletes.
	Ignored

	// Behind is an object with a cached copy that is older than the last own write.
	Behind
)

// Result returns the result of a reconcile without a pass.
func (p Presence) Result() ctrl.Result {
	if p == Behind {
		return ctrl.Result{RequeueAfter: CatchUp}
	}
	return ctrl.Result{}
}

// Open reads an object and begins a pass. The pass is nil after an error and unless the object is Present.
func (r *Reporter) Open(
	ctx context.Context, key client.ObjectKey, object Object, announce Announcement,
) (*Pass, Presence, error) {
	err := r.Client.Get(ctx, key, object)
	switch {
	case apierrors.IsNotFound(err):
		r.Memory.Forget(key)
		return nil, Gone, nil
	case err != nil:
		return nil, Present, err
	case infrav1.IsLeaving(object), r.WatchFilter != "" && !labels.HasWatchLabel(object, r.WatchFilter):
		return nil, Ignored, nil
	case r.Memory.Behind(object):
		return nil, Behind, nil
	}
	return r.Begin(object, announce), Present, nil
}

// Find reads an object. It returns nil after an error, and if the object does not exist or the name is empty.
func Find[T any, Pointer interface {
	*T
	client.Object
}](ctx context.Context, reader client.Reader, key client.ObjectKey) (Pointer, error) {
	if key.Name == "" {
		return nil, nil
	}
	object := Pointer(new(T))
	err := reader.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kindOf(object), key.Name, err)
	}
	return object, nil
}

func kindOf(object client.Object) string { return reflect.TypeOf(object).Elem().Name() }

// PausedWithCluster returns why the object or the Cluster in its label is paused, as Paused does.
func PausedWithCluster(ctx context.Context, reader client.Reader, object client.Object) (string, error) {
	key := client.ObjectKey{Namespace: object.GetNamespace(), Name: object.GetLabels()[clusterv1.ClusterNameLabel]}
	cluster, err := Find[clusterv1.Cluster](ctx, reader, key)
	return Paused(cluster, object), err
}
