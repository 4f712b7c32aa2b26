package metal3machine

import (
	"context"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// Hosts reads and writes the hosts of machines.
type Hosts interface {
	Holdings(ctx context.Context, machine types.NamespacedName, hint string) (hoststore.Holdings, error)
	Choose(ctx context.Context, wanted host.Wanted) (host.Choice, error)
	Write(ctx context.Context, current, desired *bmov1alpha1.BareMetalHost) (*bmov1alpha1.BareMetalHost, error)
	Forget(machine types.NamespacedName)
	Settle(ctx context.Context, machine types.NamespacedName, waits bool)
}

// Clusters lists the Clusters that decide whether BMO may act on a host.
type Clusters interface {
	Neighbours(ctx context.Context, namespace string) ([]pivot.Neighbour, error)
}

// Nodes reads and writes the nodes of workload clusters.
type Nodes interface {
	Find(ctx context.Context, cluster types.NamespacedName, query workload.Query) (host.NodeFacts, error)
	SetProviderID(ctx context.Context, cluster types.NamespacedName, node, providerID string) error
	Labels(ctx context.Context, cluster types.NamespacedName, node string) (workload.NodeLabels, bool, error)
	SetLabels(ctx context.Context, cluster types.NamespacedName, node string, changes map[string]*string) error
	Connection
}

// Connection watches the nodes of a workload cluster. Without a connection, it returns the outcome to report.
type Connection interface {
	Watch(ctx context.Context, cluster types.NamespacedName, watcher clustercache.Watcher) error
	WaitForAPIServer(ctx context.Context, cluster types.NamespacedName) outcome.Outcome
}

// Reconciler reconciles Metal3Machines.
type Reconciler struct {
	flow.Reporter

	Clock    clock.PassiveClock
	Hosts    Hosts
	Clusters Clusters
	Nodes    Nodes

	// Secrets reads from a cache of the Secrets of clusters, without their values. Live reads the others.
	Secrets, Live client.Reader

	// SpecProblem returns the validation error for the spec of a machine. Empty means that the spec is valid.
	SpecProblem func(machine *infrav1.Metal3Machine) string

	// GuardImage is the container image with the guard for control-plane machines with an Ironic endpoint.
	GuardImage string

	// FastTrack keeps released hosts powered on if cleaning is enabled.
	FastTrack bool

	// SecretInterval is the interval between two requests for a Secret that the spec names. The default is 15 seconds. The
	// cache contains only Secrets of clusters, so the creation of another Secret is no event.
	SecretInterval time.Duration

	// nodeWatch returns the watch of the Nodes of a cluster. SetupWithManager sets it.
	nodeWatch func(cluster types.NamespacedName) clustercache.Watcher
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3clusters;metal3machinetemplates;metal3datas,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3dataclaims,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinedeployments,verbs=get
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=*,verbs=get
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile reconciles one Metal3Machine.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	machine := &infrav1.Metal3Machine{}
	pass, presence, err := r.Open(ctx, req.NamespacedName, machine, announce())
	if presence == flow.Gone || presence == flow.Ignored {
		r.forget(ctx, req.NamespacedName)
	}
	if pass == nil || err != nil {
		return presence.Result(), err
	}
	s := &scope{machine: machine, pass: pass}
	defer func() { r.Hosts.Settle(ctx, req.NamespacedName, s.waits) }()
	if err := flow.Observe(ctx, s, r.readOwners, r.readHost, r.readData); err != nil {
		return flow.ReadFailed(ctx, pass, err)
	}
	return flow.Run(ctx, pass, s, flow.Plan[*scope]{
		Paused:     s.pause,
		Elsewhere:  s.isManagedElsewhere(),
		Conditions: s.conditions(),
		Stages:     r.route(s),
		Status:     setStatus,
	})
}

// route returns the stages of a reconcile. The preconditions of a claim do not apply to a host that has an image.
func (r *Reconciler) route(s *scope) []flow.Stage[*scope] {
	switch imaged := s.host != nil && host.IsImaged(s.host); {
	case s.isStopped():
		return nil
	case !s.machine.DeletionTimestamp.IsZero() && s.reclaimed() != nil:
		return append([]flow.Stage[*scope]{deleting.Stage(r.reclaimHost)}, r.release(s)...)
	case !s.machine.DeletionTimestamp.IsZero():
		return r.release(s)
	case imaged && (s.owner == nil || s.cluster == nil):
		return []flow.Stage[*scope]{associated.Stage(r.recordHost), linked.Stage(r.waitForOwner)}
	case imaged:
		return r.run(s)
	case s.reclaimed() != nil:
		return append([]flow.Stage[*scope]{associated.Stage(r.reclaimHost)}, r.run(s)...)
	case s.hostIsLost():
		return []flow.Stage[*scope]{
			associated.Stage(r.waitForOwner),
			associated.KeepFinalizer(s.machine, infrav1.MachineFinalizer),
			associated.Stage(r.reportLostHost),
		}
	default:
		return r.acquire(s)
	}
}

// acquire returns the stages of a machine without a host, or with a host without an image.
func (r *Reconciler) acquire(s *scope) []flow.Stage[*scope] {
	return []flow.Stage[*scope]{
		associated.Stage(r.waitForOwner),
		associated.KeepFinalizer(s.machine, infrav1.MachineFinalizer),
		associated.Stage(r.waitForHostDeletion),
		associated.Stage(r.waitForInfrastructure),
		associated.Stage(r.waitForBootstrapData),
		associated.Stage(r.checkSpec),
		associated.Stage(r.injectEndpoint),
		associated.Stage(r.requireSecrets),
		associated.Stage(r.claimHost),
		associated.Stage(r.releaseSurplus),
		dataReady.Stage(r.claimData),
		dataReady.Stage(r.waitForData),
		provisioned.Stage(r.provisionHost),
		linked.Stage(r.linkNode),
	}
}

// run returns the stages of a machine with an image on its host. Labels do not wait for the link: they require the Node
// that Cluster API has found.
func (r *Reconciler) run(s *scope) []flow.Stage[*scope] {
	stages := []flow.Stage[*scope]{
		associated.KeepFinalizer(s.machine, infrav1.MachineFinalizer),
		associated.Stage(r.recordHost),
		associated.Stage(r.releaseSurplus),
		dataReady.Stage(r.claimData),
		provisioned.Stage(r.provisionHost),
	}
	if s.labelPrefixes() != "" {
		stages = append(stages, labelsSynced.Stage(r.syncLabels))
	}
	return append(stages, linked.Stage(r.linkNode))
}

func (r *Reconciler) release(s *scope) []flow.Stage[*scope] {
	return []flow.Stage[*scope]{
		deleting.Stage(r.releaseHost),
		deleting.Stage(r.releaseSurplus),
		deleting.Stage(r.releaseData),
		deleting.DropFinalizer(s.machine, infrav1.MachineFinalizer),
	}
}

// forget drops the memory of a machine that is deleted or belongs to another manager.
func (r *Reconciler) forget(ctx context.Context, machine types.NamespacedName) {
	r.Hosts.Forget(machine)
	r.Hosts.Settle(ctx, machine, false)
}
