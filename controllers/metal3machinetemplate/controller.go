package metal3machinetemplate

import (
	"context"
	"errors"
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// templateIndex finds Metal3Machines by the name of their template.
const templateIndex = "cloned-from"

// Hosts reads the hosts of a namespace.
type Hosts interface {
	Hosts(ctx context.Context, namespace string) ([]*bmov1alpha1.BareMetalHost, error)
}

// Reconciler reconciles Metal3MachineTemplates.
type Reconciler struct {
	flow.Reporter

	Hosts Hosts
}

// scope holds what one reconcile observes.
type scope struct {
	template *infrav1.Metal3MachineTemplate

	// pause is why the template or its Cluster is paused. Empty if neither is.
	pause string

	// hosts are the hosts that match the hostSelector.
	hosts []*bmov1alpha1.BareMetalHost

	// capacity and nodeInfo are the capacity of these hosts. reportCapacity sets them.
	capacity map[corev1.ResourceName]infrav1.Quantity
	nodeInfo *infrav1.NodeInfo

	// selectorError is the error of an invalid hostSelector.
	selectorError error
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machinetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machinetemplates/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch

// Reconcile copies the cleaning mode of one template to its machines and reports the capacity of its hosts.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	template := &infrav1.Metal3MachineTemplate{}
	pass, presence, err := r.Open(ctx, req.NamespacedName, template, announce())
	if pass == nil || err != nil || !template.DeletionTimestamp.IsZero() {
		return presence.Result(), err
	}
	s := &scope{template: template}
	if err := flow.Observe(ctx, s, r.readPause, r.readHosts); err != nil {
		return flow.ReadFailed(ctx, pass, err)
	}
	plan := flow.Plan[*scope]{Paused: s.pause, Conditions: []flow.Condition[*scope]{ready}, Status: setStatus}
	if s.pause == "" {
		plan.Stages = []flow.Stage[*scope]{ready.Stage(r.syncCleaningMode), ready.Stage(reportCapacity)}
	}
	return flow.Run(ctx, pass, s, plan)
}

// announce emits no event for a new capacity, which may change with every host.
func announce() flow.Announcement {
	return flow.Warnings(infrav1.CleaningModeFailedReason)
}

var ready = flow.Condition[*scope]{
	Type: infrav1.ReadyCondition, Initial: infrav1.CapacityUnknownReason, Failed: infrav1.CleaningModeFailedReason,
	Done: func(*scope) flow.Reached { return flow.Reached{Reason: infrav1.CapacityKnownReason} },
}

// readPause reads the pause of the template and of the Cluster in its ownerReferences.
func (r *Reconciler) readPause(ctx context.Context, s *scope) error {
	s.pause = flow.Paused(nil, s.template)
	for _, owner := range s.template.OwnerReferences {
		if owner.Kind != clusterv1.ClusterKind {
			continue
		}
		key := client.ObjectKey{Namespace: s.template.Namespace, Name: owner.Name}
		cluster, err := flow.Find[clusterv1.Cluster](ctx, r.Client, key)
		if err != nil {
			return err
		}
		if s.pause = flow.Paused(cluster, s.template); s.pause != "" {
			break
		}
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

// syncCleaningMode copies automatedCleaningMode to the machines that differ. It does not copy an empty mode, which
// keeps the setting of the host.
func (r *Reconciler) syncCleaningMode(ctx context.Context, s *scope) (outcome.Outcome, error) {
	template := s.template
	mode := template.Spec.Template.Spec.AutomatedCleaningMode
	if mode == "" {
		return outcome.Done(), nil
	}
	var machines infrav1.Metal3MachineList
	if err := r.Client.List(ctx, &machines, client.InNamespace(template.Namespace),
		client.MatchingFields{templateIndex: template.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return outcome.Done(), fmt.Errorf("listing the Metal3Machines of the template: %w", err)
	}
	var errs []error
	for i := range machines.Items {
		machine := &machines.Items[i]
		if machine.Spec.AutomatedCleaningMode == mode || infrav1.IsLeaving(machine) {
			continue
		}
		changed := machine.DeepCopy()
		changed.Spec.AutomatedCleaningMode = mode
		if err := r.Client.Patch(ctx, changed, client.MergeFrom(machine)); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("setting automatedCleaningMode of Metal3Machine %s: %w", machine.Name, err))
		}
	}
	return outcome.Done(), errors.Join(errs...)
}

// reportCapacity checks that the capacity of the hosts is known.
func reportCapacity(_ context.Context, s *scope) (outcome.Outcome, error) {
	s.capacity, s.nodeInfo = host.Capacity(s.hosts)
	switch {
	case s.selectorError != nil:
		return outcome.Blocked(infrav1.InvalidHostSelectorReason, s.selectorError.Error()), nil
	case s.capacity == nil:
		return outcome.Waiting(infrav1.CapacityUnknownReason,
			"Waiting for the inspection of a BareMetalHost that matches spec.template.spec.hostSelector"), nil
	default:
		return outcome.Done(), nil
	}
}

func setStatus(s *scope, results flow.Results) {
	_, known := results.Of(infrav1.ReadyCondition)
	if s.pause != "" || !known || results[infrav1.ReadyCondition].Err != nil {
		return
	}
	if !equality.Semantic.DeepEqual(s.template.Status.Capacity, s.capacity) {
		s.template.Status.Capacity = s.capacity
	}
	s.template.Status.NodeInfo = s.nodeInfo
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &infrav1.Metal3Machine{}, templateIndex, byTemplate)
	if err != nil {
		return fmt.Errorf("indexing Metal3Machines by template: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.Metal3MachineTemplate{}, builder.WithPredicates(flow.NotOnlyStatus())).
		WithOptions(options).
		// A Metal3Machine may have been created from an older, cached template.
		Watches(&infrav1.Metal3Machine{}, flow.Gather(flow.Second, machineToTemplate),
			builder.WithPredicates(flow.OnlyCreates())).
		Watches(&clusterv1.Cluster{}, flow.Map(r.toTemplates),
			builder.WithPredicates(predicates.ClusterPausedTransitions(mgr.GetScheme(), ctrl.LoggerFrom(ctx)))).
		Watches(&bmov1alpha1.BareMetalHost{}, flow.Gather(flow.Second, r.toTemplates),
			builder.WithPredicates(flow.Updates(hardwareMatters))).
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
		requests = append(requests, flow.Request(object.GetNamespace(), name)...)
	}
	return requests
}

func (r *Reconciler) toTemplates(ctx context.Context, object client.Object) []ctrl.Request {
	return flow.Requests(ctx, r.Client, &infrav1.Metal3MachineTemplateList{}, client.InNamespace(object.GetNamespace()))
}

// hardwareMatters returns true for changes of the labels and the hardware of a host.
func hardwareMatters(before, after *bmov1alpha1.BareMetalHost) bool {
	return !equality.Semantic.DeepEqual(before.Labels, after.Labels) ||
		!equality.Semantic.DeepEqual(before.Status.HardwareDetails, after.Status.HardwareDetails)
}
