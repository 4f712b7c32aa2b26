package metal3data

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// syncLimit is the time in which the cache usually lists the claims of an API. After that, no reconcile waits for it.
const syncLimit = 5 * time.Second

// errNotListed is the error of a watch while its cache does not hold the claims yet.
var errNotListed = errors.New("the claims are not listed yet")

// watched is the watch of the claims of one API.
type watched struct {
	// isSynced returns true if the cache holds the claims.
	isSynced func() bool

	// waitUntil is the end of the time in which a reconcile waits for the cache.
	waitUntil time.Time
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	ofCluster, err := util.ClusterToTypedObjectsMapper(r.Client, &infrav1.Metal3DataList{}, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("mapping Clusters to Metal3Data: %w", err)
	}
	owner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &infrav1.Metal3Data{})
	built, err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.Metal3Data{}, builder.WithPredicates(flow.NotOnlyStatus())).
		WithOptions(options).
		Watches(&infrav1.Metal3DataClaim{}, flow.Map(r.claimToData), builder.WithPredicates(flow.ComesOrLeaves())).
		Watches(&infrav1.Metal3DataTemplate{}, flow.Map(r.templateToData), builder.WithPredicates(flow.ComesOrGoes())).
		Watches(&infrav1.Metal3Machine{}, flow.Map(r.machineToData), builder.WithPredicates(flow.Updates(valuesChange))).
		Watches(&clusterv1.Machine{}, flow.Map(r.ownerToData), builder.WithPredicates(flow.Updates(valuesChange))).
		Watches(&bmov1alpha1.BareMetalHost{}, flow.Map(r.hostToData), builder.WithPredicates(flow.Updates(hostChanges))).
		Watches(&corev1.Secret{}, owner, builder.WithPredicates(flow.OnlyDeletes())).
		Watches(&clusterv1.Cluster{}, flow.Map(ofCluster),
			builder.WithPredicates(predicates.ClusterPausedTransitions(mgr.GetScheme(), ctrl.LoggerFrom(ctx)))).
		WatchesRawSource(source.Func(r.enqueueStart)).
		Build(r)
	if err != nil {
		return fmt.Errorf("setting up the Metal3Data controller: %w", err)
	}
	r.newWatch = func(ctx context.Context, of api) (func() bool, error) {
		claim, _ := of.objects()
		if err := mgr.GetFieldIndexer().IndexField(ctx, claim, ownerIndex, byOwner); err != nil {
			return nil, err
		}
		informer, err := mgr.GetCache().GetInformer(ctx, claim, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, err
		}
		return informer.HasSynced, built.Watch(source.Kind[client.Object](mgr.GetCache(), claim, owner))
	}
	return nil
}

// enqueueStart enqueues an empty request, for which Reconcile calls startWatches. The manager ends if a controller that
// starts cannot sync its caches, and each controller waits for all caches of the manager. The delay lets them start
// without the caches of the claims.
func (r *Reconciler) enqueueStart(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	queue.AddAfter(ctrl.Request{}, r.recheckInterval())
	return nil
}

