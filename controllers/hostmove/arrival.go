package hostmove

import (
	"context"
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
)

// RestoreStatus writes the status that arrived in the annotation of a host into its status, in place of that of a
// leftover. It reads past the cache, which holds less than the whole status. It returns hoststore.ErrConflict if the host is not
// paused, nothing is to be restored, or somebody changed the host in between.
func (s *Store) RestoreStatus(ctx context.Context, key client.ObjectKey) error {
	current := &unstructured.Unstructured{}
	current.SetGroupVersionKind(bmov1alpha1.GroupVersion.WithKind("BareMetalHost"))
	if err := s.live.Get(ctx, key, current); err != nil {
		return fmt.Errorf("reading host %s: %w", key.Name, err)
	}
	patch, err := restoringPatch(current)
	if err == nil {
		err = s.client.Status().Patch(ctx, current, client.RawPatch(types.MergePatchType, patch))
		if apierrors.IsConflict(err) {
			err = hoststore.ErrConflict
		}
	}
	if err != nil {
		return fmt.Errorf("restoring the status of host %s: %w", key.Name, err)
	}
	return nil
}

// restoringPatch replaces the status of a host by the one that arrived.
func restoringPatch(current *unstructured.Unstructured) ([]byte, error) {
	arrival, err := arrivalOf(current)
	if err != nil {
		return nil, err
	}
	annotations := current.GetAnnotations()
	if _, paused := annotations[bmov1alpha1.PausedAnnotation]; !paused || arrival != pivot.ArrivalPending {
		return nil, hoststore.ErrConflict
	}
	before, _, err := unstructured.NestedMap(current.Object, "status")
	if err != nil {
		return nil, err
	}
	after, err := pivot.ArrivedStatus(annotations[bmov1alpha1.StatusAnnotation], before)
	if err != nil {
		return nil, err
	}
	was, err := json.Marshal(map[string]any{"status": before})
	if err != nil {
		return nil, err
	}
	is, err := json.Marshal(map[string]any{"status": after})
	if err != nil {
		return nil, err
	}
	changes, err := jsonpatch.CreateMergePatch(was, is)
	if err != nil {
		return nil, err
	}
	version, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": current.GetResourceVersion()},
	})
	if err != nil {
		return nil, err
	}
	return jsonpatch.MergeMergePatches(changes, version)
}

func arrivalOf(current *unstructured.Unstructured) (pivot.Arrival, error) {
	host := &bmov1alpha1.BareMetalHost{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(current.Object, host); err != nil {
		return "", err
	}
	return pivot.ArrivalOf(host), nil
}
