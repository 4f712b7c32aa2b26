package metal3cluster_test

import (
	"context"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeDeletions are the stories of a deletion during a pause. The manager resumes paused hosts only behind a closed
// gate and with a verified Ironic endpoint, and without these the Machines stay.
func describeDeletions(s *suite) {
	It("closes its gate and ends the move when its Cluster runs again during its deletion", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx, begun()))
		w.ready(ctx)
		w.pause(ctx, true)
		w.gate(ctx, false)
		w.create(ctx, build.Machine("machine", clusterName, build.InNamespace(w.namespace)))
		w.remove(ctx)
		w.pause(ctx, false)
		w.gate(ctx, true)
		Eventually(func(g Gomega) {
			g.Expect(pivot.EpochOf(w.get(ctx, g)).IsMove()).To(BeFalse())
			g.Expect(w.departed(ctx, g).Infras).To(BeEmpty())
		}).Should(Succeed())
		w.eventually(ctx, infrav1.DeletingCondition, stage.IsTrueBecause(infrav1.WaitingForMachinesReason))
	})

	It("verifies its Ironic endpoint again during its deletion, and creates no Secret", func(ctx context.Context) {
		w := s.world(ctx)
		ironic := newIronic()
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx, begun()), withIronic(ironic))
		w.controlPlaneNode(ctx, "cp-0")
		material := w.material(ctx)
		ironic.change(func(i *fakeIronic) { i.material, i.conductors = &material, []string{"c1-cp-0"} })
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition, stage.IsTrue())
		w.pause(ctx, true)
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition, HaveField("Reason", infrav1.NotYetObservedReason))
		w.remove(ctx)
		w.pause(ctx, false)
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition, stage.IsTrueBecause(infrav1.EndpointAnswersReason))
		w.eventually(ctx, infrav1.DeletingCondition, stage.IsTrueBecause(infrav1.WaitingForMachinesReason))

		Expect(w.client.Delete(ctx, &corev1.Secret{ObjectMeta: named(w.namespace, "cluster-ironic")})).To(Succeed())
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition,
			stage.IsFalseBecause(infrav1.WaitingForIronicSecretReason, "is not created during a deletion"))
	})

	It("keeps its gate closed, and waits for its reserved hosts, after a pause during its deletion", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx, begun()))
		w.ready(ctx)
		found := w.reserved(ctx, "host", clusterName, "")
		machine := w.pausedDeletion(ctx)
		w.pauseForMove(ctx, "host")
		Expect(w.client.Delete(ctx, machine)).To(Succeed())
		Eventually(func(g Gomega) { g.Expect(pivot.EpochOf(w.get(ctx, g)).IsMove()).To(BeTrue()) }).Should(Succeed())
		Consistently(func(g Gomega) {
			g.Expect(w.get(ctx, g).Annotations).To(HaveKey(infrav1.BlockMoveAnnotation))
		}).Should(Succeed())

		w.pause(ctx, false)
		w.eventually(ctx, infrav1.DeletingCondition, And(stage.IsTrueBecause(infrav1.WaitingForHostsReason),
			HaveField("Message", ContainSubstring("BareMetalHost host, reserved for Cluster cluster, is no longer paused"))))
		stage.Change(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(h *bmov1alpha1.BareMetalHost) {
			for _, annotation := range []string{
				bmov1alpha1.PausedAnnotation, bmov1alpha1.StatusAnnotation, infrav1.MoveEpochAnnotation,
			} {
				delete(h.Annotations, annotation)
			}
		})
		w.gone(ctx)
		Expect(w.stored(ctx, Default, "host")).To(beAs(found))
	})
}
