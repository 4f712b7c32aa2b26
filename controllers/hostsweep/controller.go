// Package hostsweep removes leftovers of CAPM3 or of a manual change from hosts:
//
//   - ownerReferences of Metal3Machines
//   - block-move on hosts without a machine
//   - records of a claim on hosts that are neither claimed nor reserved, whose values it restores
//   - requests to keep a host powered off without a Metal3Remediation
//
// It sweeps all hosts when the manager starts. It sweeps a host again after a manual release, a restore from a backup,
// or the deletion of a Metal3Remediation. It keeps the values of users, and the record of a host that a Metal3Machine
// has recorded.
package hostsweep

import (
	"context"
	"errors"
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/remediation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
)

const (
	// reasonSwept is the reason of the event on a swept host.
	reasonSwept = "LeftoversRemoved"

	// reasonRefused is the reason of the event on a host after a refused write.
	reasonRefused = "WriteRefused"

	// poweredOffIndex finds the hosts that a remediation keeps powered off.
	poweredOffIndex = "powered-off"
)

// Hosts writes hosts.
type Hosts interface {
	Write(ctx context.Context, current, desired *bmov1alpha1.BareMetalHost) (*bmov1alpha1.BareMetalHost, error)
}

// Reconciler sweeps hosts.
type Reconciler struct {
	Client   client.Client
	Recorder events.EventRecorder
	Hosts    Hosts
}

// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machines;metal3remediations,verbs=get;list;watch

// Reconcile sweeps one host.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	current := &bmov1alpha1.BareMetalHost{}
	if err := r.Client.Get(ctx, req.NamespacedName, current); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	paused, err := r.clusterPaused(ctx, current.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	recorded, err := r.isRecorded(ctx, current)
	if err != nil {
		return ctrl.Result{}, err
	}
	clean, dirty := host.WithoutLeftovers(current, paused, recorded)
	orphans := false
	if !paused && remediation.HasPowerOffRequest(current) {
		if clean, orphans, err = r.withoutOrphans(ctx, clean); err != nil {
			return ctrl.Result{}, err
		}
	}
	if !dirty && !orphans {
		return ctrl.Result{}, nil
	}
	return r.write(ctx, current, clean)
}

func (r *Reconciler) write(ctx context.Context, current, clean *bmov1alpha1.BareMetalHost) (ctrl.Result, error) {
	_, err := r.Hosts.Write(ctx, current, clean)
	switch {
	case errors.Is(err, hoststore.ErrConflict):
		// The other write requeues the host.
		return ctrl.Result{}, nil
	case hoststore.IsRefusal(err), apierrors.IsInternalError(err):
		r.Recorder.Eventf(current, nil, corev1.EventTypeWarning, reasonRefused, "Sweep",
			"The API server refuses to change the host, so leftovers stay on it: %v", err)
		return flow.AfterRefusal(err)
	case err != nil:
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.Recorder.Eventf(current, nil, corev1.EventTypeNormal, reasonSwept, "Sweep",
		"Removed leftover owner references or annotations")
	return ctrl.Result{}, nil
}

// clusterPaused returns true if a Cluster of the namespace is paused, as during a move.
func (r *Reconciler) clusterPaused(ctx context.Context, namespace string) (bool, error) {
	var clusters clusterv1.ClusterList
	if err := r.Client.List(ctx, &clusters, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing Clusters: %w", err)
	}
	for i := range clusters.Items {
		if ptr.Deref(clusters.Items[i].Spec.Paused, false) {
			return true, nil
		}
	}
	return false, nil
}

// isRecorded returns true if a Metal3Machine has recorded the host. If the host lost its consumerRef, the machine
// claims it again, and its release requires the record of the claim.
func (r *Reconciler) isRecorded(ctx context.Context, current *bmov1alpha1.BareMetalHost) (bool, error) {
	var machines infrav1.Metal3MachineList
	if err := r.Client.List(ctx, &machines, client.InNamespace(current.Namespace),
		client.MatchingFields{hoststore.RecordedHostIndex: current.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing Metal3Machines by host: %w", err)
	}
	return len(machines.Items) > 0, nil
}

// withoutOrphans returns the host without the requests of remediations that do not exist.
func (r *Reconciler) withoutOrphans(
	ctx context.Context, current *bmov1alpha1.BareMetalHost,
) (clean *bmov1alpha1.BareMetalHost, dirty bool, err error) {
	var remediations infrav1.Metal3RemediationList
	if err := r.Client.List(ctx, &remediations, client.InNamespace(current.Namespace),
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, false, fmt.Errorf("listing Metal3Remediations: %w", err)
	}
	machine := &infrav1.Metal3Machine{}
	if name, claimed := host.Consumer(current); claimed {
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: current.Namespace, Name: name}, machine)
		if client.IgnoreNotFound(err) != nil {
			return nil, false, fmt.Errorf("reading Metal3Machine %s/%s: %w", current.Namespace, name, err)
		}
	}
	clean, dirty = remediation.WithoutOrphans(current, remediations.Items, remediation.MachineOf(machine))
	return clean, dirty, nil
}

