package hostmove

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
)

// Store adds to a store of hosts what only a move reads and writes.
type Store struct {
	*hoststore.Store

	client client.Client
	// live reads past the cache.
	live client.Reader
}

// NewStore returns a store that reads through the client's cache, and past it with live.
func NewStore(hosts *hoststore.Store, c client.Client, live client.Reader) *Store {
	return &Store{Store: hosts, client: c, live: live}
}

// Tenant is what is known of the machine that holds a host.
type Tenant struct {
	// Joined says that what was deployed runs or has run: the machine is connected with a node.
	Joined bool

	// Cluster is where a node may have joined that the machine is not connected with yet. Empty if there can be none.
	Cluster client.ObjectKey

	// Since is when the machine was made. An older node is that of another machine.
	Since time.Time
}

// Tenant returns what is known of the machine that holds a host. It asks the cache.
//
//	the machine                                 joined  a node may have joined
//	none, or without a Machine, or leaving      no      no
//	its Machine has a node                      yes
//	has published the provider ID of this host  yes, unless nothing tells what has become of the host since
//	in a cluster with a control plane           no      yes
//	in any other cluster                        no      no
func (s *Store) Tenant(ctx context.Context, current *bmov1alpha1.BareMetalHost) (Tenant, error) {
	name, held := host.Consumer(current)
	if !held {
		return Tenant{}, nil
	}
	holder := &infrav1.Metal3Machine{}
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: current.Namespace, Name: name}, holder); err != nil {
		return Tenant{}, client.IgnoreNotFound(err)
	}
	machine, err := util.GetOwnerMachine(ctx, s.client, holder.ObjectMeta)
	if err != nil || machine == nil || !holder.DeletionTimestamp.IsZero() {
		return Tenant{}, client.IgnoreNotFound(err)
	}
	// A machine that has come with a move or out of a backup has no status, but its provider ID.
	published := holder.Spec.ProviderID == host.ProviderID(holder.Namespace, current.Name, holder.Name)
	if machine.Status.NodeRef.IsDefined() || published && !pivot.LostStatus(current) {
		return Tenant{Joined: true}, nil
	}
	cluster := &clusterv1.Cluster{}
	key := client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.ClusterName}
	if err := s.client.Get(ctx, key, cluster); err != nil {
		return Tenant{}, client.IgnoreNotFound(err)
	}
	if !ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false) {
		return Tenant{}, nil
	}
	return Tenant{Cluster: key, Since: holder.CreationTimestamp.Time}, nil
}

// MarkProvisioned makes BMO take what runs on a host for provisioned. hoststore.ErrConflict means that
// somebody changed the host since it was read.
func (s *Store) MarkProvisioned(ctx context.Context, current *bmov1alpha1.BareMetalHost) error {
	// A host without any status needs all fields that its definition demands.
	provisioning := map[string]any{"state": bmov1alpha1.StateProvisioned, "ID": current.Status.Provisioning.ID}
	// BMO compares these with the spec, and deprovisions where they differ.
	if current.Spec.Image != nil {
		provisioning["image"] = current.Spec.Image
	}
	if current.Spec.CustomDeploy != nil {
		provisioning["customDeploy"] = current.Spec.CustomDeploy
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": current.ResourceVersion},
		"status": map[string]any{
			"provisioning": provisioning, "operationalStatus": bmov1alpha1.OperationalStatusOK,
			"errorType": nil, "errorMessage": "", "errorCount": 0, "poweredOn": current.Status.PoweredOn,
		},
	})
	if err != nil {
		return fmt.Errorf("keeping host %s provisioned: %w", current.Name, err)
	}
	err = s.client.Status().Patch(ctx, current.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("keeping host %s provisioned: %w", current.Name, hoststore.ErrConflict)
	case err != nil:
		return fmt.Errorf("keeping host %s provisioned: %w", current.Name, err)
	}
	return nil
}

// RecordStatus writes the status of a host into the annotation that BMO restores it from in another cluster, together
// with the epoch of the move. It reads past the cache, which holds less than the whole status. It returns
// hoststore.ErrConflict if the host changed in between.
func (s *Store) RecordStatus(ctx context.Context, key client.ObjectKey, epoch pivot.Epoch) error {
	current := &unstructured.Unstructured{}
	current.SetGroupVersionKind(bmov1alpha1.GroupVersion.WithKind("BareMetalHost"))
	if err := s.live.Get(ctx, key, current); err != nil {
		return fmt.Errorf("reading host %s: %w", key.Name, err)
	}
	status, _, err := unstructured.NestedMap(current.Object, "status")
	if err != nil {
		return fmt.Errorf("reading the status of host %s: %w", key.Name, err)
	}
	_, paused := current.GetAnnotations()[bmov1alpha1.PausedAnnotation]
	if updated, _ := status["lastUpdated"].(string); !paused || updated == "" {
		// It is another one than was looked at: a status must not be recorded while it goes on changing, and an empty one
		// must not replace what was brought from another cluster.
		return fmt.Errorf("recording the status of host %s: %w", key.Name, hoststore.ErrConflict)
	}
	if arrival, err := arrivalOf(current); err != nil || arrival != pivot.NotArrived {
		// The status that arrived must not be replaced by that of a leftover.
		return errors.Join(err, fmt.Errorf("recording the status of host %s: %w", key.Name, hoststore.ErrConflict))
	}
	annotation, err := pivot.StatusAnnotation(status)
	if err != nil {
		return fmt.Errorf("recording the status of host %s: %w", key.Name, err)
	}
	annotations := map[string]string{
		bmov1alpha1.StatusAnnotation: annotation, infrav1.StatusOriginAnnotation: string(current.GetUID()),
	}
	if epoch > 0 {
		annotations[infrav1.MoveEpochAnnotation] = epoch.String()
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": current.GetResourceVersion(), "annotations": annotations,
	}})
	if err != nil {
		return fmt.Errorf("recording the status of host %s: %w", key.Name, err)
	}
	err = s.client.Patch(ctx, current, client.RawPatch(types.MergePatchType, patch))
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("recording the status of host %s: %w", key.Name, hoststore.ErrConflict)
	case err != nil:
		return fmt.Errorf("recording the status of host %s: %w", key.Name, err)
	}
	return nil
}
