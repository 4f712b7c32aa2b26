package hostoperator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/step"
)

// atOnce is the shortest time after which the queue takes a host again.
const atOnce = time.Millisecond

// Ironic is what the reconciler needs of Ironic.
type Ironic interface {
	// Observe reads what Ironic knows of a host. The error is ironicapi.ErrUnreachable where it says nothing about it.
	Observe(ctx context.Context, query step.Query) (step.Ironic, error)

	// Do makes one call for the node of an ID. The error may be ironicapi.ErrBusy or an *ironicapi.Refusal.
	Do(ctx context.Context, node string, call step.Call) error
}

// Reconciler reconciles BareMetalHosts. All fields are required.
type Reconciler struct {
	// Client reads live, without a cache.
	Client client.Client
	Ironic Ironic
	Clock  clock.PassiveClock
	Rules  step.Rules
}

// SetupWithManager adds the controller to a manager. Hosts whose spec, finalizers or annotations change are looked at
// at once, and so are the owners of a Secret that changes.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("baremetalhost").
		For(&bmov1alpha1.BareMetalHost{}, builder.OnlyMetadata,
			builder.WithPredicates(predicate.Funcs{UpdateFunc: isWorthALook})).
		Owns(&corev1.Secret{}, builder.MatchEveryOwner, builder.OnlyMetadata).
		WithOptions(options).
		Complete(r)
}

// isWorthALook leaves out what the operator itself writes into the status.
func isWorthALook(update event.UpdateEvent) bool {
	before, after := update.ObjectOld, update.ObjectNew
	return before.GetGeneration() != after.GetGeneration() ||
		!slices.Equal(before.GetFinalizers(), after.GetFinalizers()) ||
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations())
}

// Reconcile takes one step with one host.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	seen, err := r.observe(ctx, request.NamespacedName)
	if err != nil || seen.Host == nil {
		return ctrl.Result{}, err
	}
	next := step.Admit(seen, r.Rules)
	if next == nil {
		if seen.Ironic, err = r.Ironic.Observe(ctx, step.QueryFor(seen.Host)); err != nil {
			return r.endure(ctx, err)
		}
		decided := step.Next(seen, r.Rules)
		next = &decided
	}
	log := ctrl.LoggerFrom(ctx).WithValues("state", seen.Host.Status.Provisioning.State)
	log.Info(next.Why, "after", next.After.String())
	if err := r.take(ctx, seen, next); err != nil {
		return r.endure(ctx, err)
	}
	switch next.After {
	case step.Never:
		return ctrl.Result{}, nil
	case 0:
		return ctrl.Result{RequeueAfter: atOnce}, nil
	default:
		return ctrl.Result{RequeueAfter: next.After}, nil
	}
}

// endure tells trouble that passes from errors. It leaves the host as it is.
func (r *Reconciler) endure(ctx context.Context, err error) (ctrl.Result, error) {
	switch {
	case errors.Is(err, ironicapi.ErrUnreachable):
		unreachable.Inc()
		ctrl.LoggerFrom(ctx).Info("waiting for Ironic", "reason", err.Error())
		return ctrl.Result{RequeueAfter: r.Rules.Retry}, nil
	case errors.Is(err, ironicapi.ErrBusy):
		ctrl.LoggerFrom(ctx).Info("asking Ironic again", "reason", err.Error())
		return ctrl.Result{RequeueAfter: r.Rules.Poll}, nil
	case apierrors.IsConflict(err):
		// Somebody changed the host meanwhile, so that it has to be looked at again.
		return ctrl.Result{RequeueAfter: atOnce}, nil
	default:
		return ctrl.Result{}, err
	}
}

// observe reads the host and what belongs to it. The host is nil if there is none.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (step.Seen, error) {
	seen := step.Seen{Now: metav1.NewTime(r.Clock.Now())}
	var err error
	if seen.Host, err = get(ctx, r.Client, key, &bmov1alpha1.BareMetalHost{}); err != nil || seen.Host == nil {
		return seen, err
	}
	if seen.Hardware, err = get(ctx, r.Client, key, &bmov1alpha1.HardwareData{}); err != nil {
		return seen, err
	}
	if seen.Host.Spec.BMC.CredentialsName != "" {
		seen.Secret, err = get(ctx, r.Client, seen.Host.CredentialsKey(), &corev1.Secret{})
	}
	return seen, err
}

// get reads an object. Nil without an error means that there is none.
func get[Object client.Object](
	ctx context.Context, c client.Reader, key types.NamespacedName, object Object,
) (Object, error) {
	var none Object
	if err := c.Get(ctx, key, object); apierrors.IsNotFound(err) {
		return none, nil
	} else if err != nil {
		return none, fmt.Errorf("reading the %s %s: %w", reflect.TypeOf(object).Elem().Name(), key, err)
	}
	return object, nil
}

// take does what a step consists of, in its order.
func (r *Reconciler) take(ctx context.Context, seen step.Seen, next *step.Step) error {
	if err := r.do(ctx, seen, next); err != nil {
		return err
	}
	if next.Call != nil {
		err := r.call(ctx, seen, next.Call)
		var refusal *ironicapi.Refusal
		if errors.As(err, &refusal) {
			verdict, found := step.Refused(seen, r.Rules, next.Call, refusal.Message)
			if !found {
				return err
			}
			*next = verdict
		} else if err != nil {
			return err
		}
	}
	return r.write(ctx, seen.Host, next.Host)
}

func (r *Reconciler) call(ctx context.Context, seen step.Seen, call step.Call) error {
	id := ""
	if seen.Node != nil {
		id = seen.Node.UUID
	}
	if deploy, isDeploy := call.(step.Deploy); isDeploy {
		data, err := r.readData(ctx, seen.Host)
		if err != nil {
			return err
		}
		if deploy.ConfigDrive, err = step.ConfigDrive(seen.Host, data); err != nil {
			return err
		}
		call = deploy
	}
	return r.Ironic.Do(ctx, id, call)
}

// write writes what differs. The status is refused where somebody changed the host meanwhile: who pauses a host must be
// able to rely on the status that it saw. It is written as a whole, because its definition demands fields that a patch
// leaves out of a first status. To drop annotations harms nobody.
func (r *Reconciler) write(ctx context.Context, before, after *bmov1alpha1.BareMetalHost) error {
	if !equality.Semantic.DeepEqual(before.Status, after.Status) {
		now := metav1.NewTime(r.Clock.Now())
		changed := before.DeepCopy()
		changed.Status = *after.Status.DeepCopy()
		changed.Status.LastUpdated = &now
		if err := r.Client.Status().Update(ctx, changed); err != nil {
			return fmt.Errorf("writing the status of the host: %w", err)
		}
		before = changed
	}
	patch := client.MergeFrom(before)
	if !slices.Equal(before.Finalizers, after.Finalizers) {
		patch = lockedPatch(before)
	} else if maps.Equal(before.Annotations, after.Annotations) {
		return nil
	}
	changed := before.DeepCopy()
	changed.Finalizers, changed.Annotations = after.Finalizers, after.Annotations
	if err := r.Client.Patch(ctx, changed, patch); err != nil {
		return fmt.Errorf("writing the metadata of the host: %w", err)
	}
	return nil
}

func lockedPatch(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}
