package metal3machinetemplate

import (
	"context"
	"errors"
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	clusterlabels "sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// templateIndex finds Metal3Machines by the name of the template that they were made from.
const templateIndex = "cloned-from"

// Hosts reads the hosts of a namespace.
type Hosts interface {
	Hosts(ctx context.Context, namespace string) ([]*bmov1alpha1.BareMetalHost, error)
}

// Reconciler reconciles Metal3MachineTemplates.
type Reconciler struct {
	Client   client.Client
	Recorder events.EventRecorder
	Hosts    Hosts

	// WatchFilter is the value of the label cluster.x-k8s.io/watch-filter that an object must carry. Empty means any.
	WatchFilter string

	memory flow.Memory
}

// scope is what one reconcile knows.
type scope struct {
	template *infrav1.Metal3MachineTemplate
	paused   bool

	// hosts are those that the hostSelector matches.
	hosts []*bmov1alpha1.BareMetalHost

	// selectorError says why the hostSelector cannot be understood. Nil when it can.
	selectorError error
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machinetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machinetemplates/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch

// Reconcile carries the cleaning mode of one template to its machines and reports the capacity of its hosts.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	template := &infrav1.Metal3MachineTemplate{}
	if err := r.Client.Get(ctx, req.NamespacedName, template); err != nil {
		r.memory.Forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	filtered := r.WatchFilter != "" && !clusterlabels.HasWatchLabel(template, r.WatchFilter)
	if filtered || flow.Moving(template) || !template.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	if r.memory.Behind(template) {
		return ctrl.Result{RequeueAfter: flow.CatchUp}, nil
	}
	reporter := flow.Reporter{Client: r.Client, Recorder: r.Recorder, Memory: &r.memory}
	pass, err := reporter.Begin(template)
	if err != nil {
		return ctrl.Result{}, err
	}
	s := &scope{template: template}
	if err := flow.Observe(ctx, s, r.readPause, r.readHosts); err != nil {
		// Nothing is reported: what was not read would look as if it were not there.
		return ctrl.Result{}, err
	}
	if !s.paused {
		err = r.syncCleaningMode(ctx, template)
	}
	return pass.End(ctx, outcome.Done(), err, func() { setStatus(s) })
}

// readPause finds the Cluster through the owner reference: templates carry no other trace of it.
func (r *Reconciler) readPause(ctx context.Context, s *scope) error {
	s.paused = flow.Paused(nil, s.template)
	for _, owner := range s.template.OwnerReferences {
		if owner.Kind != clusterv1.ClusterKind || s.paused {
			continue
		}
		cluster := &clusterv1.Cluster{}
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.template.Namespace, Name: owner.Name}, cluster)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading Cluster %s: %w", owner.Name, err)
		}
		s.paused = err == nil && flow.Paused(cluster, s.template)
	}
	return nil
}

func (r *Reconciler) readHosts(ctx context.Context, s *scope) error {
	selector, err := host.Selector(s.template.Spec.Template.Spec.HostSelector)
	if err != nil {
		s.selectorError = err
		return nil
	}
	all, err := r.Hosts.Hosts(ctx, s.template.Namespace)
	if err != nil {
		return err
	}
	for _, candidate := range all {
		if selector.Matches(labels.Set(candidate.Labels)) {
			s.hosts = append(s.hosts, candidate)
		}
	}
	return nil
}

// syncCleaningMode carries automatedCleaningMode to the machines that differ. An empty mode is not carried: it means
// "leave the host's own setting", and so does a machine that never had one.
func (r *Reconciler) syncCleaningMode(ctx context.Context, template *infrav1.Metal3MachineTemplate) error {
	mode := template.Spec.Template.Spec.AutomatedCleaningMode
	if mode == "" {
		return nil
	}
	var machines infrav1.Metal3MachineList
	if err := r.Client.List(ctx, &machines, client.InNamespace(template.Namespace),
		client.MatchingFields{templateIndex: template.Name}); err != nil {
		return fmt.Errorf("listing the machines of template %s: %w", template.Name, err)
	}
	var errs []error
	for i := range machines.Items {
		machine := &machines.Items[i]
		if machine.Spec.AutomatedCleaningMode == mode || flow.Moving(machine) {
			continue
		}
		before := machine.DeepCopy()
		machine.Spec.AutomatedCleaningMode = mode
		if err := r.Client.Patch(ctx, machine, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("setting automatedCleaningMode of %s: %w", machine.Name, err))
		}
	}
	return errors.Join(errs...)
}

