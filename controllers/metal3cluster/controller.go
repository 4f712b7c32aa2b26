package metal3cluster

import (
	"context"
	"errors"
	"sync"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/departure"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets"
)

// Secrets keeps the credentials and certificates of an Ironic endpoint.
type Secrets interface {
	Find(ctx context.Context, owner *infrav1.Metal3Cluster, cluster string) (secrets.Material, outcome.Outcome, error)
	Ensure(ctx context.Context, owner *infrav1.Metal3Cluster, cluster string, hosts []*bmov1alpha1.BareMetalHost,
	) (secrets.Material, outcome.Outcome, error)
}

// Hosts reads hosts, and writes hosts that are reserved for a deleted Cluster.
type Hosts interface {
	Hosts(ctx context.Context, namespace string) ([]*bmov1alpha1.BareMetalHost, error)
	LiveHosts(ctx context.Context, namespace string) ([]*bmov1alpha1.BareMetalHost, error)
	Write(ctx context.Context, current, desired *bmov1alpha1.BareMetalHost) (*bmov1alpha1.BareMetalHost, error)
}

// Handover records whether a cluster is handed over. The Ironic of the management cluster reads the record.
type Handover interface {
	Tell(ctx context.Context, clusterID string, handedOver bool) error
}

// Reconciler reconciles Metal3Clusters.
type Reconciler struct {
	flow.Reporter

	// Live reads control planes and their Machines in other namespaces from the API server.
	Live  client.Reader
	Clock clock.PassiveClock
	Hosts Hosts

	// Namespace is the namespace of the Metal3Clusters to reconcile. Empty means all. The cache has all Metal3Clusters,
	// because namespaces share networks and the Ironic of one may serve the hosts of others.
	Namespace string

	// Secrets keeps credentials and certificates of Ironic endpoints.
	Secrets Secrets

	// GuardImage is the container image with the guard for new control-plane machines with an Ironic endpoint.
	GuardImage string

	// Endpoints probes Ironic endpoints.
	Endpoints *EndpointProber

	// Nodes probes the nodes that run an Ironic endpoint.
	Nodes *NodeProber

	// Handover records when a cluster with an Ironic endpoint is moved away, and when it arrives.
	Handover Handover

	// Departures record the hosts that moved away.
	Departures departure.Memory

	// secretReads holds the last secretRead of each Metal3Cluster.
	secretReads sync.Map

	// secretProblems holds the time since which a Secret of the endpoint of a Metal3Cluster is missing or invalid.
	secretProblems sync.Map

	// trials has the results of trial pauses of hosts.
	trials pauseTrials

	// forgotten holds the epoch of each Metal3Cluster for which the record of the departure was read.
	forgotten sync.Map

	// lostRegistrations holds the nodes in Ironic of each Metal3Cluster whose IDs BMO has not saved, by the names of their
	// hosts.
	lostRegistrations sync.Map

	// gatherTimes holds the delay that merges changes of other objects, for each Metal3Cluster.
	gatherTimes sync.Map
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3clusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3clusters/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3remediations,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;patch
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=ironic-handover,verbs=patch
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=metal3-moved-away,verbs=get;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=create

// Reconcile reconciles one Metal3Cluster.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if r.Namespace != "" && req.Namespace != r.Namespace {
		return ctrl.Result{}, nil
	}
	infra := &infrav1.Metal3Cluster{}
	pass, presence, err := r.Open(ctx, req.NamespacedName, infra, announce())
	if annotations.IsExternallyManaged(infra) {
		pass, presence = nil, flow.Ignored
	}
	switch presence {
	case flow.Gone:
		r.Endpoints.Forget(req.NamespacedName)
		r.Nodes.Forget(req.NamespacedName)
		r.secretReads.Delete(req.NamespacedName)
		r.secretProblems.Delete(req.NamespacedName)
		r.gatherTimes.Delete(req.NamespacedName)
		r.lostRegistrations.Delete(req.NamespacedName)
		r.forgotten.Delete(req.NamespacedName)
	case flow.Ignored:
		r.Endpoints.Forget(req.NamespacedName)
		r.Nodes.Pause(req.NamespacedName)
	}
	if pass == nil || err != nil {
		return presence.Result(), err
	}
	s := &scope{infra: infra, pass: pass, holder: holderOf(infra)}
	if err := flow.Observe(ctx, s, r.readCluster, r.readSharers, r.readMove, r.readNodes, nameHosts,
		findSurroundings, r.readControlPlane,
	); err != nil {
		return flow.ReadFailed(ctx, pass, err)
	}
	result, err := flow.Run(ctx, pass, s, flow.Plan[*scope]{
		Paused: s.pause, Conditions: s.conditions(), Stages: r.route(s), Status: setStatus,
	})
	r.probeNodes(s)
	if pass.Stored() {
		r.announceHolder(s)
	}
	registered, repairErr := r.repairRegistrations(ctx, s)
	if err = errors.Join(err, repairErr); err != nil {
		return ctrl.Result{}, err
	}
	result.RequeueAfter = flow.Soonest(r.untilSecretsRead(s, s.withReads(result.RequeueAfter)), registered)
	return result, nil
}

func (r *Reconciler) route(s *scope) []flow.Stage[*scope] {
	switch {
	case s.pause != "":
		return []flow.Stage[*scope]{readyForMove.Stage(r.beginMove), readyForMove.Stage(r.openGate)}
	case !s.infra.DeletionTimestamp.IsZero():
		return r.deletion(s)
	default:
		return []flow.Stage[*scope]{
			infrastructureReady.Stage(waitForCluster),
			infrastructureReady.KeepFinalizer(s.infra, infrav1.ClusterFinalizer),
			readyForMove.Stage(keepGate),
			ironicReady.Stage(fence),
			ironicReady.Stage(r.chooseIdentity),
			ironicUnique.Stage(findConflicts),
			readyForMove.Stage(r.settleMove),
			infrastructureReady.Stage(findEndpoint),
			ironicReady.Stage(r.keepSecret),
			ironicReady.Stage(r.checkIronic),
			ironicReady.Stage(awaitClaim),
		}
	}
}
