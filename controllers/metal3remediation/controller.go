package metal3remediation

import (
	"context"
	"sync"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/remediation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// Hosts reads and writes the hosts of machines.
type Hosts interface {
	Holdings(ctx context.Context, machine types.NamespacedName, hint string) (hoststore.Holdings, error)
	Write(ctx context.Context, current, desired *bmov1alpha1.BareMetalHost) (*bmov1alpha1.BareMetalHost, error)
}

// Nodes reads and writes the nodes of workload clusters.
type Nodes interface {
	Read(ctx context.Context, cluster types.NamespacedName, name string) (*corev1.Node, error)
	Write(ctx context.Context, cluster types.NamespacedName, current, desired *corev1.Node) error
	Delete(ctx context.Context, cluster types.NamespacedName, node *corev1.Node) error
	Watch(ctx context.Context, cluster types.NamespacedName, watcher clustercache.Watcher) error
	WaitForAPIServer(ctx context.Context, cluster types.NamespacedName) outcome.Outcome
}

// Clusters reads the version of a cluster and the pods on a fenced node.
type Clusters interface {
	Version(ctx context.Context, cluster types.NamespacedName) (string, error)
	Pods(ctx context.Context, cluster types.NamespacedName, node string) ([]corev1.Pod, error)
}

// ControlPlanes reads the nodes with an Ironic endpoint.
type ControlPlanes interface {
	Read(ctx context.Context, cluster types.NamespacedName, clusterID string) (workload.ControlPlane, error)
}

// Reconciler reconciles Metal3Remediations.
type Reconciler struct {
	flow.Reporter

	Clock         clock.PassiveClock
	Hosts         Hosts
	Nodes         Nodes
	Clusters      Clusters
	ControlPlanes ControlPlanes

	// Live reads from the API server.
	Live client.Reader

	// WatchFilter is the value of the label cluster.x-k8s.io/watch-filter that the Metal3Remediation or its Metal3Machine
	// must have: a MachineHealthCheck does not set the label. Empty means any. The filter of the Reporter stays empty.
	WatchFilter string

	// nodeWatch returns the watch of the Nodes of a cluster. SetupWithManager sets it.
	nodeWatch func(cluster types.NamespacedName) clustercache.Watcher

	// suspended are the remediations with a stopped timeout. A new manager finds them again.
	suspended sync.Map

	// since is when this manager began to reconcile. begin sets it once.
	since time.Time
	begin sync.Once

	turns turns
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3remediations,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3remediations/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3clusters;metal3machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines/status,verbs=patch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=nodes;pods,verbs=list
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile reconciles one Metal3Remediation.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.begin.Do(func() { r.since = r.Clock.Now() })
	request := &infrav1.Metal3Remediation{}
	pass, presence, err := r.Open(ctx, req.NamespacedName, request, announce())
	if presence == flow.Gone {
		r.suspended.Delete(req.NamespacedName)
	}
	if presence != flow.Behind {
		r.turns.end(req.NamespacedName)
	}
	if pass == nil || err != nil {
		return presence.Result(), err
	}
	s := newScope(request, pass)
	if err := flow.Observe(ctx, s, r.readOwner, r.readCluster, r.readMachine, r.readHost); err != nil {
		return flow.ReadFailed(ctx, pass, err)
	}
	if r.isFiltered(s) {
		return ctrl.Result{}, nil
	}
	if s.isStopped() {
		r.suspended.Store(req.NamespacedName, true)
	}
	return flow.Run(ctx, pass, s, flow.Plan[*scope]{
		Paused:     s.pause,
		Elsewhere:  s.isManagedElsewhere(),
		Conditions: []condition{rebooted, restored, deleting},
		Stages:     r.route(s),
		Status:     setStatus,
	})
}

// isFiltered returns true if another manager reconciles the remediation. Without its Metal3Machine, a remediation that
// has begun can only be deleted.
func (r *Reconciler) isFiltered(s *scope) bool {
	switch {
	case r.WatchFilter == "", labels.HasWatchLabel(s.request, r.WatchFilter):
		return false
	case s.machine != nil:
		return !labels.HasWatchLabel(s.machine, r.WatchFilter)
	default:
		return s.request.DeletionTimestamp.IsZero()
	}
}

func (r *Reconciler) route(s *scope) []flow.Stage[*scope] {
	switch {
	case s.isStopped():
		return nil
	case !s.request.DeletionTimestamp.IsZero():
		return []flow.Stage[*scope]{
			deleting.Stage(r.releaseHost), deleting.Stage(r.releaseNode),
			deleting.DropFinalizer(s.request, infrav1.RemediationFinalizer),
		}
	case remediation.IsLost(s.subject()):
		return []flow.Stage[*scope]{rebooted.Stage(r.replace)}
	default:
		return []flow.Stage[*scope]{
			rebooted.Stage(r.renew),
			rebooted.Stage(r.suspending(r.checkFacts)),
			rebooted.Stage(r.extend),
			rebooted.Stage(r.protectTry),
			rebooted.Stage(r.advance),
			rebooted.Stage(r.escalate),
			rebooted.Stage(r.powerOff),
			rebooted.Stage(r.fence),
			rebooted.Stage(r.powerOn),
			restored.Stage(r.restore),
		}
	}
}
