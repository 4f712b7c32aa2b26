package metal3machine

import (
	"context"
	"errors"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// conflictDelay is how long to wait before looking again at an object that somebody else just changed. The cache
// usually shows the change by then.
const conflictDelay = 200 * time.Millisecond

// Hosts reads and writes the hosts of machines.
type Hosts interface {
	Holdings(ctx context.Context, machine types.NamespacedName, hint string) (hoststore.Holdings, error)
	Choose(ctx context.Context, wanted host.Wanted) (host.Choice, error)
	Write(ctx context.Context, current, desired *bmov1alpha1.BareMetalHost) (*bmov1alpha1.BareMetalHost, error)
	Forget(machine types.NamespacedName)
	Settle(ctx context.Context, machine types.NamespacedName, waits bool)
}

// Nodes reads and writes the nodes of workload clusters.
type Nodes interface {
	Find(ctx context.Context, cluster types.NamespacedName, query workload.Query) (host.NodeFacts, error)
	SetProviderID(ctx context.Context, cluster types.NamespacedName, node, providerID string) error
	Watch(ctx context.Context, cluster types.NamespacedName, watcher clustercache.Watcher) error
}

// Reconciler reconciles Metal3Machines.
type Reconciler struct {
	Client   client.Client
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	Hosts    Hosts
	Nodes    Nodes

	// Secrets reads Secrets from a cache that holds only those of clusters, with their values left out. Live reads the
	// others.
	Secrets, Live client.Reader

	// WatchFilter is the value of the label cluster.x-k8s.io/watch-filter that a machine must carry. Empty means any.
	WatchFilter string

	// SpecProblem says what is wrong with the spec of a machine. Empty means nothing.
	SpecProblem func(machine *infrav1.Metal3Machine) string

	// GuardImage is the container image with the guard that control-plane machines get with an Ironic endpoint.
	GuardImage string

	// FastTrack keeps released hosts powered on where cleaning is enabled.
	FastTrack bool

	// nodeWatch is set by SetupWithManager.
	nodeWatch clustercache.Watcher

	memory flow.Memory
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3clusters;metal3machinetemplates;metal3datas,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3dataclaims,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=*,verbs=get
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile moves one Metal3Machine towards what its spec wants.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	machine := &infrav1.Metal3Machine{}
	err := r.Client.Get(ctx, req.NamespacedName, machine)
	if apierrors.IsNotFound(err) {
		r.memory.Forget(req.NamespacedName)
		r.letGo(ctx, req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if flow.Moving(machine) || (r.WatchFilter != "" && !labels.HasWatchLabel(machine, r.WatchFilter)) {
		r.letGo(ctx, req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if r.memory.Behind(machine) {
		return ctrl.Result{RequeueAfter: flow.CatchUp}, nil
	}
	reporter := flow.Reporter{Client: r.Client, Recorder: r.Recorder, Announce: announce(), Memory: &r.memory}
	pass, err := reporter.Begin(machine)
	if err != nil {
		return ctrl.Result{}, err
	}
	s := &scope{machine: machine, pass: pass, reached: map[string]outcome.Outcome{}}
	defer func() { r.Hosts.Settle(ctx, req.NamespacedName, s.waits) }()
	if err := flow.Observe(ctx, s, r.readOwners, r.readHost, r.readBootstrapData, r.readData); err != nil {
		// Nothing is reported: what was not read would look as if it were not there.
		return ctrl.Result{}, err
	}
	reached, err := flow.Act(ctx, s, r.route(s)...)
	if errors.Is(err, hoststore.ErrConflict) {
		reached, err = outcome.Done().WithAfter(conflictDelay), nil
	}
	return pass.End(ctx, reached, err, func() { setStatus(s) })
}

// route lists the phases of a reconcile.
func (r *Reconciler) route(s *scope) []flow.Phase[*scope] {
	switch {
	case s.paused:
		return nil
	case !s.machine.DeletionTimestamp.IsZero():
		return phases(r.releaseHost, r.releaseData, r.dropFinalizer)
	case s.owner == nil || s.cluster == nil:
		return phases(r.waitForOwners)
	default:
		return phases(r.keepFinalizer, r.waitForOwners, r.checkSpec, r.equip, r.claimHost, r.releaseSurplus,
			r.claimData, r.provisionHost, r.linkNode)
	}
}

func phases(list ...flow.Phase[*scope]) []flow.Phase[*scope] { return list }

// letGo drops what this process remembers of a machine that it will not act on.
func (r *Reconciler) letGo(ctx context.Context, machine types.NamespacedName) {
	r.Hosts.Forget(machine)
	r.Hosts.Settle(ctx, machine, false)
}

func (r *Reconciler) keepFinalizer(_ context.Context, s *scope) (outcome.Outcome, error) {
	controllerutil.AddFinalizer(s.machine, infrav1.MachineFinalizer)
	return outcome.Done(), nil
}

func (r *Reconciler) dropFinalizer(_ context.Context, s *scope) (outcome.Outcome, error) {
	controllerutil.RemoveFinalizer(s.machine, infrav1.MachineFinalizer)
	return outcome.Done(), nil
}
