package hostmove

import (
	"context"
	"slices"
	"sync"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

const (
	// settleTime is the time after a pause in which BMO may still finish its writes. The status is recorded after it, and
	// again if it changes later.
	settleTime = 2 * time.Second

	// awaitNode is the time between two checks whether a Node has joined.
	awaitNode = 5 * time.Second

	// awaitForget is the time between two reads of the record of a host that moved away. The manager does not watch the
	// ConfigMap of the record.
	awaitForget = 20 * time.Second
)

// Hosts reads and writes hosts.
type Hosts interface {
	Hosts(ctx context.Context, namespace string) ([]*bmov1alpha1.BareMetalHost, error)
	Neighbours(ctx context.Context, namespace string) ([]pivot.Neighbour, error)
	Tenant(ctx context.Context, host *bmov1alpha1.BareMetalHost) (Tenant, error)
	Write(ctx context.Context, current, desired *bmov1alpha1.BareMetalHost) (*bmov1alpha1.BareMetalHost, error)
}

// Statuses writes the statuses of hosts.
type Statuses interface {
	RecordStatus(ctx context.Context, host types.NamespacedName, epoch pivot.Epoch) error
	RestoreStatus(ctx context.Context, host types.NamespacedName) error
	MarkProvisioned(ctx context.Context, host *bmov1alpha1.BareMetalHost) error
}

// Nodes finds nodes of workload clusters.
type Nodes interface {
	Joined(ctx context.Context, cluster types.NamespacedName, query workload.Query, since time.Time) (bool, error)
}

// Departures read the record of the hosts that moved away from a namespace.
type Departures interface {
	Of(ctx context.Context, namespace string) (pivot.Departure, error)
}

// Reconciler parks hosts before a move, resumes them after it, and requeues them in BMO when another Ironic takes over.
type Reconciler struct {
	Client   client.Client
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	Hosts    Hosts
	Statuses Statuses
	Nodes    Nodes

	// Departures are read for paused hosts that have no Cluster, or would be resumed where they were paused.
	Departures Departures

	// mutex guards the maps. After a restart of the manager they are empty, and hosts wait a little longer.
	mutex sync.Mutex
	// paused is the time since which a host was seen paused.
	paused map[types.NamespacedName]time.Time
	// holders are the turns of the VIP holders that were seen in a namespace, by namespace and name of the holder.
	holders map[string]map[string]turn
}

// turn is the order in which the hosts of a namespace get their Nudge for a VIP holder. A host that is created later
// has the place of its name.
type turn struct {
	// since is when the holder was seen first.
	since time.Time

	// names are those of the hosts at that time, in order.
	names []string
}

// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3clusters;metal3machines,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=metal3-moved-away,verbs=get

// Reconcile does the next step for one host.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	host := &bmov1alpha1.BareMetalHost{}
	if err := r.Client.Get(ctx, req.NamespacedName, host, client.UnsafeDisableDeepCopy); err != nil {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	around, err := r.Hosts.Neighbours(ctx, host.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	since := r.pausedFor(host)
	facts, err := r.facts(ctx, host, around, since)
	if err != nil {
		r.reportUnread(host, err)
		return ctrl.Result{}, err
	}
	step := pivot.PlanHost(host, around, facts)
	if step == pivot.Leave {
		return ctrl.Result{}, nil
	}
	if wait, err := r.wait(ctx, step, host, since, around); err != nil || wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, err
	}
	return r.finish(host, step, r.do(ctx, step, host, around))
}

// finish returns the result of a step that ended with an error, or nil.
func (r *Reconciler) finish(host *bmov1alpha1.BareMetalHost, step pivot.Step, err error) (ctrl.Result, error) {
	switch {
	case err == nil && (step == pivot.Await || step == pivot.Hold):
		return ctrl.Result{RequeueAfter: awaitNode}, nil
	case err == nil && step == pivot.KeepAway:
		return ctrl.Result{RequeueAfter: awaitForget}, nil
	case apierrors.IsConflict(err), err == nil && (step == pivot.MarkProvisioned || step == pivot.Restore):
		// No event announces a written status.
		return ctrl.Result{RequeueAfter: flow.ConflictDelay}, nil
	case outcome.IsRefused(err), apierrors.IsInternalError(err):
		r.Recorder.Eventf(host, nil, corev1.EventTypeWarning, "WriteRefused", "Move",
			"The API server refuses to change the host, so the host cannot be moved: %v", err)
		return flow.AfterRefusal(err)
	default:
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
}

// wait returns the time until a step of a host that was paused since then. Zero does the step now.
func (r *Reconciler) wait(ctx context.Context, step pivot.Step, host *bmov1alpha1.BareMetalHost, since time.Duration,
	around []pivot.Neighbour,
) (time.Duration, error) {
	_, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
	switch {
	case step == pivot.Settle:
		return settleTime - since, nil
	case step == pivot.Await && pivot.Explained(host, step):
		r.announce(host, step)
		return awaitNode, nil
	case step == pivot.Hold && paused && pivot.Explained(host, step):
		return awaitNode, nil
	case step == pivot.KeepAway && pivot.Explained(host, step):
		return awaitForget, nil
	case step == pivot.Nudge:
		return r.untilTurn(ctx, host, pivot.HolderName(*pivot.HolderFor(host, around)), around)
	default:
		return 0, nil
	}
}

// facts returns the facts about a host that was paused since then. Few hosts depend on their Nodes, and fewer on the
// workload cluster.
func (r *Reconciler) facts(ctx context.Context, host *bmov1alpha1.BareMetalHost, around []pivot.Neighbour,
	since time.Duration,
) (pivot.HostFacts, error) {
	facts := pivot.HostFacts{Settled: since >= settleTime}
	if pivot.MayHaveStayed(host, around) || pivot.MayHaveLeft(host, around) {
		left, err := r.Departures.Of(ctx, host.Namespace)
		if err != nil {
			return facts, err
		}
		facts.Stayed, facts.Left = left.HasStayed(host), left.HasLeft(host, around)
	}
	if !pivot.DependsOnNode(host) {
		return facts, nil
	}
	tenant, err := r.Hosts.Tenant(ctx, host)
	facts.Joined = tenant.Joined
	if err != nil || tenant.Joined || tenant.Cluster.Name == "" || !pivot.BeginsAgain(host, around) {
		return facts, err
	}
	facts.Joined, err = r.Nodes.Joined(ctx, tenant.Cluster, workload.OfHost(host), tenant.Since)
	if err != nil && !workload.IsUnreachable(err) {
		r.reportUnread(host, err)
	}
	// After any error the host has to be held, because BMO would provision it again.
	facts.Unknown = err != nil
	return facts, nil
}

func (r *Reconciler) reportUnread(host *bmov1alpha1.BareMetalHost, err error) {
	r.Recorder.Eventf(host, nil, corev1.EventTypeWarning, "ReadFailed", "Move",
		"What decides whether the host is paused or resumed cannot be read: %v", err)
}

func (r *Reconciler) do(ctx context.Context, step pivot.Step, host *bmov1alpha1.BareMetalHost,
	around []pivot.Neighbour,
) error {
	var err error
	switch {
	case step == pivot.Record:
		err = r.Statuses.RecordStatus(ctx, client.ObjectKeyFromObject(host), pivot.StampFor(host, around))
	case step == pivot.Restore:
		err = r.Statuses.RestoreStatus(ctx, client.ObjectKeyFromObject(host))
	case step == pivot.Keep && pivot.Explained(host, step):
	case step == pivot.MarkProvisioned && !pivot.MarksAnnotation(host):
		err = r.Statuses.MarkProvisioned(ctx, host)
	default:
		var written *bmov1alpha1.BareMetalHost
		if written, err = r.Hosts.Write(ctx, host, pivot.Apply(step, host, around)); err == nil {
			// The event waits behind those of the other hosts, and the time since the pause counts from here.
			r.pausedFor(written)
		}
	}
	if err != nil {
		return err
	}
	r.announce(host, step)
	return nil
}

func (r *Reconciler) announce(host *bmov1alpha1.BareMetalHost, step pivot.Step) {
	if event, known := announcements[step]; known {
		r.Recorder.Eventf(host, nil, event.eventType, event.reason, "Move", "%s", event.note)
	}
}

type announcement struct{ eventType, reason, note string }

// announcements has the steps with an event. A Nudge has none, because the Metal3Cluster has one for all of its hosts.
var announcements = map[pivot.Step]announcement{
	pivot.MarkProvisioned: {
		corev1.EventTypeWarning, "ProvisioningInterrupted",
		"The host lost its provisioned status, but its Node has joined. The host is kept as it is",
	},
	pivot.Await: {
		corev1.EventTypeWarning, "StatusLost",
		"The host has an image and lost its status. It stays paused until its Node has joined. If you remove " +
			"the pause, BMO writes the image again, which wipes its disks",
	},
	pivot.Hold: {
		corev1.EventTypeWarning, "ProvisioningHeld",
		"The Ironic that was provisioning the host is gone, and the workload cluster does not answer. The " +
			"host stays paused until the workload cluster says whether its Node has joined. Delete its Machine to " +
			"provision another host",
	},
	pivot.Restore: {
		corev1.EventTypeNormal, "StatusRestored",
		"Restored the status that arrived from another cluster in place of an older status",
	},
	pivot.Keep: {
		corev1.EventTypeWarning, "ArrivalHeld",
		"The host is a leftover of an earlier move and is not in the last one, or it arrived on a leftover " +
			"that is being deleted or has a newer status. It stays paused, because BMO could wipe it. " +
			"ReadyForMove of its Metal3Cluster has the remedy",
	},
	pivot.KeepAway: {
		corev1.EventTypeWarning, "MovedAway",
		"The host moved to another management cluster, which manages it. It stays paused, although another " +
			"Cluster of the namespace runs. If the other management cluster has released the host, forget the " +
			"move with clusterctl metal3 pivot forget",
	},
	pivot.AwaitIronic: {
		corev1.EventTypeWarning, "WaitingForIronic",
		"The host arrived before the Metal3Cluster whose Ironic endpoint serves it. It stays paused until " +
			"that has arrived, and its IronicEndpointReady is true",
	},
	pivot.Pause: {
		corev1.EventTypeNormal, "PausedForMove",
		"Paused because the Cluster of the host is paused",
	},
	pivot.FenceOff: {
		corev1.EventTypeWarning, "Fenced",
		"Paused because another management cluster manages the host. IronicEndpointReady of its Metal3Cluster " +
			"has the remedy",
	},
	pivot.Record: {
		corev1.EventTypeNormal, "ReadyForMove",
		"Recorded the status for BMO in the target cluster",
	},
	pivot.Resume: {
		corev1.EventTypeNormal, "ResumedAfterMove",
		"Removed the pause: the Cluster of the host runs, and its Ironic endpoint is ready",
	},
	pivot.Stay: {
		corev1.EventTypeWarning, "NotMoved",
		"Removed the pause: the host was created after clusterctl had discovered the objects of the " +
			"namespace, so it did not move. Create it in the other management cluster, and delete it here",
	},
}

// pausedFor returns the time for which this process has seen a host paused.
func (r *Reconciler) pausedFor(host *bmov1alpha1.BareMetalHost) time.Duration {
	key := client.ObjectKeyFromObject(host)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if _, paused := host.Annotations[bmov1alpha1.PausedAnnotation]; !paused {
		delete(r.paused, key)
		return 0
	}
	if _, known := r.paused[key]; !known {
		if r.paused == nil {
			r.paused = map[types.NamespacedName]time.Time{}
		}
		r.paused[key] = r.Clock.Now()
	}
	return r.Clock.Since(r.paused[key])
}

func (r *Reconciler) forget(host types.NamespacedName) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.paused, host)
}

