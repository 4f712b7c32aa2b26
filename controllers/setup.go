package controllers

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/hostmove"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/hostsweep"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3cluster"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3data"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3dataclaim"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3datatemplate"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3machine"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3machinetemplate"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3remediation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/movelabel"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/movesecret"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/datastore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/departure"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/handover"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// Options configures the controllers.
type Options struct {
	// Clusters connects to workload clusters.
	Clusters clustercache.ClusterCache

	// Namespace is the only namespace in the cache, except for Metal3Clusters. Empty means all namespaces.
	Namespace string

	// WatchFilter is the required value of the label cluster.x-k8s.io/watch-filter of objects. Empty means any.
	WatchFilter string

	// FastTrack keeps released hosts powered on if cleaning is enabled.
	FastTrack bool

	// SpecProblem returns the error in the spec of a Metal3Machine. Empty means none.
	SpecProblem func(machine *infrav1.Metal3Machine) string

	// GuardImage is the image of the guard for control-plane machines with an Ironic endpoint.
	GuardImage string

	// EndpointInterval is the interval between probes of an Ironic endpoint.
	EndpointInterval time.Duration

	// KeepMoveLabels sets the labels that clusterctl move requires on CRDs and Secrets of other programs and users.
	KeepMoveLabels bool

	// ClaimsByHostName names new IPClaims after the host, so that pools can preallocate addresses to hosts.
	ClaimsByHostName bool

	// Concurrency is the number of objects of a kind to reconcile at the same time.
	Concurrency Concurrency
}

// Concurrency is the number of objects of a kind to reconcile at the same time.
type Concurrency struct {
	Metal3Cluster, Metal3Machine, Metal3MachineTemplate int

	// Metal3DataTemplate is also the concurrency of Metal3DataClaims.
	Metal3DataTemplate, Metal3Data int

	Metal3Remediation int
}

// hostMoves is the number of hosts to prepare for a move at the same time. Each requires two small writes.
const hostMoves = 10

// SetupWithManager registers all controllers, in the order of this function.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if err := hoststore.SetupIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("setting up the indexes for BareMetalHosts: %w", err)
	}
	hosts := hoststore.New(mgr.GetClient(), mgr.GetAPIReader())
	if err := hosts.RegisterMetrics(); err != nil {
		return fmt.Errorf("registering metrics of hosts: %w", err)
	}
	offered, err := hosts.Watch(ctx, mgr.GetCache())
	if err != nil {
		return err
	}
	sweep := &hostsweep.Reconciler{
		Client:   mgr.GetClient(),
		Recorder: recorder(mgr, "hostsweep"),
		Hosts:    hosts,
	}
	if err := sweep.SetupWithManager(ctx, mgr, limits(1)); err != nil {
		return err
	}
	moving := hostmove.NewStore(hosts, mgr.GetClient(), mgr.GetAPIReader())
	moving.OneNamespace = options.Namespace != ""
	moves := &hostmove.Reconciler{
		Client:   mgr.GetClient(),
		Recorder: recorder(mgr, "hostmove"),
		Clock:    clock.RealClock{},
		Hosts:    moving,
		Statuses: moving,
		Nodes:    workload.New(options.Clusters, mgr.GetCache()),

		Departures: departure.New(mgr.GetClient()),
	}
	if err := moves.SetupWithManager(mgr, limits(hostMoves)); err != nil {
		return err
	}
	if err := setupMoveLabels(ctx, mgr, options); err != nil {
		return err
	}
	if err := setupClusters(ctx, mgr, hosts, options); err != nil {
		return err
	}
	templates := &metal3machinetemplate.Reconciler{
		Reporter: reporter(mgr, "metal3machinetemplate", options.WatchFilter),
		Hosts:    hosts,
	}
	if err := templates.SetupWithManager(ctx, mgr, limits(options.Concurrency.Metal3MachineTemplate)); err != nil {
		return err
	}
	if err := setupData(ctx, mgr, options); err != nil {
		return err
	}
	if err := setupRemediations(ctx, mgr, hosts, options); err != nil {
		return err
	}
	machines := newMachines(mgr, moving, options)
	sources := metal3machine.Sources{Offered: offered, Clusters: options.Clusters}
	return machines.SetupWithManager(ctx, mgr, sources, limits(options.Concurrency.Metal3Machine))
}

// setupMoveLabels registers the controllers that label the CRDs of BMO and Secrets without an owner.
func setupMoveLabels(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if !options.KeepMoveLabels {
		return nil
	}
	definitions := &movelabel.Reconciler{Client: mgr.GetClient(), Recorder: recorder(mgr, "movelabel")}
	if err := definitions.SetupWithManager(mgr, limits(1)); err != nil {
		return err
	}
	named := &movesecret.Reconciler{
		Client: mgr.GetClient(), Recorder: recorder(mgr, "movesecret"), Cached: mgr.GetCache(),
		WatchFilter: options.WatchFilter,
	}
	return named.SetupWithManager(ctx, mgr, limits(1))
}

