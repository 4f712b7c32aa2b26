package hostoperator_test

import (
	"context"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func describeMoves(s *suite, b backend) {
	It("adopts all hosts with an Ironic that has an empty database", func(ctx context.Context) {
		w := s.world(ctx, b)
		w.operate()
		for _, name := range []string{"one", "two", "three"} {
			w.provisioned(ctx, name)
		}
		w.host(ctx, "foreign", func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.ExternallyProvisioned, host.Spec.Online = true, false
		})
		w.eventually(ctx, "foreign", inState(bmov1alpha1.StateExternallyProvisioned))
		w.host(ctx, "free", func(host *bmov1alpha1.BareMetalHost) { host.Spec.Online = false })
		w.eventually(ctx, "free", inState(bmov1alpha1.StateAvailable))

		states := map[string]bmov1alpha1.ProvisioningState{
			"one": bmov1alpha1.StateProvisioned, "two": bmov1alpha1.StateProvisioned, "three": bmov1alpha1.StateProvisioned,
			"foreign": bmov1alpha1.StateExternallyProvisioned, "free": bmov1alpha1.StateAvailable,
		}
		before, sent := map[string]*bmov1alpha1.BareMetalHost{}, map[string][]string{}
		for name := range states {
			before[name], sent[name] = w.get(ctx, name), w.commands(w.machine(name))
		}

		By("changing nothing while there is no Ironic")
		w.lose(ctx)
		for name := range states {
			w.annotate(ctx, name, "example.com/wake", "1")
		}
		for name := range states {
			Consistently(w.look(name), ctx).WithTimeout(quiet/4).
				Should(HaveField("Status", before[name].Status), "host %s", name)
		}

		By("registering all hosts with another one")
		w.replace(ctx)
		started := time.Now()
		for name, state := range states {
			w.eventually(ctx, name, inState(state), isFine(), Not(hasNode(before[name].Status.Provisioning.ID)))
		}
		AddReportEntry("all hosts known again after", time.Since(started).String())
		for name, state := range states {
			w.consistently(ctx, name, inState(state), isFine(), isOn(before[name].Status.PoweredOn))
			Expect(w.commands(w.machine(name))).To(Equal(sent[name]), "nobody may do anything to %s", name)
		}
	})

	It("takes a changed annotation for a reason to look at once", func(ctx context.Context) {
		w := s.world(ctx, b)
		w.operate()
		w.provisioned(ctx, "host")
		before, sent := w.get(ctx, "host"), w.commands(w.machine("host"))
		w.lose(ctx)
		w.replace(ctx)
		w.consistently(ctx, "host", hasNode(before.Status.Provisioning.ID))
		w.annotate(ctx, "host", "example.com/wake", "1")
		w.eventually(ctx, "host", isFine(), inState(bmov1alpha1.StateProvisioned),
			Not(hasNode(before.Status.Provisioning.ID)))
		Expect(w.commands(w.machine("host"))).To(Equal(sent))
	})

	It("takes over a host that was moved, without doing anything to it", func(ctx context.Context) {
		w := s.world(ctx, b)
		w.operate()
		w.provisioned(ctx, "host")
		before, sent := w.get(ctx, "host"), w.commands(w.machine("host"))

		w.move(ctx, "host")
		w.consistently(ctx, "host", HaveField("Status.LastUpdated", BeNil()),
			HaveField("Annotations", HaveKey(bmov1alpha1.StatusAnnotation)))

		w.change(ctx, "host", func(host *bmov1alpha1.BareMetalHost) {
			delete(host.Annotations, bmov1alpha1.PausedAnnotation)
		})
		w.eventually(ctx, "host", HaveField("Annotations", BeEmpty()), isFine(), isOn(true),
			inState(bmov1alpha1.StateProvisioned), hasNode(before.Status.Provisioning.ID),
			HaveField("Status.Provisioning.Image", before.Status.Provisioning.Image),
			HaveField("Status.HardwareDetails", before.Status.HardwareDetails),
		)
		w.consistently(ctx, "host", isFine(), isOn(true), inState(bmov1alpha1.StateProvisioned))
		Expect(w.commands(w.machine("host"))).To(Equal(sent))
	})

	It("does nothing with a paused host", func(ctx context.Context) {
		w := s.world(ctx, b)
		w.operate()
		w.host(ctx, "host")
		w.eventually(ctx, "host", inState(bmov1alpha1.StateAvailable))
		w.annotate(ctx, "host", bmov1alpha1.PausedAnnotation, "")
		w.change(ctx, "host", func(host *bmov1alpha1.BareMetalHost) { host.Spec.Image = w.image() })
		w.consistently(ctx, "host", inState(bmov1alpha1.StateAvailable))
		w.change(ctx, "host", func(host *bmov1alpha1.BareMetalHost) { host.Annotations = nil })
		w.eventually(ctx, "host", inState(bmov1alpha1.StateProvisioned), isFine())
	})

	It("detaches a host and takes it back, without doing anything to it", func(ctx context.Context) {
		w := s.world(ctx, b)
		w.operate()
		w.provisioned(ctx, "host")
		before, sent := w.get(ctx, "host"), w.commands(w.machine("host"))

		w.annotate(ctx, "host", bmov1alpha1.DetachedAnnotation, "")
		w.eventually(ctx, "host", inState(bmov1alpha1.StateProvisioned),
			HaveField("Status.OperationalStatus", bmov1alpha1.OperationalStatusDetached))

		w.change(ctx, "host", func(host *bmov1alpha1.BareMetalHost) { host.Annotations = nil })
		w.eventually(ctx, "host", isFine(), inState(bmov1alpha1.StateProvisioned),
			Not(hasNode(before.Status.Provisioning.ID)))
		w.consistently(ctx, "host", isFine(), isOn(true))
		Expect(w.commands(w.machine("host"))).To(Equal(sent))
	})

	It("lets a detached host go as it is", func(ctx context.Context) {
		w := s.world(ctx, b)
		w.operate()
		w.provisioned(ctx, "host")
		sent := w.commands(w.machine("host"))
		w.annotate(ctx, "host", bmov1alpha1.DetachedAnnotation, `{"deleteAction":"delete"}`)
		w.eventually(ctx, "host", HaveField("Status.OperationalStatus", bmov1alpha1.OperationalStatusDetached))
		Expect(w.Delete(ctx, w.get(ctx, "host"))).To(Succeed())
		w.eventuallyGone(ctx, "host")
		Expect(w.commands(w.machine("host"))).To(Equal(sent))
	})
}
