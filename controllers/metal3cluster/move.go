package metal3cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

const (
	// secretsEvery is the time between two reads of the Secrets of a namespace. A change of these causes no event.
	secretsEvery = 5 * time.Minute

	// blockedInterval is the least time between two reads while a Secret or an IPPool is an obstacle. The time doubles up
	// to maxBlockedInterval while this lasts.
	blockedInterval    = 5 * time.Second
	maxBlockedInterval = 3 * time.Minute

	// blockedIntervalPerSecret is added for each Secret of the namespace: each read lists all of them.
	blockedIntervalPerSecret = 5 * time.Millisecond

	// claimDelay is the time until the cache has the status that this reconcile writes.
	claimDelay = 200 * time.Millisecond
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=list
// +kubebuilder:rbac:groups=ipam.metal3.io,resources=ippools,verbs=list
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusterclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=*,verbs=get
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machines;metal3machinetemplates,verbs=get;list;watch

// secretRead is a live read of objects that the manager does not cache: the Secrets of a namespace, its IPPools, and
// the control planes of its Clusters.
type secretRead struct {
	at time.Time

	// blockedSince is the time of the first of consecutive reads with an obstacle. Zero if the last read had none.
	blockedSince time.Time

	seen      map[string]*metav1.PartialObjectMetadata
	openPools []string
	planes    []*metav1.PartialObjectMetadata
}

// reportsMove returns true if ReadyForMove is reported now.
func (s *scope) reportsMove() bool { return s.cluster != nil && s.infra.DeletionTimestamp.IsZero() }

// readMove reads the facts that several stages use, and that decide whether the namespace can be moved, from the cache.
func (r *Reconciler) readMove(ctx context.Context, s *scope) error {
	if s.cluster == nil {
		return nil
	}
	s.move.Namespace, s.move.Infra = s.infra.Namespace, pivot.About("Metal3Cluster", s.infra)
	var err error
	if s.move.Hosts, err = r.Hosts.Hosts(ctx, s.infra.Namespace); err != nil {
		return err
	}
	r.gatherTimes.Store(client.ObjectKeyFromObject(s.infra), s.gatherTime())
	if err := r.readClusters(ctx, s); err != nil {
		return err
	}
	if err := r.readOwners(ctx, s); err != nil {
		return err
	}
	return r.readNaming(ctx, s)
}

// readObstacles reads the facts that only the stages of ReadyForMove use. A failed read does not stop other stages.
func (r *Reconciler) readObstacles(ctx context.Context, s *scope) error {
	if err := r.readNames(ctx, s); err != nil {
		return err
	}
	return r.tryPauses(ctx, s)
}

// readClusters reads the Clusters of the namespace, and the Metal3Clusters of all namespaces: namespaces share
// networks, and the Ironic of a Metal3Cluster may serve hosts of other namespaces. It reads the cache.
func (r *Reconciler) readClusters(ctx context.Context, s *scope) error {
	var clusters clusterv1.ClusterList
	if err := r.list(ctx, s, &clusters); err != nil {
		return err
	}
	var infras infrav1.Metal3ClusterList
	if err := r.Client.List(ctx, &infras, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Metal3Clusters: %w", err)
	}
	for i := range clusters.Items {
		s.move.Clusters = append(s.move.Clusters, &clusters.Items[i])
	}
	s.move.Around, s.around.Clusters = pivot.NeighboursOf(s.infra.Namespace, clusters.Items, infras.Items), infras.Items
	if r.Namespace != "" {
		s.move.Around = pivot.AsForeign(s.move.Around)
	}
	return nil
}

// readOwners reads Machines, MachineSets and MachineDeployments. It reads the cache.
func (r *Reconciler) readOwners(ctx context.Context, s *scope) error {
	var machines clusterv1.MachineList
	if err := r.list(ctx, s, &machines); err != nil {
		return err
	}
	for i := range machines.Items {
		s.move.Machines = append(s.move.Machines, &machines.Items[i])
	}
	if s.waitsAtGate() {
		s.move.PausedSince = s.pausedSince(r.Clock.Now())
	}
	for _, kind := range []string{"MachineSet", "MachineDeployment"} {
		owners := partial(clusterv1.GroupVersion.WithKind(kind + "List"))
		add := func(owner metav1.Object) { s.move.AddOwner(kind, owner) }
		if err := r.each(ctx, s, owners, add); err != nil {
			return err
		}
	}
	return nil
}

// readNaming reads the objects besides hosts that reference Secrets. It reads the cache.
func (r *Reconciler) readNaming(ctx context.Context, s *scope) error {
	s.move.Naming = append(s.move.Naming, s.infra)
	add := func(object metav1.Object) { s.move.Naming = append(s.move.Naming, object) }
	if err := r.each(ctx, s, &infrav1.Metal3MachineList{}, add); err != nil {
		return err
	}
	return r.each(ctx, s, &infrav1.Metal3MachineTemplateList{}, add)
}

// readNames reads objects by name and labels: remediations, paused ClusterClasses, and CRDs that clusterctl would not
// move. It reads the cache.
func (r *Reconciler) readNames(ctx context.Context, s *scope) error {
	if err := r.each(ctx, s, &infrav1.Metal3RemediationList{}, s.move.AddRemediation); err != nil {
		return err
	}
	classes := partial(clusterv1.GroupVersion.WithKind("ClusterClassList"))
	if err := r.each(ctx, s, classes, s.move.AddClass); err != nil {
		return err
	}
	definitions := partial(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinitionList"))
	if err := r.Client.List(ctx, definitions, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing CustomResourceDefinitions: %w", err)
	}
	for i := range definitions.Items {
		s.move.AddDefinition(definitions.Items[i].Name, definitions.Items[i].Labels)
		if definitions.Items[i].Name == hostDefinition {
			s.hostDefinition = definitions.Items[i].Generation
		}
	}
	return nil
}

// readSecrets reads the metadata of the Secrets of the namespace and of the control planes. It reads live, because the
// cache has only Secrets of clusters, and stores the result for secretsExpire.
func (r *Reconciler) readSecrets(ctx context.Context, s *scope) error {
	key := client.ObjectKeyFromObject(s.infra)
	value, _ := r.secretReads.Load(key)
	last, _ := value.(secretRead)
	s.move.OpenPools, s.move.Secrets, s.secretRead = last.openPools, last.seen, last
	if last.seen == nil {
		return r.listSecrets(ctx, s)
	}
	if s.secretsBlocked = s.secretsBlock(); r.Clock.Since(last.at) >= s.secretsExpire() {
		return r.listSecrets(ctx, s)
	}
	s.addPlanes(last.planes)
	return nil
}

// listSecrets reads the metadata of the Secrets of the namespace and of the control planes live, and its IPPools. It
// stores the result.
func (r *Reconciler) listSecrets(ctx context.Context, s *scope) error {
	secrets := partial(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.Client.List(ctx, secrets, client.InNamespace(s.infra.Namespace)); err != nil {
		return fmt.Errorf("listing Secrets: %w", err)
	}
	planes, err := r.getPlanes(ctx, s)
	if err != nil {
		return err
	}
	s.move.Secrets = make(map[string]*metav1.PartialObjectMetadata, len(secrets.Items))
	for i := range secrets.Items {
		s.move.AddSecret(&secrets.Items[i])
	}
	if err := r.listPools(ctx, s); err != nil {
		return err
	}
	s.addPlanes(planes)
	read := secretRead{at: r.Clock.Now(), seen: s.move.Secrets, openPools: s.move.OpenPools, planes: planes}
	if s.secretsBlocked = s.secretsBlock(); s.secretsBlocked {
		if read.blockedSince = s.secretRead.blockedSince; read.blockedSince.IsZero() {
			read.blockedSince = read.at
		}
	}
	s.secretRead = read
	r.secretReads.Store(client.ObjectKeyFromObject(s.infra), read)
	return nil
}

// secretsBlock returns true if a referenced Secret is missing or would not move, or an IPPool is an obstacle.
func (s *scope) secretsBlock() bool { return !pivot.SecretsMove(s.move) || len(s.move.OpenPools) > 0 }

// listPools reads the IPPools of the namespace. The client reads unstructured objects live. There are none without the
// address manager of Metal3.
func (r *Reconciler) listPools(ctx context.Context, s *scope) error {
	pools := pivot.Pools()
	err := r.Client.List(ctx, pools, client.InNamespace(s.infra.Namespace))
	if err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("listing IPPools: %w", err)
	}
	s.move.OpenPools = nil
	s.move.AddPools(pools)
	return nil
}

// secretsExpire returns the time for which the last read of the Secrets is valid.
func (s *scope) secretsExpire() time.Duration {
	if !s.secretsBlocked {
		return secretsEvery
	}
	lasts := time.Duration(0)
	if blockedSince := s.secretRead.blockedSince; !blockedSince.IsZero() {
		lasts = s.secretRead.at.Sub(blockedSince)
	}
	return retryInterval(max(lasts, blockedInterval+time.Duration(len(s.move.Secrets))*blockedIntervalPerSecret))
}

// retryInterval returns the time until the next read of objects without events, after a problem that lasts for a time.
func retryInterval(lasts time.Duration) time.Duration {
	return min(maxBlockedInterval, max(blockedInterval, lasts))
}

// withReads returns the time to the next reconcile, at the latest when the read of the Secrets expires, or when the
// next trial pauses are due.
func (s *scope) withReads(after time.Duration) time.Duration {
	after = flow.Soonest(after, s.untilTrial)
	if s.move.Secrets == nil {
		return after
	}
	return flow.Soonest(after, s.secretsExpire())
}

func partial(kind schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	return list
}

// clusterMatters returns true for changes that decide whether clusterctl would move a Cluster.
func clusterMatters(before, after *clusterv1.Cluster) bool {
	return !slices.Equal(pivot.ClusterObstacles(before), pivot.ClusterObstacles(after)) ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		!equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences)
}

func (r *Reconciler) list(ctx context.Context, s *scope, list client.ObjectList) error {
	if err := r.Client.List(ctx, list, client.InNamespace(s.infra.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		gvk, _ := r.Client.GroupVersionKindFor(list)
		return fmt.Errorf("listing %s objects: %w", strings.TrimSuffix(gvk.Kind, "List"), err)
	}
	return nil
}

// each passes the cached objects of a kind in the namespace to visit.
func (r *Reconciler) each(
	ctx context.Context, s *scope, list client.ObjectList, visit func(metav1.Object),
) error {
	if err := r.list(ctx, s, list); err != nil {
		return err
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err == nil {
			visit(object)
		}
		return err
	})
}

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
