package move_test

import (
	"context"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// fences are the stories of a Cluster that runs in two management clusters.
func fences(c *clusters) []story {
	return []story{
		{"fences one side when the Cluster is unpaused on both", func(ctx context.Context) {
			w := c.world(ctx)
			e := newEndpoint(w.ironic.Access())
			w.cluster(ctx, "cluster", e.at())
			w.open(ctx, e, "cluster")
			w.host(ctx, "worker-0")
			w.host(ctx, "free")
			w.machine(ctx, "cluster", "worker-0")
			w.settled(ctx)
			w.reachable(ctx, "cluster", w.there)
			w.isManagedWith(ctx, w.there, "0")
			before := w.trace(ctx)

			By("killing clusterctl while it deletes, and completing the move in the target")
			w.loseWhileDeleting(ctx)
			w.finish(ctx)
			w.isManagedWith(ctx, w.here, "2")
			w.unharmed(ctx, before)

			By("unpausing the Cluster in the source as well")
			w.there.mend()
			w.pauseClusters(ctx, w.there, false)
			Eventually(func(g Gomega) {
				infra := &infrav1.Metal3Cluster{}
				g.Expect(w.there.client.Get(ctx, w.key("cluster"), infra)).To(Succeed())
				g.Expect(infra.Status.Conditions).To(stage.HaveCondition(infrav1.IronicEndpointReadyCondition,
					stage.IsFalseBecause(infrav1.ManagedElsewhereReason, "manages the cluster with move epoch 2")))
			}).Should(Succeed())
			Consistently(func(g Gomega) {
				g.Expect(w.hosts(ctx, g, w.there)).To(And(Not(BeEmpty()),
					HaveEach(isPausedBy(infrav1.HostPausedByProvider))), "two managers act on one Ironic")
			}).Should(Succeed())
			w.unharmed(ctx, before)

			By("creating a Metal3Machine in the superseded management cluster")
			machine := build.Metal3Machine("late", "cluster", build.InNamespace(w.namespace))
			Expect(w.there.client.Create(ctx, machine)).To(Succeed())
			Eventually(func(g Gomega) {
				g.Expect(w.there.client.Get(ctx, w.key("late"), machine)).To(Succeed())
				g.Expect(machine.Status.Conditions).To(stage.HaveCondition(infrav1.PausedCondition,
					stage.IsTrueBecause(infrav1.ManagedElsewhereReason)))
				g.Expect(machine.Finalizers).To(BeEmpty())
			}).Should(Succeed())
			w.infras(ctx, stage.HaveCondition(infrav1.IronicEndpointReadyCondition, stage.IsTrue()))
		}},
	}
}

// reachable makes the API server of a side the workload cluster.
func (w *world) reachable(ctx context.Context, cluster string, at *side) {
	GinkgoHelper()
	content, err := os.ReadFile(at.server.Kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	w.connect(ctx, cluster, content)
}

// silent gives a cluster a workload cluster that does not answer. After a move, hosts of a cluster with an Ironic endpoint
// and without a kubeconfig stay paused.
func (w *world) silent(ctx context.Context, cluster string) {
	GinkgoHelper()
	w.connect(ctx, cluster, []byte(build.SilentKubeconfig))
}

// connect gives a cluster a kubeconfig.
func (w *world) connect(ctx context.Context, cluster string, content []byte) {
	GinkgoHelper()
	owner := &clusterv1.Cluster{}
	Expect(w.here.client.Get(ctx, w.key(cluster), owner)).To(Succeed())
	w.create(ctx, kubeconfig.GenerateSecret(owner, content))
}

// isManagedWith waits until the workload cluster has recorded the claim of a management cluster with an epoch.
func (w *world) isManagedWith(ctx context.Context, at *side, epoch string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		record := &corev1.ConfigMap{}
		g.Expect(at.client.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "metal3-management-cluster"}, record)).
			To(Succeed())
		g.Expect(record.Annotations).To(HaveKeyWithValue(infrav1.MoveEpochAnnotation, epoch))
	}).Should(Succeed())
}
