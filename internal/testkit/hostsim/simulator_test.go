package hostsim_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/hostsim"
)

const (
	// patience is the time limit for the simulator.
	patience = 2 * time.Minute

	hosts = 100
)

// TestRun claims and releases many hosts on a real API server.
func TestRun(t *testing.T) {
	ctrl.SetLogger(klog.Background())
	g := NewWithT(t)
	server, err := env.Start(t.Context(), env.Options{Definitions: []components.Group{components.BaremetalOperator}})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(server.Stop()).To(Succeed()) })
	g.Expect(server.Client.Create(t.Context(), build.Namespace(build.DefaultNamespace))).To(Succeed())
	for i := range hosts {
		host := build.Host(fmt.Sprintf("host-%d", i), build.Available())
		g.Expect(build.CreateWithStatus(t.Context(), server.Client, host)).To(Succeed())
	}
	simulate(t, server)

	change(t, server, func(host *bmov1alpha1.BareMetalHost) {
		host.Spec.Image, host.Spec.Online = &bmov1alpha1.Image{URL: build.ImageURL}, true
	})
	g.Eventually(count(t, server, bmov1alpha1.StateProvisioned, true, build.ImageURL), patience).Should(Equal(hosts))

	change(t, server, func(host *bmov1alpha1.BareMetalHost) { host.Spec.Image, host.Spec.Online = nil, false })
	g.Eventually(count(t, server, bmov1alpha1.StateAvailable, false, ""), patience).Should(Equal(hosts))
}

// simulate runs the simulator until the end of the test.
func simulate(t *testing.T, server *env.Server) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- hostsim.Run(ctx, server.Config) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func list(t *testing.T, server *env.Server) []bmov1alpha1.BareMetalHost {
	t.Helper()
	var found bmov1alpha1.BareMetalHostList
	if err := server.Client.List(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	return found.Items
}

// count returns the number of hosts with a state, a power and an image.
func count(t *testing.T, server *env.Server, state bmov1alpha1.ProvisioningState, on bool, image string) func() int {
	t.Helper()
	return func() int {
		count := 0
		for _, host := range list(t, server) {
			status := host.Status
			if status.Provisioning.State == state && status.PoweredOn == on && status.Provisioning.Image.URL == image {
				count++
			}
		}
		return count
	}
}

// change changes all hosts. It repeats the change if the simulator wrote a host at the same time.
func change(t *testing.T, server *env.Server, edit func(*bmov1alpha1.BareMetalHost)) {
	t.Helper()
	for _, host := range list(t, server) {
		before := host.DeepCopy()
		edit(&host)
		if err := server.Client.Patch(t.Context(), &host, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	}
}
