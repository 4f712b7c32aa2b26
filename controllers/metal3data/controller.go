package metal3data

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// Data finds Metal3Data.
type Data interface {
	OfClaim(ctx context.Context, claim client.ObjectKey) ([]*infrav1.Metal3Data, error)
	OfTemplate(ctx context.Context, template client.ObjectKey) ([]*infrav1.Metal3Data, error)
}

// Reconciler reconciles Metal3Data.
type Reconciler struct {
	flow.Reporter

	Clock clock.PassiveClock
	Data  Data

	// Secrets reads from a cache of the Secrets of clusters, without their values. Live reads from the API server.
	Secrets, Live client.Reader

	// ByHostName names new IPClaims after the host instead of the Metal3Data, so that spec.preAllocations of a pool can
	// assign addresses to hosts.
	ByHostName bool

	// RecheckInterval is the time until the next check of what enqueues no Metal3Data: an object of another owner, and an
	// API that is not installed or has claims that cannot be listed. It is also the time from the start of the controller
	// to the watches of claims that no data requires. The default is 10 seconds.
	RecheckInterval time.Duration

	// newWatch starts the watch of the claims of one API. The function that it returns says whether the cache holds them.
	// SetupWithManager sets it.
	newWatch func(ctx context.Context, of api) (func() bool, error)

	// watched are the watches by the kind of the claims.
	watching sync.Mutex
	watched  map[string]watched

	// created are the claims that the cache has not shown yet.
	mu      sync.Mutex
	created sets.Set[createdClaim]
}

// createdClaim is a claim of an address that this process created.
type createdClaim struct {
	data      types.UID
	api, name string
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3datas,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3datas/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3dataclaims;metal3datatemplates;metal3machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch
// +kubebuilder:rbac:groups=ipam.metal3.io,resources=ipclaims,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=ipam.metal3.io,resources=ipaddresses;ippools,verbs=get
// +kubebuilder:rbac:groups=ipam.cluster.x-k8s.io,resources=ipaddressclaims,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=ipam.cluster.x-k8s.io,resources=ipaddresses,verbs=get
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create

// Reconcile renders or releases one Metal3Data. For an empty request, see enqueueStart.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if req == (ctrl.Request{}) {
		return ctrl.Result{}, r.startWatches(ctx)
	}
	data := &infrav1.Metal3Data{}
	pass, presence, err := r.Open(ctx, req.NamespacedName, data, announce)
	if presence == flow.Gone {
		return ctrl.Result{}, r.releaseAbandoned(ctx, req.NamespacedName)
	}
	if pass == nil || err != nil {
		return presence.Result(), err
	}
	s := &scope{data: data, pass: pass}
	if err := flow.Observe(ctx, s, r.readCluster, r.readClaim, r.readTemplate, r.readMachine, r.readHost); err != nil {
		return flow.ReadFailed(ctx, pass, err)
	}
	return flow.Run(ctx, pass, s, flow.Plan[*scope]{
		Paused:     s.pause,
		Conditions: []flow.Condition[*scope]{addressesReady, secretsReady, deleting},
		Stages:     r.route(s),
		Status:     setStatus,
	})
}

// route returns the stages of a reconcile. Data that is being deleted is rendered while its claim requires it.
func (r *Reconciler) route(s *scope) []flow.Stage[*scope] {
	switch {
	case s.pause != "":
		return nil
	case s.data.DeletionTimestamp.IsZero():
		return []flow.Stage[*scope]{
			addressesReady.Stage(r.waitForClaimed), addressesReady.Stage(r.keepFinalizer),
			addressesReady.Stage(r.findSecrets), addressesReady.Stage(r.waitForFacts),
			addressesReady.Stage(r.claimAddresses), secretsReady.Stage(r.render),
		}
	case s.claimed():
		return []flow.Stage[*scope]{
			deleting.Stage(r.findSecrets), deleting.Stage(r.waitForFacts), deleting.Stage(r.claimAddresses),
			deleting.Stage(r.render), deleting.Stage(r.waitForClaim),
		}
	default:
		return []flow.Stage[*scope]{
			deleting.Stage(r.confirmRelease), deleting.Stage(r.releaseAddresses),
			deleting.DropFinalizer(s.data, infrav1.DataFinalizer),
			deleting.DropFinalizer(s.data, infrav1.DataClaimFinalizer),
		}
	}
}

var addressesReady = flow.Condition[*scope]{
	Type: infrav1.AddressesReadyCondition, Initial: infrav1.WaitingForClaimReason, Failed: infrav1.AddressFailedReason,
	Done: func(*scope) flow.Reached { return flow.Reached{Reason: infrav1.AddressesReadyReason} },
}

var secretsReady = flow.Condition[*scope]{
	Type: infrav1.SecretsReadyCondition, Initial: infrav1.WaitingForAddressReason, Failed: infrav1.SecretsFailedReason,
	Done: secretsReached,
}

// secretsReached keeps the message about missing labels and annotations, because rendered data does not change.
func secretsReached(s *scope) flow.Reached {
	reached := flow.Reached{Reason: infrav1.SecretsReadyReason}
	switch {
	case s.empty != nil:
		reached.Message = *s.empty
	case conditions.GetReason(s.data, infrav1.SecretsReadyCondition) == reached.Reason:
		reached.Message = conditions.GetMessage(s.data, infrav1.SecretsReadyCondition)
	}
	return reached
}

var deleting = flow.Condition[*scope]{
	Type: infrav1.DeletingCondition, Initial: infrav1.DeletingReason, Failed: infrav1.ReleaseFailedReason,
	Done: func(*scope) flow.Reached { return flow.Reached{Reason: infrav1.AddressesReleasedReason} },
}

// failures returns the reasons that require an action of the user.
func failures() map[string]bool {
	return map[string]bool{
		infrav1.TemplateMissingReason: true, infrav1.AddressFailedReason: true, infrav1.AddressManagerMissingReason: true,
		infrav1.PoolMissingReason: true, infrav1.AddressConflictReason: true, infrav1.RenderingFailedReason: true,
		infrav1.SecretConflictReason: true, infrav1.SecretsFailedReason: true, infrav1.ClaimsNotListedReason: true,
	}
}

func announce(_ *metav1.Condition, after metav1.Condition) string {
	switch {
	case after.Reason == infrav1.WriteFailedReason, after.Reason == infrav1.ReadFailedReason:
		return corev1.EventTypeWarning
	case after.Type == infrav1.ReadyCondition:
		// It repeats another condition.
		return ""
	case failures()[after.Reason], after.Reason == infrav1.ReleaseFailedReason:
		return corev1.EventTypeWarning
	default:
		return ""
	}
}

func setStatus(s *scope, results flow.Results) {
	if s.pause != "" || !s.claimed() {
		return
	}
	status := &s.data.Status
	status.ErrorMessage = ""
	for _, condition := range []string{
		infrav1.AddressesReadyCondition, infrav1.SecretsReadyCondition, infrav1.DeletingCondition,
	} {
		if result, known := results.Of(condition); known && !result.IsDone() && failures()[result.Reason] {
			status.ErrorMessage = result.Message
		}
	}
	if s.rendered || status.Ready != nil {
		status.Ready = ptr.To(s.rendered)
	}
}
