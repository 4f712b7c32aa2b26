// Package movesecret labels Secrets that hosts and machines name and that nobody owns, so that clusterctl move takes
// them along.
//
// clusterctl moves a Secret that is owned by something that moves, or that carries the label for single objects.
// Secrets that users make, with user data, meta-data or network-data, have neither. They would stay behind silently,
// and the host could not be provisioned or inspected again in the target. The credentials of a BMC get an owner from
// BMO, but not before that has looked at the host, and it does not look at one that is paused.
//
// It works in the steady state, because clusterctl decides what to move before it pauses anything. It refuses to set
// owners, which would make Secrets go with the first of the objects that share them, to touch a Secret that has one,
// and to write for an object that is being deleted, by a move or for good. It never takes a label away.
//
// Secrets are read one by one, their metadata only: a cache of them would hold the passwords of all BMCs. The trade-off
// is that nobody notices a Secret that is made after the object that names it, until that object changes or the
// periodic resync comes.
package movesecret

import (
	"context"
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Reconciler labels Secrets.
type Reconciler struct {
	// Client reads hosts and machines from a cache, and Secrets from the API server.
	Client client.Client

	// Cached reads the Secrets that the manager keeps in memory anyway: those of clusters, bootstrap data among them.
	Cached client.Reader

	// WatchFilter is the value of the label cluster.x-k8s.io/watch-filter that machines and their templates must carry.
	// Empty means any. Hosts belong to BMO and do not carry it.
	WatchFilter string
}

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;patch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machines;metal3machinetemplates,verbs=get;list;watch

// SetupWithManager registers one controller for each kind that names Secrets.
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
			return fmt.Errorf("setting up the labels of Secrets of a %s: %w", kind.name, err)
		}
	}
	return nil
}

// specChanged drops updates that changed neither the spec nor the object itself. The periodic resync passes.
func specChanged() predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
			e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion()
	}}
}

// reconciler looks after the Secrets that objects of one kind name.
func (r *Reconciler) reconciler(empty client.Object) reconcile.Func {
	remembered := &memory{}
	return func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
		object := empty.DeepCopyObject().(client.Object) //nolint:errcheck // a copy is of the same type
		err := r.Client.Get(ctx, req.NamespacedName, object)
		if apierrors.IsNotFound(err) || (err == nil && leaves(object)) {
			remembered.forget(req.NamespacedName)
			return ctrl.Result{}, nil
		}
		if err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, r.secure(ctx, object, remembered)
	}
}

// secure makes the Secrets of an object move.
func (r *Reconciler) secure(ctx context.Context, object client.Object, remembered *memory) error {
	before, moving := remembered.recall(object), map[string]bool{}
	for _, name := range pivot.NamedSecrets(object) {
		key := client.ObjectKey{Namespace: object.GetNamespace(), Name: name}
		if before[name] || r.seenMoving(ctx, key) {
			moving[name] = true
			continue
		}
		err := r.label(ctx, key)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return fmt.Errorf("labelling the Secret %s for clusterctl move: %w", key, err)
		}
		moving[name] = true
	}
	remembered.keep(object, moving)
	return nil
}

// seenMoving says whether a Secret is in memory and moves. Any other answer is no: then the API server is asked.
func (r *Reconciler) seenMoving(ctx context.Context, key client.ObjectKey) bool {
	secret := &corev1.Secret{}
	return r.Cached.Get(ctx, key, secret) == nil && pivot.Moves(secret)
}

// label makes a Secret move, unless it does already.
func (r *Reconciler) label(ctx context.Context, key client.ObjectKey) error {
	// The resource version guards against an owner that comes in between.
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		if err := r.Client.Get(ctx, key, secret); err != nil {
			return err
		}
		if pivot.Moves(secret) || leaves(secret) {
			return nil
		}
		before := secret.DeepCopy()
		if secret.Labels == nil {
			secret.Labels = map[string]string{}
		}
		secret.Labels[infrav1.MoveLabel] = ""
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Patch(ctx, secret, patch); err != nil {
			return err
		}
		ctrl.LoggerFrom(ctx).Info("Labelled a Secret without owner, so that clusterctl move takes it along",
			"Secret", klog.KRef(key.Namespace, key.Name))
		return nil
	})
}
