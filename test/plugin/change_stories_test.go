package plugin_test

import (
	"context"
	"io"
	"path/filepath"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/handover"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/plugin"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// answering starts a command on the source at a terminal. The returned function answers its question.
func (c *clusters) answering(ctx context.Context, w world, arguments string) (started, func(string)) {
	GinkgoHelper()
	return c.answeringTo(ctx, "", w, arguments)
}

// answeringTo starts a command on both clusters at a terminal. The target is a kubeconfig, or empty.
func (c *clusters) answeringTo(ctx context.Context, target string, w world, arguments string) (started, func(string)) {
	GinkgoHelper()
	person, program := openTerminal()
	s := startAt(ctx, program, commandLine(c.source.Kubeconfig, target, w.namespace, arguments+" --yes=false"))
	return s, func(answer string) {
		GinkgoHelper()
		s.tells("Type yes to continue: ")
		_, err := person.WriteString(answer + "\n")
		Expect(err).NotTo(HaveOccurred())
	}
}

// describeChanges has the stories of objects that change before the user answers the question of a command.
func describeChanges(c *clusters) {
	stuck := func(ctx context.Context) world {
		w := world{client: c.source.Client, namespace: stage.Namespace(ctx, c.source)}
		w.leaveNoHosts()
		for _, name := range []string{"stuck", "other"} {
			w.create(ctx, build.Host(name, build.Available(), build.Paused(infrav1.HostPausedByProvider)))
		}
		return w
	}

	It("does what the user confirms", func(ctx context.Context) {
		w := stuck(ctx)
		unpause, answer := c.answering(ctx, w, "unpause --all-hosts")
		answer("yes")
		unpause.ends(0, "BareMetalHost other; BareMetalHost stuck of namespace", "Unpaused BareMetalHost stuck", "Done.")
	})

	It("does nothing if the user interrupts the question", func(ctx context.Context) {
		w := stuck(ctx)
		_, program := openTerminal()
		interrupted, interrupt := context.WithCancel(ctx)
		line := commandLine(c.source.Kubeconfig, "", w.namespace, "unpause --all-hosts --yes=false")
		ended := make(chan int, 1)
		question := &buffer{}
		go func() {
			ended <- plugin.Main(interrupted, line, plugin.Environment{Input: program, Output: io.Discard, Errors: question})
		}()
		Eventually(question.String).Should(ContainSubstring("Type yes to continue: "))
		interrupt()
		Eventually(ended).Should(Receive(Not(BeZero())))
		for _, name := range []string{"stuck", "other"} {
			Expect(w.host(ctx, name).Annotations).To(HaveKey(bmov1alpha1.PausedAnnotation))
		}
	})

	It("unpauses no host if another host was created since the question", func(ctx context.Context) {
		w := stuck(ctx)
		unpause, answer := c.answering(ctx, w, "unpause --all-hosts")
		unpause.tells("Type yes")
		w.create(ctx, build.Host("third", build.Available(), build.Paused(infrav1.HostPausedByProvider)))
		answer("yes")
		unpause.ends(1, "the confirmed objects changed in the meantime: run the command again", "Now: BareMetalHost other; "+
			"BareMetalHost stuck; BareMetalHost third")
		Expect(w.hosts(ctx)).To(HaveEach(HaveField("Annotations", HaveKey(bmov1alpha1.PausedAnnotation))))
	})

	It("keeps a Cluster paused that another management cluster has claimed since the question", func(ctx context.Context) {
		w := settle(ctx, c.source, stage.Namespace(ctx, c.source))
		w.pause(ctx)
		unpause, answer := c.answering(ctx, w, "unpause")
		unpause.tells("Type yes")
		w.superseded(ctx)
		answer("yes")
		unpause.ends(1, "another management cluster manages Cluster cluster")
		Expect(w.isPaused(ctx)).To(BeTrue())
	})

	It("keeps block-move if the manager was installed since the question", func(ctx context.Context) {
		w := settle(ctx, c.source, stage.Namespace(ctx, c.source))
		DeferCleanup(func(ctx context.Context) { c.scaleManager(ctx, true, true) })
		c.scaleManager(ctx, false, false)
		unblock, answer := c.answering(ctx, w, "unblock")
		unblock.tells("Type yes")
		c.scaleManager(ctx, true, true)
		answer("yes")
		unblock.ends(1, "the manager of this provider runs")
		infra := &infrav1.Metal3Cluster{}
		Expect(w.client.Get(ctx, w.key(clusterName), infra)).To(Succeed())
		Expect(infra.Annotations).To(HaveKey(infrav1.BlockMoveAnnotation))
	})

	It("does not abort a move whose Cluster was unpaused in the target since the question", func(ctx context.Context) {
		_, source, target := c.halfMoved(ctx)
		abort, answer := c.answeringTo(ctx, c.target.Kubeconfig, source, "abort")
		abort.tells("Type yes")
		target.unpauseCluster(ctx)
		target.changeInfra(ctx, epoch("2"))
		answer("yes")
		abort.ends(1, "not done: the course of the move changed in the meantime", "Now: Arrived")
		Expect(source.isPaused(ctx)).To(BeTrue())
		Expect(target.hosts(ctx)).To(HaveLen(1))
	})

	It("removes no object of the source that the target has lost since the question", func(ctx context.Context) {
		_, source, target := c.halfMoved(ctx)
		target.unpauseCluster(ctx)
		target.changeInfra(ctx, epoch("2"))
		for _, command := range []string{"resume", "clean"} {
			run, answer := c.answeringTo(ctx, c.target.Kubeconfig, source, command)
			run.tells("6 objects are removed in the source. Type yes")
			target.discard(ctx, &infrav1.Metal3Machine{ObjectMeta: metav1.ObjectMeta{Name: "machine"}})
			answer("yes")
			run.ends(1, "Metal3Machine machine of the source is not in the target")
			target.create(ctx, build.Metal3Machine("machine", clusterName))
		}
		Expect(source.hosts(ctx)).To(HaveLen(1))
	})

	It("keeps a Cluster of the target paused that has lost a Machine since the question", func(ctx context.Context) {
		_, source, target := c.halfMoved(ctx)
		target.changeInfra(ctx, func(infra *infrav1.Metal3Cluster) {
			metav1.SetMetaDataAnnotation(&infra.ObjectMeta, infrav1.MoveInventoryAnnotation,
				pivot.Inventory{"Machine": {"machine"}}.String())
		})
		source.discard(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "host-bmc"}})
		resume, answer := c.answeringTo(ctx, c.target.Kubeconfig, source, "resume")
		answer("yes")
		resume.tells("Cluster cluster of namespace " + source.namespace + " are unpaused in the target. Type yes")
		target.discard(ctx, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "machine"}})
		answer("yes")
		resume.ends(1, "Machine machine existed when clusterctl began to copy")
		Expect(target.isPaused(ctx)).To(BeTrue())
	})

	It("discards no host that BMO manages since the question", func(ctx context.Context) {
		w, stale := c.stale(ctx)
		backup := filepath.Join(GinkgoT().TempDir(), "stale.yaml")
		discard, answer := c.answering(ctx, w, "discard --host stale --backup "+backup)
		discard.tells("Type yes")
		stage.Change(ctx, w.client, client.ObjectKeyFromObject(stale), &bmov1alpha1.BareMetalHost{},
			func(host *bmov1alpha1.BareMetalHost) { delete(host.Annotations, bmov1alpha1.PausedAnnotation) })
		answer("yes")
		discard.ends(1, "BareMetalHost stale is not paused, so BMO manages it")
		Expect(backup).NotTo(BeAnExistingFile())
	})
}

