package metal3cluster

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// controlPlaneGroup is the API group of control planes. The manager has no permission to read other groups.
const controlPlaneGroup = "controlplane.cluster.x-k8s.io"

// getPlanes reads the metadata of the control planes of the Clusters live. A kind that is not served has no objects.
func (r *Reconciler) getPlanes(ctx context.Context, s *scope) ([]*metav1.PartialObjectMetadata, error) {
	var planes []*metav1.PartialObjectMetadata
	for _, cluster := range s.move.Clusters {
		reference := cluster.Spec.ControlPlaneRef
		if reference.APIGroup != controlPlaneGroup {
			continue
		}
		kind := schema.GroupKind{Group: reference.APIGroup, Kind: reference.Kind}
		mapping, err := r.Client.RESTMapper().RESTMapping(kind)
		if meta.IsNoMatchError(err) {
			continue
		}
		plane := &metav1.PartialObjectMetadata{}
		if err == nil {
			plane.SetGroupVersionKind(mapping.GroupVersionKind)
			err = r.Live.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: reference.Name}, plane)
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading %s %s: %w", reference.Kind, reference.Name, err)
		}
		if err == nil {
			planes = append(planes, plane)
		}
	}
	return planes, nil
}

func (s *scope) addPlanes(planes []*metav1.PartialObjectMetadata) {
	for _, plane := range planes {
		s.move.AddOwner(plane.Kind, plane)
	}
}
