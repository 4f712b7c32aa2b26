package hostmove

import (
	"context"
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
)

// RestoreStatus writes the status that arrived in the annotation of a host into its status, in place of that of a
// leftover. It reads past the cache, which holds less than the whole status. It returns hoststore.ErrConflict if the
// host is not paused, nothing is to be restored, or the host changed in between.
func (s *Store) RestoreStatus(ctx context.Context, key client.ObjectKey) error {
	current := &unstructured.Unstructured{}
	current.SetGroupVersionKind(bmov1alpha1.GroupVersion.WithKind("BareMetalHost"))
	if err := s.live.Get(ctx, key, current); err != nil {
		return fmt.Errorf("reading BareMetalHost %s: %w", key.Name, err)
	}
	restored, err := withArrivedStatus(current)
	if err == nil {
		patch := client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{})
		err = s.client.Status().Patch(ctx, restored, patch)
		if apierrors.IsConflict(err) {
			err = hoststore.ErrConflict
		}
	}
	if err != nil {
		return fmt.Errorf("restoring the status of BareMetalHost %s: %w", key.Name, err)
	}
	return nil
}

// withArrivedStatus returns a copy of a host with the status that arrived.
func withArrivedStatus(current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	arrival, err := arrivalOf(current)
	if err != nil {
		return nil, err
	}
	annotations := current.GetAnnotations()
	if _, paused := annotations[bmov1alpha1.PausedAnnotation]; !paused || arrival != pivot.ArrivalPending {
		return nil, hoststore.ErrConflict
	}
	replaced, _, err := unstructured.NestedMap(current.Object, "status")
	if err != nil {
		return nil, err
	}
	status, err := pivot.ArrivedStatus(annotations[bmov1alpha1.StatusAnnotation], replaced)
	if err != nil {
		return nil, err
	}
	restored := current.DeepCopy()
	restored.Object["status"] = status
	return restored, nil
}

func arrivalOf(current *unstructured.Unstructured) (pivot.Arrival, error) {
	host := &bmov1alpha1.BareMetalHost{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(current.Object, host); err != nil {
		return "", err
	}
	return pivot.ArrivalOf(host), nil
}