// describeLateChanges has such stories of commands for one side.
func describeLateChanges(c *clusters) {
	It("fences no Cluster that the other management cluster has released since the question", func(ctx context.Context) {
		w := settle(ctx, c.source, stage.Namespace(ctx, c.source))
		w.superseded(ctx)
		fence, answer := c.answering(ctx, w, "fence")
		fence.tells("Type yes")
		w.changeInfraStatus(ctx, func(infra *infrav1.Metal3Cluster) { infra.Status.Conditions = nil })
		answer("yes")
		fence.ends(1, "no other management cluster manages Cluster cluster")
		Expect(w.isPaused(ctx)).To(BeFalse())
	})

	It("takes over nothing that runs in the other cluster since the question", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		source := settle(ctx, c.source, namespace)
		source.superseded(ctx)
		Expect(c.target.Client.Create(ctx, build.Namespace(namespace))).To(Succeed())
		takeover, answer := c.answeringTo(ctx, c.target.Kubeconfig, source, "takeover")
		takeover.tells("Type yes")
		settle(ctx, c.target, namespace)
		answer("yes")
		takeover.ends(1, "the Cluster of Metal3Cluster cluster runs in the other cluster")
		infra := &infrav1.Metal3Cluster{}
		Expect(source.client.Get(ctx, source.key(clusterName), infra)).To(Succeed())
		Expect(infra.Annotations).NotTo(HaveKeyWithValue(infrav1.MoveEpochAnnotation, "8"))
	})

	It("does not mark a host as provisioned that a Metal3Machine claims since the question", func(ctx context.Context) {
		w := settle(ctx, c.source, stage.Namespace(ctx, c.source))
		machine := build.Metal3Machine("late", clusterName, build.InNamespace(w.namespace))
		lost := build.Host("lost", build.Paused(infrav1.HostPausedByProvider), build.Consumed(machine))
		lost.Spec.Online, lost.Spec.Image = true, &bmov1alpha1.Image{URL: image, Checksum: "x"}
		lost.Finalizers, lost.Status = []string{bmov1alpha1.BareMetalHostFinalizer}, bmov1alpha1.BareMetalHostStatus{}
		w.create(ctx, lost)
		DeferCleanup(func(ctx context.Context) {
			stage.Change(ctx, w.client, w.key("lost"), &bmov1alpha1.BareMetalHost{},
				func(host *bmov1alpha1.BareMetalHost) { host.Finalizers = nil })
		})
		keep, answer := c.answering(ctx, w, "keep --host lost")
		keep.tells("mark it as provisioned with the image of its spec. Type yes")
		w.create(ctx, machine)
		answer("yes")
		keep.ends(1, "BareMetalHost lost lost its status, and is claimed by late")
		Expect(w.host(ctx, "lost").Annotations).NotTo(HaveKey(bmov1alpha1.StatusAnnotation))
	})

	It("lets no host move that has begun another operation since the question", func(ctx context.Context) {
		w := settle(ctx, c.source, stage.Namespace(ctx, c.source))
		w.create(ctx, build.Host("cleaning", build.State(bmov1alpha1.StateDeprovisioning)))
		allow, answer := c.answering(ctx, w, "allow-busy --host cleaning")
		allow.tells("BareMetalHost cleaning is deprovisioning: it moves meanwhile, and Ironic continues. Type yes")
		cleaning := w.host(ctx, "cleaning")
		cleaning.Status.Provisioning.State = bmov1alpha1.StateProvisioning
		Expect(w.client.Status().Update(ctx, cleaning)).To(Succeed())
		answer("yes")
		allow.ends(1, "BareMetalHost cleaning is provisioning")
		Expect(w.host(ctx, "cleaning").Annotations).NotTo(HaveKey(infrav1.MoveWhileBusyAnnotation))
	})

	It("keeps the VIP for a Cluster that was created since the question", func(ctx context.Context) {
		w := world{client: c.source.Client, namespace: stage.Namespace(ctx, c.source)}
		yield, answer := c.answering(ctx, w, "yield --cluster-id "+clusterID)
		yield.tells("does not take the VIP of clusterID c1. Type yes")
		settle(ctx, c.source, w.namespace)
		answer("yes")
		yield.ends(1, "Cluster cluster runs in this management cluster")
		notice := &corev1.ConfigMap{}
		err := c.source.Client.Get(ctx, client.ObjectKey{Namespace: handover.Namespace, Name: handover.Name}, notice)
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		Expect(notice.Data).NotTo(HaveKey(clusterID))
	})

	It("forgets no host that the other cluster has since the question", func(ctx context.Context) {
		w := world{client: c.source.Client, namespace: stage.Namespace(ctx, c.source)}
		Expect(c.target.Client.Create(ctx, build.Namespace(w.namespace))).To(Succeed())
		departed := pivot.Departure{Infras: map[string]pivot.Epoch{clusterName: 1}}
		departed.Enter([]*bmov1alpha1.BareMetalHost{build.Host("host")})
		w.create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: pivot.DepartureName}, Data: departed.Data()})
		forget, answer := c.answeringTo(ctx, c.target.Kubeconfig, w, "forget")
		forget.tells("BMO here reboots them. Type yes")
		settle(ctx, c.target, w.namespace)
		answer("yes")
		forget.ends(1, "BareMetalHost host is in the other cluster, which manages it")
		kept := &corev1.ConfigMap{}
		Expect(w.client.Get(ctx, w.key(pivot.DepartureName), kept)).To(Succeed())
	})
}
