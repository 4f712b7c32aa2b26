// Package hostsim simulates BMO for benchmarks with thousands of hosts: it provisions and deprovisions hosts that BMO
// has inspected, without Ironic and hardware.
//
//	available ─► provisioning ─► provisioned
//	    ▲                            │ image cleared
//	    └────── deprovisioning ◄─────┘
//
// Each arrow is a write of the status, and so is each change of the power, which follows spec.online. Operations take
// no time. A story of test/move compares the simulator with BMO.
package hostsim

import (
	"context"
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// workers is the number of hosts to write at the same time.
const workers = 10

// Run simulates BMO until the context ends. It writes as the user of the configuration.
func Run(ctx context.Context, config *rest.Config) error {
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  build.Scheme(),
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return fmt.Errorf("starting the host simulator: %w", err)
	}
	// Each session of the benchmarks runs a simulator, and all have the same name.
	shared := true
	err = ctrl.NewControllerManagedBy(manager).
		Named("hostsim").
		For(&bmov1alpha1.BareMetalHost{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: &shared}).
		Complete(&simulator{client: manager.GetClient()})
	if err != nil {
		return fmt.Errorf("setting up the host simulator: %w", err)
	}
	return manager.Start(ctx)
}

type simulator struct {
	client client.Client
}

// Reconcile performs the next step of one host. The write enqueues the host for the following step.
func (s *simulator) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	host := &bmov1alpha1.BareMetalHost{}
	if err := s.client.Get(ctx, request.NamespacedName, host); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !step(host) {
		return reconcile.Result{}, nil
	}
	now := metav1.Now()
	host.Status.LastUpdated = &now
	err := s.client.Status().Update(ctx, host)
	if apierrors.IsConflict(err) {
		// The event of the newer host follows.
		err = nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// step performs the next step of a host. It returns false if there is none.
func step(host *bmov1alpha1.BareMetalHost) bool {
	imaged := host.Spec.Image != nil && host.Spec.Image.URL != ""
	switch host.Status.Provisioning.State {
	case bmov1alpha1.StateAvailable:
		if host.NeedsProvisioning() {
			return enter(host, bmov1alpha1.StateProvisioning)
		}
	case bmov1alpha1.StateProvisioning:
		if imaged {
			// The power is still the one that was read last.
			host.Status.Provisioning.Image = *host.Spec.Image
			return enter(host, bmov1alpha1.StateProvisioned)
		}
		return enter(host, bmov1alpha1.StateDeprovisioning)
	case bmov1alpha1.StateProvisioned:
		if !imaged {
			return enter(host, bmov1alpha1.StateDeprovisioning)
		}
	case bmov1alpha1.StateDeprovisioning:
		host.Status.Provisioning.Image = bmov1alpha1.Image{}
		return enter(host, bmov1alpha1.StateAvailable)
	default:
		return false
	}
	changes := host.Status.PoweredOn != host.Spec.Online
	host.Status.PoweredOn = host.Spec.Online
	return changes
}

// enter ends the operation of the current state and begins that of the next. It returns true.
func enter(host *bmov1alpha1.BareMetalHost, next bmov1alpha1.ProvisioningState) bool {
	now := metav1.Now()
	if metric := host.OperationMetricForState(host.Status.Provisioning.State); metric != nil {
		metric.End = now
	}
	if metric := host.OperationMetricForState(next); metric != nil {
		*metric = bmov1alpha1.OperationMetric{Start: now}
	}
	host.Status.Provisioning.State = next
	return true
}
