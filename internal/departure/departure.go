// Package departure stores the record of the objects that moved away, in one ConfigMap for each namespace. clusterctl
// does not move a ConfigMap without an owner, so it stays in the source.
package departure

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// Memory writes the ConfigMaps.
type Memory struct{ client client.Client }

// New returns a memory that writes with a client.
func New(c client.Client) Memory { return Memory{c} }

// Remember adds a departure to the record of the namespace. It keeps the other Metal3Clusters of the namespace.
func (m Memory) Remember(ctx context.Context, namespace string, departure pivot.Departure) error {
	remembered := empty(namespace)
	remembered.Data = departure.Data()
	patch, err := json.Marshal(map[string]any{"data": remembered.Data})
	if err == nil {
		err = m.client.Patch(ctx, empty(namespace), client.RawPatch(types.MergePatchType, patch))
	}
	if apierrors.IsNotFound(err) {
		err = m.client.Create(ctx, remembered)
	}
	if err != nil {
		return fmt.Errorf("remembering the hosts that move away in ConfigMap %s: %w", pivot.DepartureName, err)
	}
	return nil
}

// Forget deletes the record of the namespace of a Metal3Cluster whose Cluster runs, if the departure of the
// Metal3Cluster is over.
func (m Memory) Forget(ctx context.Context, infra metav1.Object) error {
	left, err := m.Of(ctx, infra.GetNamespace())
	if err != nil || !left.IsOver(infra) {
		return err
	}
	if err := client.IgnoreNotFound(m.client.Delete(ctx, empty(infra.GetNamespace()))); err != nil {
		return fmt.Errorf("deleting ConfigMap %s, which names hosts that moved away, so that they cannot be created here: %w",
			pivot.DepartureName, err)
	}
	return nil
}

// Of returns the record of a namespace.
func (m Memory) Of(ctx context.Context, namespace string) (pivot.Departure, error) {
	return Of(ctx, m.client, namespace)
}

// Of returns the record of a namespace. It is empty if there is none.
func Of(ctx context.Context, reader client.Reader, namespace string) (pivot.Departure, error) {
	remembered := empty(namespace)
	switch err := reader.Get(ctx, client.ObjectKeyFromObject(remembered), remembered); {
	case apierrors.IsNotFound(err):
		return pivot.Departure{}, nil
	case err != nil:
		return pivot.Departure{}, fmt.Errorf("reading ConfigMap %s, which names hosts that moved away: %w",
			pivot.DepartureName, err)
	}
	return pivot.DepartureOf(remembered.Data)
}

func empty(namespace string) *corev1.ConfigMap {
	remembered := &corev1.ConfigMap{}
	remembered.Namespace, remembered.Name = namespace, pivot.DepartureName
	return remembered
}
