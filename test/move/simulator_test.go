package move_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/hostsim"
)

// simulated compares BMO with its simulator, which the benchmarks run. BMO reads the power once a minute.
func simulated(c *clusters) story {
	return story{"shows the same states of a host as the simulator does", func(ctx context.Context) {
		w := c.world(ctx)
		operated := w.lives(ctx, func(host string) bool { return w.ironic.Powered(w.address(host)) })
		w.here = simulatedSide(ctx)
		Expect(w.here.client.Create(ctx, build.Namespace(w.namespace))).To(Succeed())
		Expect(cmp.Diff(operated, w.lives(ctx, nil))).To(BeEmpty(), "- BMO, + the simulator")
	}}.atNight()
}

// simulatedSide returns an API server with the simulator and without BMO.
func simulatedSide(ctx context.Context) *side {
	GinkgoHelper()
	server := startServer(ctx)
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- hostsim.Run(running, server.Config) }()
	DeferCleanup(func() {
		end()
		Expect(<-ended).To(Succeed())
	})
	return &side{name: "simulated", server: server, client: server.Client}
}

// lives returns the lives of a host that is always on, and of a host that is on only while it is claimed. powered
// returns true if the machine of a host is on. Nil means that there are no machines.
func (w *world) lives(ctx context.Context, powered func(host string) bool) map[string][]string {
	GinkgoHelper()
	lives := map[string][]string{}
	for name, online := range map[string]bool{"always-on": true, "off-while-free": false} {
		lives[name] = w.life(ctx, name, online, powered)
	}
	return lives
}

// life claims and releases a host, and returns the observed states without repetitions. Status and machine have the
// power of the spec at the end of each part: BMO reads the power only from time to time.
func (w *world) life(ctx context.Context, name string, online bool, powered func(host string) bool) []string {
	GinkgoHelper()
	events := w.here.watch(ctx, w.namespace, &bmov1alpha1.BareMetalHostList{}).ResultChan()
	var seen []string
	last := ""
	next := func() *bmov1alpha1.BareMetalHost {
		var event watch.Event
		Eventually(events).Should(Receive(&event, HaveField("Object", HaveField("Name", name))))
		host, isHost := event.Object.(*bmov1alpha1.BareMetalHost)
		Expect(isHost).To(BeTrue(), "%v", event)
		if now := aspect(host); now != last {
			seen, last = append(seen, now), now
		}
		return host
	}
	until := func(state bmov1alpha1.ProvisioningState, on bool) {
		for {
			reached, err := And(inState(state), isFine(), HaveField("Status.PoweredOn", on)).Match(next())
			Expect(err).NotTo(HaveOccurred())
			if reached {
				return
			}
		}
	}
	settle := func(state bmov1alpha1.ProvisioningState, on bool) {
		until(state, on)
		if powered != nil {
			Eventually(powered).WithArguments(name).Should(Equal(on))
		}
	}
	w.host(ctx, name, func(host *bmov1alpha1.BareMetalHost) { host.Spec.Online = online })
	if powered == nil {
		// The simulator requires available hosts.
		host := &bmov1alpha1.BareMetalHost{}
		Expect(w.here.client.Get(ctx, w.key(name), host)).To(Succeed())
		host.Status.Provisioning.State, host.Status.PoweredOn = bmov1alpha1.StateAvailable, online
		host.Status.OperationalStatus = bmov1alpha1.OperationalStatusOK
		Expect(w.here.client.Status().Update(ctx, host)).To(Succeed())
	}
	settle(bmov1alpha1.StateAvailable, online)
	seen = []string{"claim"}
	w.change(ctx, name, func(host *bmov1alpha1.BareMetalHost) {
		imaged(host)
		host.Spec.Online = true
	})
	settle(bmov1alpha1.StateProvisioned, true)
	seen = append(seen, "release")
	w.change(ctx, name, func(host *bmov1alpha1.BareMetalHost) { host.Spec.Image, host.Spec.Online = nil, online })
	released := len(seen)
	if online && powered != nil {
		// Cleaning has powered the machine off. BMO reads the power, and powers the machine on. Before that, the host is
		// available with the power from before the cleaning, and the machine may already be on again.
		until(bmov1alpha1.StateAvailable, false)
	}
	settle(bmov1alpha1.StateAvailable, online)
	if online {
		// The simulator does not simulate that.
		available := slices.IndexFunc(seen[released:], func(aspect string) bool { return strings.HasPrefix(aspect, "available") })
		seen = seen[:released+available+1]
	}
	return seen
}

// aspect returns the fields of a host that the provider depends on.
func aspect(host *bmov1alpha1.BareMetalHost) string {
	return fmt.Sprintf("%s, %s, powered on %v, image %v, annotations %s", host.Status.Provisioning.State,
		host.Status.OperationalStatus, host.Status.PoweredOn, host.Status.Provisioning.Image.URL != "",
		strings.Join(slices.Sorted(maps.Keys(host.Annotations)), " "))
}
