package workload

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// claimName is the ConfigMap in a workload cluster that records the claim of its management cluster. It is in the
// namespace of the Ironic pods.
const claimName = "metal3-management-cluster"

// managerAnnotation holds the UID of the namespace kube-system of the management cluster.
const managerAnnotation = "infrastructure.cluster.x-k8s.io/management-cluster"

// claimAttempts is how often Claim writes while another management cluster writes at the same time.
const claimAttempts = 3

// Claim records in a workload cluster that this management cluster manages it with an epoch. It does not overwrite a
// claim of another management cluster with the same or a newer epoch. It returns the recorded claim and the standing of
// this management cluster. Without a connection, it returns ErrUnreachable, ErrNotTried, ErrNoKubeconfig, or the error
// of reading the kubeconfig. A cached record counts unless it has to be written, which requires a live read. Claim
// blocks on live reads and writes.
func (c *ControlPlanes) Claim(
	ctx context.Context, cluster types.NamespacedName, epoch pivot.Epoch,
) (pivot.Claim, pivot.Standing, error) {
	recorded, standing, err := c.claim(ctx, cluster, epoch)
	if errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrNotTried) {
		err = c.whyUnreachable(ctx, cluster)
	}
	return recorded, standing, err
}

func (c *ControlPlanes) claim(
	ctx context.Context, cluster types.NamespacedName, epoch pivot.Epoch,
) (recorded pivot.Claim, standing pivot.Standing, err error) {
	manager, err := c.readOwn(ctx, client.ObjectKey{Name: metav1.NamespaceSystem})
	if err != nil {
		return pivot.Claim{}, "", err
	}
	own := pivot.Claim{Epoch: epoch, Manager: string(manager)}
	if c.isWatched {
		err := c.read(ctx, cluster, func(ctx context.Context, reader client.Reader) error {
			_, recorded, standing, err = recordedClaim(ctx, reader, cluster, own)
			return err
		})
		if err != nil || standing != pivot.Claims {
			return recorded, standing, err
		}
	}
	err = c.write(ctx, cluster, func(ctx context.Context, there client.Client) (err error) {
		for range claimAttempts {
			recorded, standing, err = claim(ctx, there, cluster, own)
			// If two management clusters write at the same time, one gets a conflict, and then reads the claim of the other.
			if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
				break
			}
		}
		return err
	})
	return recorded, standing, err
}

// recordedClaim reads the recorded claim and compares it with the own one. The record has no resource version if it
// does not exist.
func recordedClaim(
	ctx context.Context, reader client.Reader, cluster types.NamespacedName, own pivot.Claim,
) (record *corev1.ConfigMap, recorded pivot.Claim, standing pivot.Standing, err error) {
	record = &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: ironic.Namespace, Name: claimName}
	if err := reader.Get(ctx, key, record); client.IgnoreNotFound(err) != nil {
		return nil, pivot.Claim{}, "", fmt.Errorf("reading ConfigMap %s of cluster %s: %w", claimName, cluster, err)
	}
	record.Namespace, record.Name = key.Namespace, key.Name
	found := claimIn(record)
	if standing = pivot.StandingOf(own, found); standing != pivot.Claims {
		recorded = *found
	}
	return record, recorded, standing, nil
}

// claim reads the recorded claim, and writes the own one if it counts. It returns a conflict if another management
// cluster has written in between.
func claim(
	ctx context.Context, there client.Client, cluster types.NamespacedName, own pivot.Claim,
) (pivot.Claim, pivot.Standing, error) {
	record, recorded, standing, err := recordedClaim(ctx, there, cluster, own)
	if err != nil || standing != pivot.Claims {
		return recorded, standing, err
	}
	metav1.SetMetaDataAnnotation(&record.ObjectMeta, infrav1.MoveEpochAnnotation, own.Epoch.String())
	metav1.SetMetaDataAnnotation(&record.ObjectMeta, managerAnnotation, own.Manager)
	if record.ResourceVersion == "" {
		err = there.Create(ctx, record)
	} else {
		err = there.Update(ctx, record)
	}
	if err != nil {
		return pivot.Claim{}, "", fmt.Errorf("writing ConfigMap %s of cluster %s: %w", claimName, cluster, err)
	}
	return own, pivot.Current, nil
}

// claimIn returns the recorded claim. Nil means none.
func claimIn(record *corev1.ConfigMap) *pivot.Claim {
	manager := record.Annotations[managerAnnotation]
	if manager == "" {
		return nil
	}
	return &pivot.Claim{Epoch: pivot.EpochOf(record), Manager: manager}
}
