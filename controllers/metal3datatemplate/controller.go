package metal3datatemplate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// Data finds Metal3Data and their claims.
type Data interface {
	OfTemplate(ctx context.Context, template client.ObjectKey) ([]*infrav1.Metal3Data, error)
	ClaimsOf(ctx context.Context, template client.ObjectKey) ([]*infrav1.Metal3DataClaim, error)
}

// Reconciler reconciles Metal3DataTemplates.
type Reconciler struct {
	flow.Reporter

	Data Data
}

// scope holds what one reconcile observes.
type scope struct {
	template *infrav1.Metal3DataTemplate

	// pause is why the template is paused. Empty if it is not.
	pause string

	// data and claims are the users of the template. They are read-only.
	data   []*infrav1.Metal3Data
	claims []*infrav1.Metal3DataClaim
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3datatemplates,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3datatemplates/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3datas;metal3dataclaims,verbs=get;list;watch

// Reconcile reconciles one Metal3DataTemplate.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	template := &infrav1.Metal3DataTemplate{}
	pass, presence, err := r.Open(ctx, req.NamespacedName, template, announce())
	if pass == nil || err != nil {
		return presence.Result(), err
	}
	// Several Clusters may share the template, so the pause of one Cluster does not pause it.
	s := &scope{template: template, pause: flow.Paused(nil, template)}
	if err := flow.Observe(ctx, s, r.readUsers); err != nil {
		return flow.ReadFailed(ctx, pass, err)
	}
	plan := flow.Plan[*scope]{
		Paused: s.pause, Conditions: []flow.Condition[*scope]{ready, deleting}, Status: setStatus,
	}
	switch {
	case s.pause != "":
	case !template.DeletionTimestamp.IsZero():
		plan.Stages = []flow.Stage[*scope]{
			deleting.Stage(waitForUsers), deleting.DropFinalizer(template, infrav1.DataTemplateFinalizer),
		}
	default:
		plan.Stages = []flow.Stage[*scope]{
			ready.KeepFinalizer(template, infrav1.DataTemplateFinalizer), ready.Stage(shareTemplate),
		}
	}
	return flow.Run(ctx, pass, s, plan)
}

func (r *Reconciler) readUsers(ctx context.Context, s *scope) error {
	var err error
	if s.data, err = r.Data.OfTemplate(ctx, client.ObjectKeyFromObject(s.template)); err != nil {
		return err
	}
	s.claims, err = r.Data.ClaimsOf(ctx, client.ObjectKeyFromObject(s.template))
	return err
}

var ready = flow.Condition[*scope]{
	Type: infrav1.ReadyCondition, Initial: infrav1.TemplateReadyReason, Failed: infrav1.WriteFailedReason,
	Done: func(s *scope) flow.Reached {
		spec := s.template.Spec
		notes := slices.DeleteFunc([]string{
			hostdata.DuplicateKeys(spec.MetaData), hostdata.DuplicateIDs(spec.NetworkData),
			hostdata.IncompleteLinks(spec.NetworkData),
		}, func(note string) bool { return note == "" })
		return flow.Reached{Reason: infrav1.TemplateReadyReason, Message: strings.Join(notes, " ")}
	},
}

var deleting = flow.Condition[*scope]{
	Type: infrav1.DeletingCondition, Initial: infrav1.DeletingReason, Failed: infrav1.ReleaseFailedReason,
	Done: func(*scope) flow.Reached { return flow.Reached{Reason: infrav1.TemplateReleasedReason} },
}

func announce() flow.Announcement {
	return flow.Warnings(infrav1.TemplateInUseReason)
}

// shareTemplate removes the ownerReference to a Cluster from a template that another Cluster uses. CAPM3 before 1.14
// set it. The garbage collector would delete the template with its owner.
func shareTemplate(_ context.Context, s *scope) (outcome.Outcome, error) {
	s.template.OwnerReferences = slices.DeleteFunc(s.template.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.Kind == clusterv1.ClusterKind && strings.HasPrefix(owner.APIVersion, clusterv1.GroupVersion.Group+"/") &&
			slices.ContainsFunc(s.claims, func(claim *infrav1.Metal3DataClaim) bool {
				user := claim.Labels[clusterv1.ClusterNameLabel]
				return user != "" && user != owner.Name
			})
	})
	return outcome.Done(), nil
}

// waitForUsers waits until the Metal3Data of the template and its claims are deleted. Claims that are being deleted
// without an index get none.
func waitForUsers(_ context.Context, s *scope) (outcome.Outcome, error) {
	var users []string
	for _, data := range s.data {
		users = append(users, "Metal3Data "+data.Name)
	}
	for _, claim := range s.claims {
		if claim.Status.RenderedData != nil || claim.DeletionTimestamp.IsZero() {
			users = append(users, "Metal3DataClaim "+claim.Name)
		}
	}
	if len(users) == 0 {
		return outcome.Done(), nil
	}
	slices.Sort(users)
	return outcome.Waiting(infrav1.TemplateInUseReason, fmt.Sprintf(
		"Waiting for %s to be deleted. They are deleted with their Metal3Machines. Delete those without a Metal3Machine.",
		outcome.Names(users))), nil
}

func setStatus(s *scope, _ flow.Results) {
	if s.pause != "" {
		return
	}
	seen := map[int32]bool{}
	var indexes []infrav1.DataIndex
	for _, data := range s.data {
		index := ptr.Deref(data.Spec.Index, 0)
		if data.Spec.Claim == nil || seen[index] {
			continue
		}
		seen[index] = true
		indexes = append(indexes, infrav1.DataIndex{Index: index, Name: data.Spec.Claim.Name})
	}
	slices.SortFunc(indexes, func(a, b infrav1.DataIndex) int { return cmp.Compare(a.Index, b.Index) })
	s.template.Status.Indexes = indexes
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(_ context.Context, mgr ctrl.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.Metal3DataTemplate{}, builder.WithPredicates(flow.NotOnlyStatus())).
		WithOptions(options).
		Watches(&infrav1.Metal3Data{}, flow.Gather(flow.Second, toTemplate), builder.WithPredicates(flow.ComesOrGoes())).
		Watches(&infrav1.Metal3DataClaim{}, flow.Gather(flow.Second, toTemplate), builder.WithPredicates(flow.ComesOrGoes())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the Metal3DataTemplate controller: %w", err)
	}
	return nil
}

func toTemplate(_ context.Context, object client.Object) []ctrl.Request {
	return flow.Request(object.GetNamespace(), hostdata.TemplateOf(object))
}