// machineToHost requeues the host that a machine has recorded. After an update it gets the old and the new machine.
func machineToHost(_ context.Context, machine *infrav1.Metal3Machine) []ctrl.Request {
	return flow.Request(machine.Namespace, host.Recorded(machine))
}

// unrecords passes a Metal3Machine that no longer records a host: it was deleted, or its record changed.
func unrecords() predicate.Funcs {
	passes := flow.OnlyDeletes()
	passes.UpdateFunc = flow.Updates(func(before, after *infrav1.Metal3Machine) bool {
		name := host.Recorded(before)
		return name != "" && name != host.Recorded(after)
	}).UpdateFunc
	return passes
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &bmov1alpha1.BareMetalHost{}, poweredOffIndex, byPowerOff)
	if err != nil {
		return fmt.Errorf("indexing BareMetalHosts by %s: %w", poweredOffIndex, err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("hostsweep").
		For(&bmov1alpha1.BareMetalHost{}, builder.WithPredicates(predicate.NewPredicateFuncs(hasLeftovers))).
		WithOptions(options).
		Watches(&infrav1.Metal3Machine{}, flow.Map(machineToHost), builder.WithPredicates(unrecords())).
		Watches(&infrav1.Metal3Remediation{}, flow.Map(r.toPoweredOff), builder.WithPredicates(flow.OnlyDeletes())).
		Watches(&clusterv1.Cluster{}, flow.Map(r.toHosts),
			builder.WithPredicates(predicates.ClusterPausedTransitions(mgr.GetScheme(), ctrl.LoggerFrom(ctx)))).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the host sweep: %w", err)
	}
	return nil
}

func byPowerOff(object client.Object) []string {
	if current, isHost := object.(*bmov1alpha1.BareMetalHost); isHost && remediation.HasPowerOffRequest(current) {
		return []string{""}
	}
	return nil
}

// toPoweredOff requeues the hosts that a remediation of the namespace keeps powered off.
func (r *Reconciler) toPoweredOff(ctx context.Context, object client.Object) []ctrl.Request {
	return flow.Requests(ctx, r.Client, &bmov1alpha1.BareMetalHostList{}, client.InNamespace(object.GetNamespace()),
		client.MatchingFields{poweredOffIndex: ""})
}

func hasLeftovers(object client.Object) bool {
	current, isHost := object.(*bmov1alpha1.BareMetalHost)
	if !isHost {
		return false
	}
	_, dirty := host.WithoutLeftovers(current, false, false)
	return dirty || remediation.HasPowerOffRequest(current)
}

// toHosts requeues the hosts in the namespace of an object.
func (r *Reconciler) toHosts(ctx context.Context, object client.Object) []ctrl.Request {
	return flow.RequestsIf(ctx, r.Client, &bmov1alpha1.BareMetalHostList{}, hasLeftovers,
		client.InNamespace(object.GetNamespace()))
}
