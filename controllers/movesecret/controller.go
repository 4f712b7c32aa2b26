// Package movesecret labels Secrets without an owner that hosts and machines reference, so that clusterctl move moves
// them.
//
// clusterctl moves a Secret if its owner moves, or if it has the label clusterctl.cluster.x-k8s.io/move. Secrets of
// users, with user data, meta-data or network-data, have neither. Without them, BMO cannot provision or inspect the
// host in the target cluster. BMO sets an owner on the credentials of a BMC only when it reconciles the host, and it
// does not reconcile a paused host.
//
// The labels must exist before a move, because clusterctl selects the objects before it pauses the Cluster. The
// controller sets no owners: the garbage collector would delete a shared Secret with its first owner. It does not label
// a Secret with an owner, ignores objects that are being deleted, and never removes a label.
//
// It reads only the metadata of Secrets, live, because a cache would hold the passwords of all BMCs. So it labels a
// Secret that is created after the object only at the next change of that object or at the periodic resync.
package movesecret

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// reasonFailed is the reason of the event for a Secret that could not be labelled.
const reasonFailed = "LabelFailed"

// Reconciler labels Secrets.
type Reconciler struct {
	// Client reads hosts and machines from a cache, and Secrets from the API server.
	Client client.Client

	Recorder events.EventRecorder

	// Cached reads the Secrets in the cache of the manager: those of clusters, including bootstrap data.
	Cached client.Reader

	// WatchFilter is the value of the label cluster.x-k8s.io/watch-filter that machines and templates must have. Empty
	// means any. It does not apply to hosts.
	WatchFilter string
}

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;patch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machines;metal3machinetemplates,verbs=get;list;watch

// SetupWithManager registers one controller for each kind that references Secrets.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	filter := predicates.ResourceHasFilterLabel(mgr.GetScheme(), ctrl.LoggerFrom(ctx), r.WatchFilter)
	for _, kind := range []struct {
		name       string
		empty      client.Object
		predicates []predicate.Predicate
	}{
		{"baremetalhost", &bmov1alpha1.BareMetalHost{}, []predicate.Predicate{specChanged()}},
		{"metal3machine", &infrav1.Metal3Machine{}, []predicate.Predicate{specChanged(), filter}},
		{"metal3machinetemplate", &infrav1.Metal3MachineTemplate{}, []predicate.Predicate{specChanged(), filter}},
	} {
		err := ctrl.NewControllerManagedBy(mgr).
			Named("movesecret-"+kind.name).
			For(kind.empty, builder.WithPredicates(kind.predicates...)).
			WithOptions(options).
			Complete(r.reconciler(kind.empty))
		if err != nil {
			return fmt.Errorf("setting up the movesecret controller for %s: %w", kind.name, err)
		}
	}
	return nil
}

// specChanged drops updates without a change of the generation or the UID. It passes the periodic resync.
func specChanged() predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
			e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion()
	}}
}

// reconciler returns the Reconcile function for the objects of one kind.
func (r *Reconciler) reconciler(empty client.Object) reconcile.Func {
	cache := &memory{}
	return func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
		object := empty.DeepCopyObject().(client.Object) //nolint:errcheck // a copy is of the same type
		err := r.Client.Get(ctx, req.NamespacedName, object, client.UnsafeDisableDeepCopy)
		if apierrors.IsNotFound(err) || (err == nil && infrav1.IsGoing(object)) {
			cache.Delete(req.NamespacedName)
			return ctrl.Result{}, nil
		}
		if err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, r.labelAll(ctx, object, cache)
	}
}

// memory holds the Secrets of each object that move, so that a change of the object causes no requests for them. A
// restart loses it. The periodic resync, which does not change the generation, bypasses it.
type memory struct{ sync.Map }

type known struct {
	uid        types.UID
	generation int64
	moving     []string
}

// get returns the Secrets of an object that require no read.
func (m *memory) get(object client.Object) []string {
	stored, _ := m.Load(client.ObjectKeyFromObject(object))
	last, _ := stored.(known)
	if last.uid != object.GetUID() || last.generation == object.GetGeneration() {
		return nil
	}
	return last.moving
}

func (m *memory) set(object client.Object, moving []string) {
	m.Store(client.ObjectKeyFromObject(object), known{object.GetUID(), object.GetGeneration(), moving})
}

// labelAll labels the Secrets of an object. It ignores Secrets that do not exist. An error of one Secret does not stop
// the others.
func (r *Reconciler) labelAll(ctx context.Context, object client.Object, cache *memory) error {
	before := cache.get(object)
	var moving []string
	var failures []error
	for _, name := range pivot.NamedSecrets(object) {
		key := client.ObjectKey{Namespace: object.GetNamespace(), Name: name}
		if slices.Contains(before, name) || r.movesInCache(ctx, key) {
			moving = append(moving, name)
			continue
		}
		err := r.label(ctx, key)
		if err == nil {
			moving = append(moving, name)
		}
		if client.IgnoreNotFound(err) != nil {
			r.report(object, key, err)
			failures = append(failures, fmt.Errorf("labelling Secret %s for clusterctl move: %w", key, err))
		}
	}
	cache.set(object, moving)
	return errors.Join(failures...)
}

// report emits an event on the object that references a Secret. The retries with the same Secret count in one Event,
// also if the object changes between them, because the event states no resource version.
func (r *Reconciler) report(object client.Object, key client.ObjectKey, cause error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	object = object.DeepCopyObject().(client.Object) //nolint:errcheck // a copy is of the same type
	object.SetResourceVersion("")
	r.Recorder.Eventf(object, secret, corev1.EventTypeWarning, reasonFailed, "Label",
		"Failed to label Secret %s, so clusterctl move leaves it behind: %v", key.Name, cause)
}

// movesInCache returns true if the cache shows a Secret that moves. Otherwise the caller must read the Secret live.
func (r *Reconciler) movesInCache(ctx context.Context, key client.ObjectKey) bool {
	secret := &corev1.Secret{}
	return r.Cached.Get(ctx, key, secret) == nil && pivot.Moves(secret)
}

// label labels a Secret that does not move.
func (r *Reconciler) label(ctx context.Context, key client.ObjectKey) error {
	// With the resource version, the patch conflicts if another client sets an owner.
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		if err := r.Client.Get(ctx, key, secret); err != nil {
			return err
		}
		if pivot.Moves(secret) || infrav1.IsGoing(secret) {
			return nil
		}
		before := secret.DeepCopy()
		metav1.SetMetaDataLabel(&secret.ObjectMeta, infrav1.MoveLabel, "")
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Patch(ctx, secret, patch); err != nil {
			return err
		}
		ctrl.LoggerFrom(ctx).Info("Labelled Secret without owner for clusterctl move",
			"Secret", klog.KRef(key.Namespace, key.Name))
		return nil
	})
}