// setStatus reports what the reconcile saw.
func setStatus(s *scope) {
	flow.SetPaused(s.template, s.paused)
	if s.paused {
		return
	}
	ready := metav1.Condition{
		Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, Reason: infrav1.CapacityKnownReason,
	}
	capacity, info := host.Capacity(s.hosts)
	switch {
	case s.selectorError != nil:
		ready.Status, ready.Reason = metav1.ConditionFalse, infrav1.InvalidHostSelectorReason
		ready.Message = s.selectorError.Error()
	case capacity == nil:
		ready.Status, ready.Reason = metav1.ConditionFalse, infrav1.CapacityUnknownReason
		ready.Message = "No host that spec.template.spec.hostSelector matches was inspected"
	}
	if !equality.Semantic.DeepEqual(s.template.Status.Capacity, capacity) {
		s.template.Status.Capacity = capacity
	}
	s.template.Status.NodeInfo = info
	conditions.Set(s.template, ready)
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &infrav1.Metal3Machine{}, templateIndex, byTemplate)
	if err != nil {
		return fmt.Errorf("indexing Metal3Machines by template: %w", err)
	}
	log := ctrl.LoggerFrom(ctx)
	err = ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.Metal3MachineTemplate{}, builder.WithPredicates(flow.NotOnlyStatus(),
			predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilter))).
		WithOptions(options).
		Watches(&infrav1.Metal3Machine{}, handler.EnqueueRequestsFromMapFunc(machineToTemplate),
			builder.WithPredicates(onlyCreates())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.toTemplates),
			builder.WithPredicates(predicates.ClusterPausedTransitions(mgr.GetScheme(), log))).
		Watches(&bmov1alpha1.BareMetalHost{}, handler.EnqueueRequestsFromMapFunc(r.toTemplates),
			builder.WithPredicates(hardwareChanged())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the Metal3MachineTemplate controller: %w", err)
	}
	return nil
}

func byTemplate(object client.Object) []string {
	annotations := object.GetAnnotations()
	if annotations[clusterv1.TemplateClonedFromGroupKindAnnotation] !=
		infrav1.GroupVersion.WithKind("Metal3MachineTemplate").GroupKind().String() {
		return nil
	}
	return []string{annotations[clusterv1.TemplateClonedFromNameAnnotation]}
}

func machineToTemplate(_ context.Context, object client.Object) []ctrl.Request {
	var requests []ctrl.Request
	for _, name := range byTemplate(object) {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKey{
			Namespace: object.GetNamespace(), Name: name,
		}})
	}
	return requests
}

// toTemplates wakes all templates of the namespace.
func (r *Reconciler) toTemplates(ctx context.Context, object client.Object) []ctrl.Request {
	var templates infrav1.Metal3MachineTemplateList
	if err := r.Client.List(ctx, &templates, client.InNamespace(object.GetNamespace())); err != nil {
		return nil
	}
	requests := make([]ctrl.Request, 0, len(templates.Items))
	for i := range templates.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&templates.Items[i])})
	}
	return requests
}

// onlyCreates lets through new machines: a machine made from a cached, older template needs the mode of the newer one.
func onlyCreates() predicate.Funcs {
	return predicate.Funcs{
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// hardwareChanged lets through what capacity depends on: hosts report much else, and often.
func hardwareChanged() predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isHost := e.ObjectOld.(*bmov1alpha1.BareMetalHost)
		after, stillHost := e.ObjectNew.(*bmov1alpha1.BareMetalHost)
		return isHost && stillHost && (!equality.Semantic.DeepEqual(before.Labels, after.Labels) ||
			!equality.Semantic.DeepEqual(before.Status.HardwareDetails, after.Status.HardwareDetails))
	}}
}
