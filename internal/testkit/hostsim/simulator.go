package hostsim

import (
	"context"
	"fmt"
	"sync"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// workers is the default number of hosts to write at the same time.
const workers = 10

// Options are the settings of the simulator.
type Options struct {
	// Delays are the durations of operations.
	Delays Delays

	// Namespace limits the simulator to the hosts of one namespace. Empty means all.
	Namespace string

	// Workers is the number of hosts to write at the same time. Zero means ten.
	Workers int

	// Clock returns the time. Nil means the real time.
	Clock clock.PassiveClock
}

// Run simulates BMO until the context ends. It writes as the user of the configuration.
func Run(ctx context.Context, config *rest.Config, options Options) error {
	managerOptions := ctrl.Options{
		Scheme:  build.Scheme(),
		Metrics: metricsserver.Options{BindAddress: "0"},
	}
	if options.Namespace != "" {
		managerOptions.Cache.DefaultNamespaces = map[string]cache.Config{options.Namespace: {}}
	}
	// The API server warns about the name of the finalizer, which BMO defines.
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{}
	manager, err := ctrl.NewManager(config, managerOptions)
	if err != nil {
		return fmt.Errorf("starting the host simulator: %w", err)
	}
	if err := SetupWithManager(manager, options); err != nil {
		return err
	}
	return manager.Start(ctx)
}

// SetupWithManager adds the simulator to a manager. The caller starts the manager.
func SetupWithManager(manager ctrl.Manager, options Options) error {
	if options.Workers == 0 {
		options.Workers = workers
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	// The simulators of both sides of a move in one process are two controllers with the same name.
	shared := true
	err := ctrl.NewControllerManagedBy(manager).
		Named("hostsim").
		For(&bmov1alpha1.BareMetalHost{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: options.Workers, SkipNameValidation: &shared}).
		Complete(&simulator{client: manager.GetClient(), delays: options.Delays, clock: options.Clock})
	if err != nil {
		return fmt.Errorf("setting up the host simulator: %w", err)
	}
	return nil
}

type simulator struct {
	client client.Client
	delays Delays
	clock  clock.PassiveClock

	// waiting has, for each host with a delayed step, the time since which it is the next step.
	waiting sync.Map
}

// since is a state and the time when the simulator first observed that the host waits in it.
type since struct {
	uid   types.UID
	state bmov1alpha1.ProvisioningState
	begin time.Time
}

// Reconcile performs the next step of one host. The write enqueues the host for the following step.
func (s *simulator) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var host bmov1alpha1.BareMetalHost
	if err := s.client.Get(ctx, request.NamespacedName, &host); err != nil {
		s.waiting.Delete(request.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	step, err := next(&host, s.delays)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	if step.isIdle() {
		s.waiting.Delete(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	if left := s.left(&host, step.after); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	written, err := s.write(ctx, &host, step)
	if written {
		s.waiting.Delete(request.NamespacedName)
	}
	return reconcile.Result{}, err
}

// left returns the remaining time of a delay.
func (s *simulator) left(host *bmov1alpha1.BareMetalHost, delay time.Duration) time.Duration {
	if delay <= 0 {
		return 0
	}
	now := since{uid: host.UID, state: host.Status.Provisioning.State, begin: s.clock.Now()}
	seen, _ := s.waiting.LoadOrStore(client.ObjectKeyFromObject(host), now)
	began, isSince := seen.(since)
	if !isSince || began.uid != now.uid || began.state != now.state {
		s.waiting.Store(client.ObjectKeyFromObject(host), now)
		began = now
	}
	return delay - now.begin.Sub(began.begin)
}

// write writes the change with the resource version that was read: a step for an old host is dropped, because the event
// of the newer host follows. The elapsed part of a delay counts for the next attempt.
func (s *simulator) write(ctx context.Context, host *bmov1alpha1.BareMetalHost, step step) (written bool, err error) {
	now := metav1.NewTime(s.clock.Now())
	if step.meta != nil {
		before := host.DeepCopy()
		step.meta(host, now)
		err = s.client.Patch(ctx, host, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	} else {
		step.status(host, now)
		host.Status.LastUpdated = &now
		// An update, because a patch omits empty fields, and the first status requires all fields.
		err = s.client.Status().Update(ctx, host)
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
