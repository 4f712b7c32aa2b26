package metal3dataclaim

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// Data finds and creates Metal3Data.
type Data interface {
	Synced() bool
	OfClaim(ctx context.Context, claim client.ObjectKey) ([]*infrav1.Metal3Data, error)
	ClaimsOf(ctx context.Context, template client.ObjectKey) ([]*infrav1.Metal3DataClaim, error)
	Create(ctx context.Context, claim *infrav1.Metal3DataClaim, desired *infrav1.Metal3Data) (*infrav1.Metal3Data, error)
	Forget(claim client.ObjectKey)
}

// Reconciler reconciles Metal3DataClaims.
type Reconciler struct {
	flow.Reporter

	Data Data

	// Live reads from the API server.
	Live client.Reader
}

// scope holds what one reconcile observes.
type scope struct {
	claim *infrav1.Metal3DataClaim

	// pause is why the claim, its Cluster or its template is paused. Empty if none is.
	pause string

	// template is the Metal3DataTemplate of the claim. Nil if it does not exist.
	template *infrav1.Metal3DataTemplate

	// machine is the reference to the Metal3Machine that owns the claim. Nil if there is none.
	machine *metav1.OwnerReference

	// data is the Metal3Data of the claim. Nil if there is none. surplus are further Metal3Data of this claim, or of an
	// earlier claim with the same name. Both are read-only.
	data    *infrav1.Metal3Data
	surplus []*infrav1.Metal3Data
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3dataclaims,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3dataclaims/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3datas,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3datatemplates;metal3machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// Reconcile reconciles one Metal3DataClaim.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	claim := &infrav1.Metal3DataClaim{}
	pass, presence, err := r.Open(ctx, req.NamespacedName, claim, announce())
	if presence == flow.Gone {
		r.Data.Forget(req.NamespacedName)
	}
	if pass == nil || err != nil {
		return presence.Result(), err
	}
	if !r.Data.Synced() {
		return flow.Behind.Result(), nil
	}
	s := &scope{claim: claim}
	if err := flow.Observe(ctx, s, r.readCluster, r.readTemplate, r.readData); err != nil {
		return flow.ReadFailed(ctx, pass, err)
	}
	return flow.Run(ctx, pass, s, flow.Plan[*scope]{
		Paused:     s.pause,
		Conditions: []flow.Condition[*scope]{ready, deleting},
		Stages:     r.route(s),
		Status:     setStatus,
	})
}

func (r *Reconciler) route(s *scope) []flow.Stage[*scope] {
	// CAPM3 expects the finalizer on a claim with Metal3Data. Claims of this provider are created with it.
	keepFinalizer := ready.KeepFinalizer(s.claim, infrav1.DataClaimFinalizer)
	switch {
	case s.pause != "":
		return nil
	case !s.claim.DeletionTimestamp.IsZero():
		return []flow.Stage[*scope]{
			deleting.Stage(r.waitForMachine), deleting.Stage(r.deleteData),
			deleting.DropFinalizer(s.claim, infrav1.DataClaimFinalizer),
		}
	case s.data != nil:
		return []flow.Stage[*scope]{keepFinalizer, ready.Stage(r.deleteSurplus)}
	default:
		return []flow.Stage[*scope]{
			ready.Stage(r.checkClaim), keepFinalizer, ready.Stage(r.waitForTemplate), ready.Stage(r.createData),
		}
	}
}

func (r *Reconciler) readCluster(ctx context.Context, s *scope) (err error) {
	s.pause, err = flow.PausedWithCluster(ctx, r.Client, s.claim)
	return err
}

func (r *Reconciler) readTemplate(ctx context.Context, s *scope) (err error) {
	for i := range s.claim.OwnerReferences {
		if hostdata.IsInfra(s.claim.OwnerReferences[i], "Metal3Machine") {
			s.machine = &s.claim.OwnerReferences[i]
			break
		}
	}
	key := client.ObjectKey{Namespace: s.claim.Namespace, Name: s.templateName()}
	s.template, err = flow.Find[infrav1.Metal3DataTemplate](ctx, r.Client, key)
	if s.template != nil && s.pause == "" {
		s.pause = flow.Paused(nil, s.template)
	}
	return err
}

func (r *Reconciler) readData(ctx context.Context, s *scope) error {
	all, err := r.Data.OfClaim(ctx, client.ObjectKeyFromObject(s.claim))
	if err != nil {
		return err
	}
	var own, outdated []*infrav1.Metal3Data
	for _, data := range all {
		answers, err := r.answers(ctx, s.claim, data)
		if err != nil {
			return err
		}
		if answers {
			own = append(own, data)
		} else {
			outdated = append(outdated, data)
		}
	}
	s.data, s.surplus = hostdata.Answer(s.claim, own)
	s.surplus = append(s.surplus, outdated...)
	return nil
}