// untilTurn returns the time until the Nudge of a host. Zero means now.
func (r *Reconciler) untilTurn(ctx context.Context, host *bmov1alpha1.BareMetalHost, holder string,
	around []pivot.Neighbour,
) (time.Duration, error) {
	turn, err := r.turnOf(ctx, host.Namespace, holder, around)
	if err != nil {
		return 0, err
	}
	place, _ := slices.BinarySearch(turn.names, host.Name)
	return max(0, pivot.WaveDelay(place)-r.Clock.Since(turn.since)), nil
}

// turnOf returns the turn of a holder. It reads the hosts at the first observation of the holder: with one list for
// each of n hosts, a handover would copy n*n hosts.
func (r *Reconciler) turnOf(ctx context.Context, namespace, holder string, around []pivot.Neighbour) (turn, error) {
	if known, is := r.heldSince(namespace, holder, around); is {
		return known, nil
	}
	hosts, err := r.Hosts.Hosts(ctx, namespace)
	if err != nil {
		return turn{}, err
	}
	begun := turn{since: r.Clock.Now(), names: make([]string, 0, len(hosts))}
	for _, host := range hosts {
		begun.names = append(begun.names, host.Name)
	}
	slices.Sort(begun.names)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if known, is := r.holders[namespace][holder]; is {
		// Another worker has seen the holder meanwhile.
		return known, nil
	}
	r.holders[namespace][holder] = begun
	return begun, nil
}

// heldSince returns the turn of a holder that was seen before. It drops holders that the namespace no longer has.
func (r *Reconciler) heldSince(namespace, holder string, around []pivot.Neighbour) (turn, bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	kept := map[string]turn{}
	for _, other := range around {
		if other.Holder == nil {
			continue
		}
		name := pivot.HolderName(*other.Holder)
		if known, is := r.holders[namespace][name]; is {
			kept[name] = known
		}
	}
	if r.holders == nil {
		r.holders = map[string]map[string]turn{}
	}
	r.holders[namespace] = kept
	known, is := kept[holder]
	return known, is
}
