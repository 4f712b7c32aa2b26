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
)

// Presence says what Open found.
type Presence int

// What Open may find.
const (
	// Present is an object to reconcile.
	Present Presence = iota

	// Gone is an object that does not exist.
	Gone

	// Ignored is an object that belongs to another manager, or that clusterctl move deletes.
	Ignored

	// Behind is an object whose copy in the cache is older than the last own write.
	Behind
)

// Result ends a reconcile that found nothing to do.
func (p Presence) Result() ctrl.Result {
	if p == Behind {
		return ctrl.Result{RequeueAfter: CatchUp}
	}
	return ctrl.Result{}
}

// Open reads an object and begins a pass. There is no pass after an error, and for an object that is not present.
func (r Reporter) Open(ctx context.Context, key client.ObjectKey, object Object) (*Pass, Presence, error) {
	err := r.Client.Get(ctx, key, object)
	switch {
	case apierrors.IsNotFound(err):
		r.Memory.Forget(key)
		return nil, Gone, nil
	case err != nil:
		return nil, Present, err
	case Moving(object), r.WatchFilter != "" && !labels.HasWatchLabel(object, r.WatchFilter):
		return nil, Ignored, nil
	case r.Memory.Behind(object):
		return nil, Behind, nil
	}
	pass, err := r.Begin(object)
	return pass, Present, err
}

// Find reads an object. It returns false if there is none, or no name.
func Find(ctx context.Context, reader client.Reader, key client.ObjectKey, object client.Object) (bool, error) {
	if key.Name == "" {
		return false, nil
	}
	err := reader.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s %s: %w", reflect.TypeOf(object).Elem().Name(), key.Name, err)
	}
	return true, nil
}

// PausedWithCluster returns true if the object or the Cluster that its label names is paused.
func PausedWithCluster(ctx context.Context, reader client.Reader, object client.Object) (bool, error) {
	cluster := &clusterv1.Cluster{}
	key := client.ObjectKey{Namespace: object.GetNamespace(), Name: object.GetLabels()[clusterv1.ClusterNameLabel]}
	found, err := Find(ctx, reader, key, cluster)
	if !found {
		cluster = nil
	}
	return Paused(cluster, object), err
}
