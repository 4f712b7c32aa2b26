// Package departure stores the record of the objects that moved away, in one ConfigMap for each namespace. clusterctl
// does not move a ConfigMap without an owner, so it stays in the source.
package departure

import (
	"context"
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// Memory writes the ConfigMaps.
type Memory struct{ client client.Client }

// New returns a memory that writes with a client.
func New(c client.Client) Memory { return Memory{c} }

// Remember adds the departure of a Metal3Cluster to the record of the namespace. It keeps the departures of other
// Metal3Clusters. It returns an error after a conflict with another write.
func (m Memory) Remember(ctx context.Context, namespace string, departure pivot.Departure) error {
	before, left, err := read(ctx, m.client, namespace)
	if err != nil {
		return err
	}
	left.Add(departure)
	after := before.DeepCopy()
	after.Data = left.Data()
	if before.ResourceVersion == "" {
		err = m.client.Create(ctx, after)
	} else {
		err = m.client.Patch(ctx, after, lastSeen(before))
	}
	if err != nil {
		return fmt.Errorf("recording the hosts that move away in ConfigMap %s: %w", pivot.DepartureName, err)
	}
	return nil
}

// Forget removes an unpaused Metal3Cluster from the record if its departure is over, and the hosts of its namespace
// that are back. It deletes an empty record. It returns an error after a conflict with another write.
func (m Memory) Forget(ctx context.Context, infra metav1.Object, hosts []*bmov1alpha1.BareMetalHost) error {
	before, left, err := read(ctx, m.client, infra.GetNamespace())
	if err != nil {
		return err
	}
	returned, over := left.Return(hosts), left.IsOver(infra)
	if !returned && !over {
		return nil
	}
	if over {
		left.Remove(infra.GetName())
	}
	after := before.DeepCopy()
	if after.Data = left.Data(); len(left.Infras) > 0 {
		err = m.client.Patch(ctx, after, lastSeen(before))
	} else {
		err = client.IgnoreNotFound(m.client.Delete(ctx, after,
			client.Preconditions{UID: &before.UID, ResourceVersion: &before.ResourceVersion}))
	}
	if err != nil {
		return fmt.Errorf("removing Metal3Cluster %s and its hosts from ConfigMap %s, which names hosts that moved away, so "+
			"that they cannot be created here: %w", infra.GetName(), pivot.DepartureName, err)
	}
	return nil
}

// lastSeen is a patch that conflicts with every other write since the ConfigMap was read.
func lastSeen(before *corev1.ConfigMap) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// Of returns the record of a namespace. It is empty if there is none.
func (m Memory) Of(ctx context.Context, namespace string) (pivot.Departure, error) {
	return Of(ctx, m.client, namespace)
}

// Of returns the record of a namespace. It is empty if there is none.
func Of(ctx context.Context, reader client.Reader, namespace string) (pivot.Departure, error) {
	_, left, err := read(ctx, reader, namespace)
	return left, err
}

// read returns the record of a namespace, and the ConfigMap that holds it. It has no resourceVersion if it does
// not exist.
func read(ctx context.Context, reader client.Reader, namespace string) (*corev1.ConfigMap, pivot.Departure, error) {
	stored := &corev1.ConfigMap{}
	stored.Namespace, stored.Name = namespace, pivot.DepartureName
	switch err := reader.Get(ctx, client.ObjectKeyFromObject(stored), stored); {
	case apierrors.IsNotFound(err):
		return stored, pivot.Departure{}, nil
	case err != nil:
		return nil, pivot.Departure{}, fmt.Errorf("reading ConfigMap %s, which names hosts that moved away: %w",
			pivot.DepartureName, err)
	}
	left, err := pivot.DepartureOf(stored.Data)
	return stored, left, err
}
