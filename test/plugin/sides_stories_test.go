package plugin_test

import (
	"context"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/handover"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeSides has the stories of repairs of one side after a move.
func describeSides(c *clusters) {
	It("removes leftovers of an incomplete move in the target, and keeps a possible only copy", func(ctx context.Context) {
		namespace, source, target := c.halfMoved(ctx)
		target.create(ctx, build.Machine("deleted", clusterName))
		stray := build.Host("stray", build.Paused(infrav1.HostPausedByProvider), build.Finalizers(bmov1alpha1.BareMetalHostFinalizer),
			build.Labels(map[string]string{clusterv1.ClusterNameLabel: clusterName}), build.InNamespace(namespace))
		target.create(ctx, stray)
		target.create(ctx, build.ControllerSecret(stray, build.OwnedBy(stray)))
		Expect(c.run(ctx, namespace, "clean --target")).To(end(1, "clusterctl may have deleted these in the source",
			"BareMetalHost stray; Machine deleted", "use --force if you deleted them in the source"))

		target.discard(ctx, &infrav1.Metal3Machine{ObjectMeta: metav1.ObjectMeta{Name: "machine"}})
		Expect(c.run(ctx, namespace, "clean --target --yes=false")).To(end(1, "not confirmed",
			"are removed in the target: Secret stray-bmc; BareMetalHost host; BareMetalHost stray; Machine deleted"))
		Expect(c.run(ctx, namespace, "clean --target --dry-run")).To(end(0, "Dry run: Removed 4 objects in the target"))
		Expect(c.run(ctx, namespace, "clean --target")).To(end(0, "Removed 4 objects in the target", "Done."))
		Expect(target.hosts(ctx)).To(BeEmpty())
		Expect(source.hosts(ctx)).To(HaveLen(1))
		Expect(target.isPaused(ctx)).To(BeTrue(), "copies that clusterctl updates stay")
		Expect(c.run(ctx, namespace, "clean --target")).To(end(0, "Nothing to do."))

		source.resumed(ctx)
		Expect(c.run(ctx, namespace, "abort")).To(end(0, "Done."))
		target.isEmpty(ctx)
		Expect(c.run(ctx, namespace, "preflight")).To(end(0, "Ready"))
	})

	It("removes no host from a target whose BMO manages it", func(ctx context.Context) {
		namespace, _, target := c.halfMoved(ctx)
		target.discard(ctx, &infrav1.Metal3Machine{ObjectMeta: metav1.ObjectMeta{Name: "machine"}})
		stage.Change(ctx, target.client, target.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			delete(host.Annotations, bmov1alpha1.PausedAnnotation)
		})
		Expect(c.run(ctx, namespace, "clean --target")).To(end(1, "BareMetalHost host is not paused, so BMO manages it"))
		Expect(target.hosts(ctx)).To(HaveLen(1))
	})

	It("fences the superseded side, and takes over when the other management cluster is gone", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		source := settle(ctx, c.source, namespace)
		Expect(c.run(ctx, namespace, "fence")).To(end(1, "no other management cluster manages Cluster cluster"))
		Expect(c.run(ctx, namespace, "takeover")).To(end(1, "no Metal3Cluster is managed by another management cluster"))
		source.superseded(ctx)
		Expect(c.run(ctx, namespace, "fence --yes=false")).To(end(1, "Another management cluster manages Cluster cluster"))
		Expect(source.isPaused(ctx)).To(BeFalse())
		Expect(runOn(ctx, c.source.Kubeconfig, "", namespace, "fence -o yaml")).To(end(0, "kind: PivotFence",
			"- Paused Cluster cluster in the source", "done: true"))
		Expect(source.isPaused(ctx)).To(BeTrue())
		Expect(c.run(ctx, namespace, "fence")).To(end(0, "Nothing to do."))

		By("restoring the other side")
		Expect(c.target.Client.Create(ctx, build.Namespace(namespace))).To(Succeed())
		target := settle(ctx, c.target, namespace)
		Expect(c.run(ctx, namespace, "takeover")).To(end(1, "the Cluster of Metal3Cluster cluster runs in the other cluster"))

		By("losing the other side")
		target.discard(ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: clusterName}})
		Expect(c.run(ctx, namespace, "takeover --dry-run")).To(end(0, "Dry run: Gave Metal3Cluster cluster move epoch 8",
			"Dry run: Unpaused Cluster cluster in the source"))
		Expect(source.isPaused(ctx)).To(BeTrue())
		Expect(runOn(ctx, c.source.Kubeconfig, "", namespace, "takeover -o json").decode()).To(And(
			HaveKeyWithValue("kind", "PivotTakeover"), HaveKeyWithValue("done", true)))
		infra := &infrav1.Metal3Cluster{}
		Expect(source.client.Get(ctx, source.key(clusterName), infra)).To(Succeed())
		Expect(infra.Annotations).To(HaveKeyWithValue(infrav1.MoveEpochAnnotation, "8"))
		Expect(source.isPaused(ctx)).To(BeFalse(), "a paused Cluster is not probed, so its hosts would stay fenced")
	})

	It("forgets moved objects when the other cluster has released them", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		source := world{client: c.source.Client, namespace: namespace}
		Expect(c.run(ctx, namespace, "forget")).To(end(0, "Nothing to do."))
		Expect(c.target.Client.Create(ctx, build.Namespace(namespace))).To(Succeed())
		target := settle(ctx, c.target, namespace)
		departed := pivot.Departure{Infras: map[string]pivot.Epoch{clusterName: 1}}
		departed.Enter([]*bmov1alpha1.BareMetalHost{build.Host("host"), build.Host("spare")})
		source.create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: pivot.DepartureName}, Data: departed.Data()})
		Expect(c.run(ctx, namespace, "forget")).To(end(1, "BareMetalHost host is in the other cluster, which manages it"))
		Expect(c.run(ctx, namespace, "forget --host x")).To(end(1, "use one of: host, spare"))
		Expect(c.run(ctx, namespace, "forget --host spare --yes=false")).To(end(1, "not confirmed", "BMO here reboots them"))
		Expect(c.run(ctx, namespace, "forget --host spare")).To(end(0, "Forgot BareMetalHost spare"))
		kept := &corev1.ConfigMap{}
		Expect(source.client.Get(ctx, source.key(pivot.DepartureName), kept)).To(Succeed())
		Expect(pivot.DepartureOf(kept.Data)).To(And(HaveField("Hosts", HaveLen(1)), HaveField("Infras", HaveLen(1))))

		target.discard(ctx, &infrav1.Metal3Cluster{ObjectMeta: metav1.ObjectMeta{Name: clusterName}})
		target.discard(ctx, &bmov1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "host"}})
		Expect(c.run(ctx, namespace, "forget -o json").decode()).To(And(
			HaveKeyWithValue("kind", "PivotForget"), HaveKeyWithValue("done", true)))
		Expect(apierrors.IsNotFound(source.client.Get(ctx, source.key(pivot.DepartureName), kept))).To(BeTrue())
	})

	It("keeps the Ironic of a new management cluster from the VIP, and allows it again", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.target)
		settle(ctx, c.target, namespace)
		key := client.ObjectKey{Namespace: handover.Namespace, Name: handover.Name}
		notice := &corev1.ConfigMap{}
		DeferCleanup(func(ctx context.Context) {
			Expect(client.IgnoreNotFound(c.source.Client.Delete(ctx, notice))).To(Succeed())
		})
		Expect(runOn(ctx, c.source.Kubeconfig, "", namespace, "yield")).To(end(2, "--cluster-id is empty"))
		Expect(c.run(ctx, namespace, "yield")).To(end(0, "Wrote clusterID c1 into ConfigMap "+key.String()))
		Expect(c.source.Client.Get(ctx, key, notice)).To(Succeed())
		Expect(notice.Data).To(HaveKey(clusterID))
		Expect(c.run(ctx, namespace, "yield")).To(end(0, "Nothing to do."))
		Expect(c.run(ctx, namespace, "yield --cluster-id c2")).To(end(0))
		other := world{client: c.target.Client, namespace: stage.Namespace(ctx, c.target)}
		busy := build.Host("busy", build.State(bmov1alpha1.StateProvisioning))
		other.create(ctx, busy)
		Expect(c.run(ctx, namespace, "yield --undo")).To(end(1,
			"host "+other.namespace+"/busy of the target cluster is provisioning"))
		other.discard(ctx, busy)
		Expect(c.run(ctx, namespace, "yield --undo --yes=false")).To(end(1, "The database of the Ironic that has the VIP is lost"))
		Expect(c.run(ctx, namespace, "yield --undo -o json").decode()).To(HaveKeyWithValue("kind", "PivotYield"))
		Expect(c.source.Client.Get(ctx, key, notice)).To(Succeed())
		Expect(notice.Data).To(And(HaveKey("c2"), Not(HaveKey(clusterID))))

		Expect(runOn(ctx, c.target.Kubeconfig, "", namespace, "yield --cluster-id c1")).To(end(1,
			"Cluster cluster runs in this management cluster"))
	})
}

// superseded does what the manager does after another management cluster has claimed the cluster with epoch 6. It ends
// with the story, because the claim fences the hosts of all namespaces that the same Ironic serves.
func (w world) superseded(ctx context.Context) {
	GinkgoHelper()
	w.changeInfraStatus(ctx, func(infra *infrav1.Metal3Cluster) {
		infra.Status.Conditions = []metav1.Condition{{
			Type: infrav1.IronicEndpointReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.ManagedElsewhereReason,
			Message:            pivot.SupersededMessage(infra, pivot.Claim{Epoch: 6, Manager: "uid"}),
			LastTransitionTime: metav1.Now(),
		}}
	})
	DeferCleanup(func(ctx context.Context) {
		infra := &infrav1.Metal3Cluster{}
		err := w.client.Get(ctx, w.key(clusterName), infra)
		if err == nil {
			infra.Status.Conditions = nil
			err = w.client.Status().Update(ctx, infra)
		}
		Expect(client.IgnoreNotFound(err)).To(Succeed())
	})
}

func (w world) unpause(ctx context.Context) {
	GinkgoHelper()
	stage.Change(ctx, w.client, w.key(clusterName), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
		cluster.Spec.Paused = ptr.To(false)
	})
}