func setupClusters(ctx context.Context, mgr ctrl.Manager, hosts *hoststore.Store, options Options) error {
	now := clock.RealClock{}
	endpoints := metal3cluster.NewEndpointProber(metal3cluster.ProbeIronic, now, options.EndpointInterval)
	if err := metal3cluster.RegisterMetrics(mgr.GetCache(), options.Namespace, endpoints); err != nil {
		return fmt.Errorf("registering metrics of Ironic endpoints: %w", err)
	}
	planes := workload.NewWatchedControlPlanes(options.Clusters, mgr.GetAPIReader(), mgr.GetCache())
	clusters := &metal3cluster.Reconciler{
		Reporter:  reporter(mgr, "metal3cluster", options.WatchFilter),
		Live:      mgr.GetAPIReader(),
		Clock:     now,
		Hosts:     hosts,
		Namespace: options.Namespace,
		Secrets: &secrets.Keeper{
			Client: mgr.GetClient(), Random: rand.Reader, Clock: now, Hash: secrets.HashPassword,
		},
		GuardImage: options.GuardImage,
		Endpoints:  endpoints,
		Nodes:      metal3cluster.NewNodeProber(planes, recorder(mgr, "metal3cluster"), now, options.EndpointInterval),
		Handover:   handover.New(mgr.GetClient()),
		Departures: departure.New(mgr.GetClient()),
	}
	return clusters.SetupWithManager(ctx, mgr, limits(options.Concurrency.Metal3Cluster))
}

// setupData registers the controllers of data templates.
func setupData(ctx context.Context, mgr ctrl.Manager, options Options) error {
	data := datastore.New(mgr.GetClient(), mgr.GetAPIReader())
	if err := data.Setup(ctx, mgr.GetFieldIndexer(), mgr.GetCache()); err != nil {
		return err
	}
	templates := &metal3datatemplate.Reconciler{
		Reporter: reporter(mgr, "metal3datatemplate", options.WatchFilter),
		Data:     data,
	}
	if err := templates.SetupWithManager(ctx, mgr, limits(options.Concurrency.Metal3DataTemplate)); err != nil {
		return err
	}
	claims := &metal3dataclaim.Reconciler{
		Reporter: reporter(mgr, "metal3dataclaim", options.WatchFilter),
		Data:     data,
		Live:     mgr.GetAPIReader(),
	}
	if err := claims.SetupWithManager(ctx, mgr, limits(options.Concurrency.Metal3DataTemplate)); err != nil {
		return err
	}
	rendered := &metal3data.Reconciler{
		Reporter:   reporter(mgr, "metal3data", options.WatchFilter),
		Clock:      clock.RealClock{},
		Data:       data,
		Secrets:    client.Reader(mgr.GetCache()),
		Live:       mgr.GetAPIReader(),
		ByHostName: options.ClaimsByHostName,
	}
	if err := rendered.RegisterMetrics(); err != nil {
		return fmt.Errorf("registering metrics of data: %w", err)
	}
	return rendered.SetupWithManager(ctx, mgr, limits(options.Concurrency.Metal3Data))
}

func setupRemediations(ctx context.Context, mgr ctrl.Manager, hosts *hoststore.Store, options Options) error {
	if err := metal3remediation.RegisterMetrics(mgr.GetCache()); err != nil {
		return fmt.Errorf("registering metrics of remediations: %w", err)
	}
	nodes := workload.New(options.Clusters, mgr.GetCache())
	remediations := &metal3remediation.Reconciler{
		Reporter:      reporter(mgr, "metal3remediation", ""),
		Clock:         clock.RealClock{},
		Hosts:         hosts,
		Nodes:         nodes,
		Clusters:      nodes,
		ControlPlanes: workload.NewControlPlanes(options.Clusters, mgr.GetAPIReader()),
		Live:          mgr.GetAPIReader(),
		WatchFilter:   options.WatchFilter,
	}
	return remediations.SetupWithManager(ctx, mgr, options.Clusters, limits(options.Concurrency.Metal3Remediation))
}

func newMachines(mgr ctrl.Manager, hosts *hostmove.Store, options Options) *metal3machine.Reconciler {
	return &metal3machine.Reconciler{
		Reporter:    reporter(mgr, "metal3machine", options.WatchFilter),
		Clock:       clock.RealClock{},
		Hosts:       hosts,
		Clusters:    hosts,
		Nodes:       workload.New(options.Clusters, mgr.GetCache()),
		Secrets:     client.Reader(mgr.GetCache()),
		Live:        mgr.GetAPIReader(),
		SpecProblem: options.SpecProblem,
		GuardImage:  options.GuardImage,
		FastTrack:   options.FastTrack,
	}
}

func reporter(mgr ctrl.Manager, controller, watchFilter string) flow.Reporter {
	return flow.Reporter{
		Client: mgr.GetClient(), Recorder: recorder(mgr, controller), WatchFilter: watchFilter,
	}
}

func recorder(mgr ctrl.Manager, controller string) events.EventRecorder {
	return flow.NewRecorder(mgr.GetEventRecorder(controller))
}

// firstRetry and lastRetry are the times until the retries after the first and after many errors. An error drops the
// timers of other stages, and the end of an outage, such as that of a webhook, is no event. So lastRetry is short.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = time.Minute
)

func limits(workers int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetry, lastRetry),
	}
}
