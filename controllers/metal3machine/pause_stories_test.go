package metal3machine_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describePauses are the stories about pauses, and about a Cluster that another management cluster manages. The manager
// writes only the condition Paused.
func describePauses(s *suite) {
	pauses := map[string]struct {
		reason     string
		begin, end func(ctx context.Context, w *world)
	}{
		"of the other management cluster": {
			reason: infrav1.ManagedElsewhereReason,
			begin: func(ctx context.Context, w *world) {
				change(ctx, w, clusterName, &infrav1.Metal3Cluster{}, withEndpoint)
				w.setEndpointReady(ctx, metav1.ConditionFalse, infrav1.ManagedElsewhereReason)
			},
			end: func(ctx context.Context, w *world) {
				w.setEndpointReady(ctx, metav1.ConditionTrue, infrav1.EndpointAnswersReason)
			},
		},
		"of its Cluster": {
			reason: clusterv1.PausedReason,
			begin:  func(ctx context.Context, w *world) { w.pauseCluster(ctx, true) },
			end:    func(ctx context.Context, w *world) { w.pauseCluster(ctx, false) },
		},
		"of itself": {
			reason: clusterv1.PausedReason,
			begin: func(ctx context.Context, w *world) {
				change(ctx, w, "machine", &infrav1.Metal3Machine{}, func(machine *infrav1.Metal3Machine) {
					build.Annotations(map[string]string{clusterv1.PausedAnnotation: ""})(machine)
				})
			},
			end: func(ctx context.Context, w *world) {
				change(ctx, w, "machine", &infrav1.Metal3Machine{}, func(machine *infrav1.Metal3Machine) {
					delete(machine.Annotations, clusterv1.PausedAnnotation)
				})
			},
		},
	}
	onlyStatus := func(writes []stage.Write) {
		GinkgoHelper()
		Expect(writes).To(Equal([]stage.Write{{Verb: "patch status", Kind: "Metal3Machine", Name: "machine"}}))
	}
	for name, pause := range pauses {
		It("claims no host during a pause "+name, func(ctx context.Context) {
			w := s.world(ctx)
			w.machine(ctx, "machine")
			pause.begin(ctx, w)
			w.start()
			w.host(ctx, "host")
			w.eventually(ctx, "machine", infrav1.PausedCondition, stage.IsTrueBecause(pause.reason))
			Consistently(func(g Gomega) { g.Expect(w.hostsOf(ctx, g, "machine")).To(BeEmpty()) }).Should(Succeed())
			onlyStatus(w.writes.Done())
			machine := w.getMachine(ctx, Default, "machine")
			Expect(machine.Finalizers).To(BeEmpty())
			Expect(machine.Status.Conditions).To(HaveLen(1))
			pause.end(ctx, w)
			Expect(w.associated(ctx, "machine")).To(Equal("host"))
			w.eventually(ctx, "machine", infrav1.PausedCondition, HaveField("Reason", clusterv1.NotPausedReason))
		})

		It("releases no host during a pause "+name, func(ctx context.Context) {
			w := s.world(ctx)
			w.operate(ctx)
			w.host(ctx, "host")
			w.start()
			w.machine(ctx, "machine")
			w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, stage.IsTrue())
			ready := w.condition(ctx, "machine", infrav1.ReadyCondition)
			pause.begin(ctx, w)
			w.eventually(ctx, "machine", infrav1.PausedCondition, stage.IsTrue())
			w.remove(ctx, "machine")
			w.eventually(ctx, "machine", infrav1.PausedCondition, HaveField("ObservedGeneration",
				w.getMachine(ctx, Default, "machine").Generation))
			w.untouched(ctx, "machine", "host")
			Expect(w.condition(ctx, "machine", infrav1.ReadyCondition)).To(Equal(ready), "a pause keeps Ready")
			pause.end(ctx, w)
			w.gone(ctx, "machine")
			w.withoutMachineMetadata(ctx, "host")
		})
	}
}

// setEndpointReady writes IronicEndpointReady, as the controller of the Metal3Cluster does.
func (w *world) setEndpointReady(ctx context.Context, status metav1.ConditionStatus, reason string) {
	GinkgoHelper()
	changeStatus(ctx, w, clusterName, &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
		conditions.Set(infra, metav1.Condition{
			Type: infrav1.IronicEndpointReadyCondition, Status: status, Reason: reason,
		})
	})
}

func (w *world) pauseCluster(ctx context.Context, paused bool) {
	GinkgoHelper()
	change(ctx, w, clusterName, &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
		cluster.Spec.Paused = ptr.To(paused)
	})
}