// startWatches starts the watches of the installed APIs, so that the manager observes claims without data.
func (r *Reconciler) startWatches(ctx context.Context) error {
	var errs []error
	for _, of := range apis() {
		if _, err := r.startWatch(ctx, of); !meta.IsNoMatchError(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// startWatch starts the watch of the claims of an API. It returns an error if the API is not installed.
func (r *Reconciler) startWatch(ctx context.Context, of api) (watched, error) {
	r.watching.Lock()
	defer r.watching.Unlock()
	if started, exists := r.watched[of.kind()]; exists {
		return started, nil
	}
	isSynced, err := r.newWatch(ctx, of)
	if err != nil {
		return watched{}, err
	}
	if r.watched == nil {
		r.watched = map[string]watched{}
	}
	r.watched[of.kind()] = watched{isSynced: isSynced, waitUntil: time.Now().Add(syncLimit)}
	return r.watched[of.kind()], nil
}

// watch starts the watch of the claims of an API. It waits until the cache holds them, up to syncLimit after the start.
// It returns errNotListed if the cache does not hold them, and another error if the API is not installed.
func (r *Reconciler) watch(ctx context.Context, of api) error {
	started, err := r.startWatch(ctx, of)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(ctx, started.waitUntil)
	defer cancel()
	if !toolscache.WaitForCacheSync(ctx.Done(), started.isSynced) {
		return errNotListed
	}
	return nil
}

// isListed returns true if the cache holds the claims of an API. A read of the cache blocks before that.
func (r *Reconciler) isListed(of api) bool {
	r.watching.Lock()
	defer r.watching.Unlock()
	started, exists := r.watched[of.kind()]
	return exists && started.isSynced()
}

// byOwner indexes a claim by the UIDs and the names of its Metal3Data.
func byOwner(object client.Object) []string {
	var owners []string
	for _, owner := range object.GetOwnerReferences() {
		if hostdata.IsInfra(owner, "Metal3Data") {
			owners = append(owners, string(owner.UID), ofName(owner.Name))
		}
	}
	return owners
}

// ofName returns the value of ownerIndex for the name of a Metal3Data.
func ofName(data string) string { return "name/" + data }

func (r *Reconciler) claimToData(ctx context.Context, object client.Object) []ctrl.Request {
	return r.requests(ctx, client.ObjectKeyFromObject(object), r.Data.OfClaim, always)
}

func (r *Reconciler) templateToData(ctx context.Context, object client.Object) []ctrl.Request {
	return r.requests(ctx, client.ObjectKeyFromObject(object), r.Data.OfTemplate, unrendered)
}

// machineToData requeues the data of a Metal3Machine. The Metal3DataClaim has the name of the machine.
func (r *Reconciler) machineToData(ctx context.Context, object client.Object) []ctrl.Request {
	return r.requests(ctx, client.ObjectKeyFromObject(object), r.Data.OfClaim, unrendered)
}

func (r *Reconciler) ownerToData(ctx context.Context, machine *clusterv1.Machine) []ctrl.Request {
	if machine.Spec.InfrastructureRef.APIGroup != infrav1.GroupVersion.Group {
		return nil
	}
	key := client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.InfrastructureRef.Name}
	return r.requests(ctx, key, r.Data.OfClaim, unrendered)
}

func (r *Reconciler) hostToData(ctx context.Context, current *bmov1alpha1.BareMetalHost) []ctrl.Request {
	machine, found := host.Consumer(current)
	if !found {
		return nil
	}
	return r.requests(ctx, client.ObjectKey{Namespace: current.Namespace, Name: machine}, r.Data.OfClaim, unrendered)
}

func (r *Reconciler) requests(ctx context.Context, of client.ObjectKey,
	find func(context.Context, client.ObjectKey) ([]*infrav1.Metal3Data, error), wanted func(*infrav1.Metal3Data) bool,
) []ctrl.Request {
	all, err := find(ctx, of)
	if err != nil {
		// The cache fails only while the manager stops.
		return nil
	}
	return flow.RequestsFor(all, wanted)
}

func always(*infrav1.Metal3Data) bool { return true }

func unrendered(data *infrav1.Metal3Data) bool { return !ptr.Deref(data.Status.Ready, false) }

// valuesChange returns true for changes of the labels, annotations and owners of an object.
func valuesChange(before, after client.Object) bool {
	return !equality.Semantic.DeepEqual(before.GetLabels(), after.GetLabels()) ||
		!equality.Semantic.DeepEqual(before.GetAnnotations(), after.GetAnnotations()) ||
		!equality.Semantic.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences())
}

// hostChanges returns true for changes of the host fields that templates use, and of the consumer.
func hostChanges(before, after *bmov1alpha1.BareMetalHost) bool {
	return valuesChange(before, after) || !equality.Semantic.DeepEqual(before.Spec.ConsumerRef, after.Spec.ConsumerRef) ||
		!strings.EqualFold(before.Spec.BootMACAddress, after.Spec.BootMACAddress) ||
		!equality.Semantic.DeepEqual(before.Status.HardwareDetails, after.Status.HardwareDetails)
}
