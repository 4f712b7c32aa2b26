package hostoperator_test

import (
	"context"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/fakeironic"
)

// describeFaults tells stories for which a real Ironic cannot be asked.
func describeFaults(s *suite, b *fakeBackend) {
	heal := func() { b.breakBy(fakeironic.Faults{}) }

	It("waits for an Ironic with a conductor, and counts how often", func(ctx context.Context) {
		w := s.world(ctx, b)
		b.breakBy(fakeironic.Faults{NoConductor: true})
		DeferCleanup(heal)
		w.operate()
		w.host(ctx, "host")
		before := unreachable()
		w.eventually(ctx, "host", inState(bmov1alpha1.StateRegistering))
		Eventually(unreachable).Should(BeNumerically(">=", before+2))
		w.consistently(ctx, "host", inState(bmov1alpha1.StateRegistering), isFine(), hasNode(""))
		heal()
		w.eventually(ctx, "host", inState(bmov1alpha1.StateAvailable), isFine())
	})

	It("reports a failed inspection until one succeeds", func(ctx context.Context) {
		w := s.world(ctx, b)
		b.breakBy(fakeironic.Faults{Inspection: "the ramdisk does not answer"})
		DeferCleanup(heal)
		w.operate()
		w.host(ctx, "host")
		w.eventually(ctx, "host", inState(bmov1alpha1.StateInspecting),
			hasFailed(bmov1alpha1.InspectionError, "the ramdisk does not answer"))
		heal()
		w.eventually(ctx, "host", inState(bmov1alpha1.StateAvailable), isFine(), HaveField("Status.ErrorCount", 0))
	})

	It("reports a failed change of power until one succeeds", func(ctx context.Context) {
		w := s.world(ctx, b)
		w.operate()
		w.provisioned(ctx, "host")
		b.breakBy(fakeironic.Faults{Power: "the BMC does not answer"})
		DeferCleanup(heal)
		w.change(ctx, "host", func(host *bmov1alpha1.BareMetalHost) { host.Spec.Online = false })
		w.eventually(ctx, "host", inState(bmov1alpha1.StateProvisioned), isOn(true),
			hasFailed(bmov1alpha1.PowerManagementError, "the BMC does not answer"))
		heal()
		w.eventually(ctx, "host", isOn(false), isFine(), HaveField("Status.ErrorCount", 0))
	})

	It("delays hosts beyond what Ironic may work on", func(ctx context.Context) {
		w := s.world(ctx, b)
		w.rules.Capacity = 1
		w.operate()
		names := []string{"first", "second"}
		for _, name := range names {
			w.host(ctx, name)
		}
		for _, name := range names {
			w.eventually(ctx, name, inState(bmov1alpha1.StateAvailable), isFine(), isOn(true))
		}

		By("working on one of two hosts")
		b.breakBy(fakeironic.Faults{Stuck: true})
		DeferCleanup(heal)
		w.change(ctx, "first", func(host *bmov1alpha1.BareMetalHost) { host.Spec.Image = w.image() })
		Eventually(func() string {
			node, _ := b.server.Node(w.namespace + "~first")
			return node.ProvisionState
		}).Should(Equal(string(nodes.Cleaning)))
		w.change(ctx, "second", func(host *bmov1alpha1.BareMetalHost) { host.Spec.Image = w.image() })
		w.eventually(ctx, "second", inState(bmov1alpha1.StateProvisioning),
			HaveField("Status.OperationalStatus", BeEquivalentTo(bmov1alpha1.OperationalStatusDelayed)))
		w.eventually(ctx, "first", inState(bmov1alpha1.StateProvisioning), isFine())

		By("working on one after the other")
		heal()
		for _, name := range names {
			w.eventually(ctx, name, inState(bmov1alpha1.StateProvisioned), isFine())
		}
	})
}

// unreachable is how often the operators of this process have waited for Ironic.
func unreachable() float64 {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == "lab_host_operator_ironic_unreachable_total" {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}
