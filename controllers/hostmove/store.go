package hostmove

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
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

// Store adds the reads and writes of a move to a store of hosts.
type Store struct {
	*hoststore.Store

	// OneNamespace is true in a manager of one namespace.
	OneNamespace bool

	client client.Client
	// live reads past the cache.
	live client.Reader
}

// NewStore returns a store that reads through the client's cache, and past it with live.
func NewStore(hosts *hoststore.Store, c client.Client, live client.Reader) *Store {
	return &Store{Store: hosts, client: c, live: live}
}

// Neighbours returns the Clusters that decide about the hosts of a namespace, as pivot.NeighboursOf. It reads the
// cache.
func (s *Store) Neighbours(ctx context.Context, namespace string) ([]pivot.Neighbour, error) {
	var clusters clusterv1.ClusterList
	if err := s.client.List(ctx, &clusters, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Clusters: %w", err)
	}
	var list infrav1.Metal3ClusterList
	if err := s.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Metal3Clusters: %w", err)
	}
	around := pivot.NeighboursOf(namespace, clusters.Items, list.Items)
	if s.OneNamespace {
		around = pivot.AsForeign(around)
	}
	return around, nil
}

// Tenant describes the Metal3Machine on a host.
type Tenant struct {
	// Joined is true if the deployed system runs or has run: the machine is linked with a Node.
	Joined bool

	// Cluster is the cluster in which a Node may have joined that is not linked yet. Empty if there can be none.
	Cluster client.ObjectKey

	// Since is the creation of the machine, or the last change of the image of the host. An older Node belongs to another
	// machine, or to another image. For an arrived host it is always the latter, if the status has it: a move creates the
	// machine again.
	Since time.Time
}

// Tenant returns the machine on a host. It reads the cache.
//
//	the machine                                 joined  a node may have joined
//	none, or without a Machine, or deleted      no      no
//	its Machine has a node, or it has           yes, if the image of the host was never changed, or there is no control
//	published the provider ID of this host,     plane to read
//	whose status is not lost
//	in a cluster with a control plane           no      yes
//	in any other cluster                        no      no
//
// BMO can replace the image of a host with a machine. Machine and provider ID stay, and the old Node says nothing about
// the new image.
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
	// After a move or a restore, a machine has no status, but its provider ID.
	published := host.Published(holder) == current.Name
	linked := machine.Status.NodeRef.IsDefined() || published && !pivot.LostStatus(current)
	if linked && pivot.ImageSince(current).IsZero() {
		return Tenant{Joined: true}, nil
	}
	return s.inCluster(ctx, machine, Tenant{Joined: linked, Since: tenantSince(current, holder)})
}

func tenantSince(current *bmov1alpha1.BareMetalHost, holder *infrav1.Metal3Machine) time.Time {
	image, created := pivot.ImageSince(current), holder.CreationTimestamp.Time
	if image.After(created) || !image.IsZero() && pivot.OriginUID(current) != "" {
		return image
	}
	return created
}

// inCluster returns the tenant of a Machine, with its Cluster in place of Joined if it has a control plane to read.
func (s *Store) inCluster(ctx context.Context, machine *clusterv1.Machine, tenant Tenant) (Tenant, error) {
	cluster := &clusterv1.Cluster{}
	key := client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.ClusterName}
	if err := s.client.Get(ctx, key, cluster); err != nil {
		return Tenant{}, client.IgnoreNotFound(err)
	}
	if !ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false) {
		return Tenant{Joined: tenant.Joined}, nil
	}
	return Tenant{Cluster: key, Since: tenant.Since}, nil
}

// MarkProvisioned writes the status of a provisioned host. It returns a write conflict if the host changed since it
// was read.
func (s *Store) MarkProvisioned(ctx context.Context, current *bmov1alpha1.BareMetalHost) error {
	// A host without a status requires all fields of its schema.
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
	if err == nil {
		err = s.client.Status().Patch(ctx, current.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	}
	return described(err, "keeping host %s provisioned", current.Name)
}

// described adds the failed step to an error.
func described(err error, format, name string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", name, err)
}

// readLive reads a host past the cache, which holds less than the whole status.
func (s *Store) readLive(ctx context.Context, key client.ObjectKey) (*unstructured.Unstructured, error) {
	current := &unstructured.Unstructured{}
	current.SetGroupVersionKind(bmov1alpha1.GroupVersion.WithKind("BareMetalHost"))
	if err := s.live.Get(ctx, key, current); err != nil {
		return nil, fmt.Errorf("reading BareMetalHost %s: %w", key.Name, err)
	}
	return current, nil
}

// RecordStatus writes the status of a host into the annotation that BMO restores it from in another cluster, together
// with the epoch of the move. It returns a write conflict if the host changed in between.
func (s *Store) RecordStatus(ctx context.Context, key client.ObjectKey, epoch pivot.Epoch) error {
	current, err := s.readLive(ctx, key)
	if err != nil {
		return err
	}
	patch, err := recordOf(current, epoch)
	if err == nil {
		err = s.client.Patch(ctx, current, client.RawPatch(types.MergePatchType, patch))
	}
	return described(err, "recording the status of host %s", key.Name)
}

// recordOf returns the patch that records the status of a host.
func recordOf(current *unstructured.Unstructured, epoch pivot.Epoch) ([]byte, error) {
	status, _, err := unstructured.NestedMap(current.Object, "status")
	if err != nil {
		return nil, err
	}
	_, paused := current.GetAnnotations()[bmov1alpha1.PausedAnnotation]
	if updated, _ := status["lastUpdated"].(string); !paused || updated == "" {
		// The host changed: a status is recorded only while the host is paused, and an empty one must not replace the status
		// from another cluster.
		return nil, hoststore.ErrConflict
	}
	if arrival, err := arrivalOf(current); err != nil || arrival != pivot.NotArrived {
		// The status of a leftover must not replace the arrived status.
		return nil, errors.Join(err, hoststore.ErrConflict)
	}
	annotation, err := pivot.StatusAnnotation(status)
	if err != nil {
		return nil, err
	}
	annotations := map[string]string{
		bmov1alpha1.StatusAnnotation: annotation, infrav1.StatusOriginAnnotation: string(current.GetUID()),
	}
	if epoch > 0 {
		annotations[infrav1.MoveEpochAnnotation] = epoch.String()
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": current.GetResourceVersion(), "annotations": annotations,
	}})
}

// RestoreStatus writes the status that arrived in the annotation of a host into its status, in place of that of a
// leftover. It returns a write conflict if the host is not paused, nothing is to be restored, or the host changed in
// between.
func (s *Store) RestoreStatus(ctx context.Context, key client.ObjectKey) error {
	current, err := s.readLive(ctx, key)
	if err != nil {
		return err
	}
	restored, err := withArrivedStatus(current)
	if err == nil {
		patch := client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{})
		err = s.client.Status().Patch(ctx, restored, patch)
	}
	return described(err, "restoring the status of BareMetalHost %s", key.Name)
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
	typed := &bmov1alpha1.BareMetalHost{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(current.Object, typed); err != nil {
		return "", err
	}
	return pivot.ArrivalOf(typed), nil
}