// answers calls hostdata.Answers. For data of an earlier claim it reads live, because the cache may not show yet that
// the earlier claim deletes the data.
func (r *Reconciler) answers(
	ctx context.Context, claim *infrav1.Metal3DataClaim, data *infrav1.Metal3Data,
) (bool, error) {
	if answers := hostdata.Answers(claim, data); !answers || metav1.IsControlledBy(data, claim) {
		return answers, nil
	}
	current, err := flow.Find[infrav1.Metal3Data](ctx, r.Live, client.ObjectKeyFromObject(data))
	return current != nil && hostdata.Answers(claim, current), err
}

// templateName returns the name of the template. Empty if the claim names none.
func (s *scope) templateName() string {
	return ptr.Deref(s.claim.Spec.Template, infrav1.Metal3ObjectRef{}).Name
}

var ready = flow.Condition[*scope]{
	Type: infrav1.ReadyCondition, Initial: infrav1.AllocationFailedReason, Failed: infrav1.AllocationFailedReason,
	Done: func(s *scope) flow.Reached {
		return flow.Reached{
			Reason: infrav1.IndexAllocatedReason, Message: "Metal3Data " + s.data.Name + " belongs to the claim",
		}
	},
}

var deleting = flow.Condition[*scope]{
	Type: infrav1.DeletingCondition, Initial: infrav1.DeletingReason, Failed: infrav1.ReleaseFailedReason,
	Done: func(*scope) flow.Reached { return flow.Reached{Reason: infrav1.ClaimReleasedReason} },
}

// announce emits no event for an allocated index, because each machine has one.
func announce() flow.Announcement {
	return flow.Warnings(infrav1.InvalidClaimReason, infrav1.TemplateMissingReason, infrav1.AllocationFailedReason,
		infrav1.ReleaseFailedReason)
}

// setStatus sets renderedData, and errorMessage if the claim is not ready.
func setStatus(s *scope, results flow.Results) {
	if s.pause != "" || !s.claim.DeletionTimestamp.IsZero() {
		return
	}
	s.claim.Status.ErrorMessage = ""
	if result, known := results.Of(infrav1.ReadyCondition); known && !result.IsDone() {
		s.claim.Status.ErrorMessage = result.Message
	}
	if s.data != nil {
		s.claim.Status.RenderedData = &infrav1.Metal3ObjectRef{Name: s.data.Name, Namespace: s.data.Namespace}
	}
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	ofCluster, err := util.ClusterToTypedObjectsMapper(r.Client, &infrav1.Metal3DataClaimList{}, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("mapping Clusters to Metal3DataClaims: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.Metal3DataClaim{}, builder.WithPredicates(flow.NotOnlyStatus())).
		WithOptions(options).
		// The first event of a Metal3Data may show a second Metal3Data of a claim.
		Watches(&infrav1.Metal3Data{}, flow.Map(dataToClaim), builder.WithPredicates(flow.ComesOrGoes())).
		Watches(&infrav1.Metal3DataTemplate{}, flow.Map(r.templateToClaims),
			builder.WithPredicates(predicate.Or(flow.ComesOrLeaves(), flow.Updates(pauseChanges)))).
		Watches(&infrav1.Metal3Machine{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(flow.OnlyDeletes())).
		Watches(&clusterv1.Cluster{}, flow.Map(ofCluster),
			builder.WithPredicates(predicates.ClusterPausedTransitions(mgr.GetScheme(), ctrl.LoggerFrom(ctx)))).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the Metal3DataClaim controller: %w", err)
	}
	return nil
}

func dataToClaim(_ context.Context, data *infrav1.Metal3Data) []ctrl.Request {
	return flow.Request(data.Namespace, ptr.Deref(data.Spec.Claim, infrav1.Metal3ObjectRef{}).Name)
}

func pauseChanges(before, after *infrav1.Metal3DataTemplate) bool {
	return annotations.HasPaused(before) != annotations.HasPaused(after)
}

// templateToClaims requeues the claims of a template.
func (r *Reconciler) templateToClaims(ctx context.Context, template *infrav1.Metal3DataTemplate) []ctrl.Request {
	claims, err := r.Data.ClaimsOf(ctx, client.ObjectKeyFromObject(template))
	if err != nil {
		return nil
	}
	return flow.RequestsFor(claims, func(*infrav1.Metal3DataClaim) bool { return true })
}
