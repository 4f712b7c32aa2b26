package move_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// glance is the polling interval of a story that waits for a short moment.
const glance = 5 * time.Millisecond

// killedWhileWaiting is the story of a clusterctl that is killed before it copies objects.
func killedWhileWaiting(c *clusters) story {
	return story{"continues in the source when clusterctl is killed while it waits", func(ctx context.Context) {
		w := c.world(ctx)
		w.fleet(ctx, "cluster", 1, 1)
		w.host(ctx, "late")
		w.settled(ctx)
		before := w.trace(ctx)
		w.stuck(true)
		w.change(ctx, "late", imaged)
		w.eventually(ctx, "late", inState(bmov1alpha1.StateProvisioning))
		journey := w.begin(ctx)
		for _, host := range []string{"cluster-0", "cluster-free-0"} {
			w.eventually(ctx, host, isPausedBy(infrav1.HostPausedByProvider),
				HaveField("Annotations", HaveKey(bmov1alpha1.StatusAnnotation)))
		}
		journey.lose()
		w.pauseClusters(ctx, w.here, false)
		w.unharmed(ctx, before.except("late"))
		w.infras(ctx, stage.HaveCondition(infrav1.ReadyForMoveCondition,
			stage.IsFalseBecause(infrav1.NotReadyForMoveReason, "host late is provisioning")))
		w.stuck(false)
		w.readyForMove(ctx)
		w.move(ctx)
		w.settled(ctx)
		w.unharmed(ctx, before.except("late"))
	}}.atNight()
}

// givingUp are the stories in which clusterctl is killed, alone or together with the source.
func givingUp(c *clusters) []story {
	return []story{
		story{"continues in the source when clusterctl is killed while it copies", func(ctx context.Context) {
			w := c.world(ctx)
			before := w.readyFleet(ctx)
			journey, release := w.beginCopy(ctx)
			w.there.cut()
			journey.lose()
			release()
			w.there.mend()
			Expect(w.pivot(ctx, "abort")).To(Equal(done))
			w.vacated(ctx, w.there)
			w.unharmed(ctx, before)
			w.readyForMove(ctx)
			w.move(ctx)
			w.unharmed(ctx, before)
			w.settled(ctx)
		}}.atNight(),
		{"does not unpause objects that were deleted after clusterctl was killed while it copied", func(ctx context.Context) {
			w := c.world(ctx)
			w.fleet(ctx, "cluster", 2, 1)
			w.settled(ctx)
			before := w.trace(ctx)
			release := w.halt(ctx, &infrav1.Metal3Machine{ObjectMeta: w.named("cluster-0")})
			journey := w.begin(ctx)
			w.await(ctx, w.there, watch.Added, &infrav1.Metal3MachineList{})
			journey.lose()
			release()
			w.pauseClusters(ctx, w.here, false)
			w.unharmed(ctx, before)
			revived := w.reachedMachine(ctx)

			By("deleting a Machine and a host in the source")
			w.scaleDown(ctx, revived)
			w.eventually(ctx, revived, inState(bmov1alpha1.StateAvailable), isFine(), HaveField("Spec.ConsumerRef", BeNil()))
			free := w.hosts(ctx, Default, w.here)["cluster-free-0"]
			Expect(w.here.client.Delete(ctx, free)).To(Succeed())
			Eventually(func(g Gomega) { g.Expect(w.hosts(ctx, g, w.here)).NotTo(HaveKey("cluster-free-0")) }).Should(Succeed())
			w.settled(ctx)
			w.readyForMove(ctx)

			By("moving again, onto a Machine that is being deleted")
			before = w.trace(ctx)
			half := w.leaveHalfMachine(ctx)
			journey = w.begin(ctx)
			Eventually(func(g Gomega) {
				g.Expect(w.hosts(ctx, g, w.there)[revived].Annotations).To(HaveKeyWithValue(infrav1.MoveEpochAnnotation, "3"))
			}).WithTimeout(4 * patience).Should(Succeed())
			Consistently(func(g Gomega) {
				infra := &infrav1.Metal3Cluster{}
				g.Expect(w.there.client.Get(ctx, w.key("cluster"), infra)).To(Succeed())
				g.Expect(infra.Annotations).To(HaveKeyWithValue(infrav1.MoveEpochAnnotation, "1"), "the manager reconciles a leftover")
			}).Should(Succeed())

			By("removing the Machines in the target, while clusterctl repeats its write")
			w.byHand("removing Machines that were left")
			w.remove(ctx, w.there, &clusterv1.Machine{ObjectMeta: w.named(revived)},
				&infrav1.Metal3Machine{ObjectMeta: w.named(revived)})
			Consistently(func(g Gomega) {
				infra := &infrav1.Metal3Cluster{}
				g.Expect(w.there.client.Get(ctx, w.key("cluster"), infra)).To(Succeed())
				g.Expect(infra.Annotations).To(HaveKeyWithValue(infrav1.MoveEpochAnnotation, "1"),
					"a Machine arrives on one that is being deleted")
			}).Should(Succeed())
			w.remove(ctx, w.there, half)
			w.arrive(ctx, journey)
			w.unharmed(ctx, before)
			w.eventually(ctx, "cluster-free-0", isPausedBy(infrav1.HostPausedByProvider))
			w.infras(ctx, stage.HaveCondition(infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.NotReadyForMoveReason,
				"BareMetalHost cluster-free-0 is a leftover of an earlier move")))
			w.nothingDone(before, "update", "manage")
		}},
		{"keeps a free host paused while the Clusters that it moves with run on different sides", func(ctx context.Context) {
			w := c.world(ctx)
			w.fleet(ctx, "one", 1, 1)
			w.fleet(ctx, "two", 1, 0)
			w.readyForMove(ctx)
			before := w.trace(ctx)
			release := w.halt(ctx, &infrav1.Metal3Machine{ObjectMeta: w.named("one-0")})
			journey := w.begin(ctx)
			w.await(ctx, w.there, watch.Added, &infrav1.Metal3MachineList{})
			journey.lose()
			release()

			By("unpausing one Cluster in the target, and the other one in the source")
			w.pauseCluster(ctx, w.there, "one", false)
			w.pauseCluster(ctx, w.here, "two", false)
			w.eventually(ctx, "two-0", isNotPaused())
			w.here, w.there = w.there, w.here
			w.eventually(ctx, "one-0", isNotPaused())
			w.here, w.there = w.there, w.here
			Consistently(func(g Gomega) {
				for _, at := range []*side{w.here, w.there} {
					g.Expect(w.hosts(ctx, g, at)["one-free-0"]).To(isPausedBy(infrav1.HostPausedByProvider), at.name)
				}
			}).Should(Succeed())

			By("unpausing both Clusters in the source")
			w.pauseCluster(ctx, w.there, "one", true)
			w.pauseCluster(ctx, w.here, "one", false)
			w.unharmed(ctx, before)
		}},
		story{"keeps arrived objects unchanged when the source is lost while clusterctl copies", func(ctx context.Context) {
			w := c.world(ctx)
			before := w.readyFleet(ctx)
			journey, release := w.beginCopy(ctx)
			w.here.cut()
			journey.lose()
			release()
			Consistently(func(g Gomega) {
				g.Expect(w.hosts(ctx, g, w.there)).To(And(Not(BeEmpty()),
					HaveEach(And(isPausedBy(infrav1.HostPausedByProvider), inState(bmov1alpha1.StateNone)))))
			}).Should(Succeed())
			w.nothingDone(before)
		}}.atNight(),
		story{"continues in the target when the source is lost while clusterctl deletes", func(ctx context.Context) {
			w := c.world(ctx)
			before := w.readyFleet(ctx)
			w.loseWhileDeleting(ctx)
			w.finish(ctx)
			w.unharmed(ctx, before)
			w.settled(ctx)
			w.readyForMove(ctx)

			By("moving the cluster back to the restored source, after its leftovers are removed")
			w.there.mend()
			w.here, w.there = w.there, w.here
			Expect(w.pivot(ctx, "clean")).To(Equal(done))
			w.vacated(ctx, w.here)
			w.here, w.there = w.there, w.here
			w.readyForMove(ctx)
			w.move(ctx)
			w.unharmed(ctx, before)
		}}.atNight(),
	}
}

// halt stops clusterctl after it has copied the given object and all objects of the same depth of ownership: a
// ConfigMap that the object owns cannot be written in the target. The returned function deletes the ConfigMap on both
// sides.
func (w *world) halt(ctx context.Context, behind client.Object) (release func()) {
	GinkgoHelper()
	Expect(w.here.client.Get(ctx, client.ObjectKeyFromObject(behind), behind)).To(Succeed())
	last := &corev1.ConfigMap{ObjectMeta: w.named("last"), Data: map[string]string{"from": "source"}}
	build.OwnedBy(behind)(last)
	w.create(ctx, last)
	Expect(client.IgnoreAlreadyExists(w.there.client.Create(ctx, build.Namespace(w.namespace)))).To(Succeed())
	locked := &corev1.ConfigMap{ObjectMeta: w.named("last"), Immutable: ptr.To(true)}
	Expect(w.there.client.Create(ctx, locked)).To(Succeed())
	return func() {
		GinkgoHelper()
		Expect(w.here.client.Delete(ctx, last)).To(Succeed())
		Expect(w.there.client.Delete(ctx, locked)).To(Succeed())
	}
}

// beginCopy starts a move, and waits until clusterctl has copied the first host. clusterctl copies Machines after hosts,
// and the target rejects Machines until release.
func (w *world) beginCopy(ctx context.Context) (j *journey, release func()) {
	GinkgoHelper()
	Expect(client.IgnoreAlreadyExists(w.there.client.Create(ctx, build.Namespace(w.namespace)))).To(Succeed())
	target := w.there.client
	release = hold(ctx, target, stage.Rejected{
		Operation: admissionv1.Create, Resource: clusterv1.GroupVersion.WithResource("machines"),
	}, func() error {
		return target.Create(ctx, build.Machine("held", "cluster", build.InNamespace(w.namespace)), client.DryRunAll)
	})
	j = w.begin(ctx)
	w.duringCopy(ctx)
	return j, release
}

// loseWhileDeleting starts a move, kills clusterctl and cuts the source after clusterctl has deleted the first object in
// the source. clusterctl deletes hosts last. All are left, because the source rejects that clusterctl marks them.
func (w *world) loseWhileDeleting(ctx context.Context) {
	GinkgoHelper()
	source := w.here
	release := hold(ctx, source.client, stage.Rejected{
		Operation: admissionv1.Update, Resource: bmov1alpha1.GroupVersion.WithResource("baremetalhosts"),
		Unless: fmt.Sprintf("!has(object.metadata.annotations) || !(%q in object.metadata.annotations)",
			infrav1.DeleteForMoveAnnotation),
	}, func() error {
		left := slices.Collect(maps.Values(w.hosts(ctx, Default, source)))
		Expect(left).NotTo(BeEmpty())
		return source.client.Patch(ctx, left[0], deleteForMove(), client.DryRunAll)
	})
	j := w.begin(ctx)
	w.duringDeletion(ctx)
	source.cut()
	j.lose()
	release()
}

// hold makes an API server reject writes until release. Both return when attempt shows the effect.
func hold(ctx context.Context, in client.Client, writes stage.Rejected, attempt func() error) (release func()) {
	GinkgoHelper()
	stage.Hold(ctx, in, writes, attempt)
	return func() {
		GinkgoHelper()
		stage.EndHold(ctx, in)
		Eventually(attempt).Should(Succeed())
	}
}

// duringCopy waits until the first host is in the target.
func (w *world) duringCopy(ctx context.Context) {
	GinkgoHelper()
	w.await(ctx, w.there, watch.Added, &bmov1alpha1.BareMetalHostList{})
}

// duringDeletion waits until clusterctl has deleted the first object in the source.
func (w *world) duringDeletion(ctx context.Context) {
	GinkgoHelper()
	w.await(ctx, w.here, watch.Deleted, leftovers()...)
}

// await waits for an event of one of the kinds. Existing objects count as added. It watches the objects: polling for a
// short moment would overload the API server.
func (w *world) await(ctx context.Context, at *side, what watch.EventType, kinds ...client.ObjectList) {
	GinkgoHelper()
	happened := make(chan struct{}, 1)
	for _, kind := range kinds {
		stream := at.watch(ctx, w.namespace, kind)
		defer stream.Stop()
		go func() {
			for event := range stream.ResultChan() {
				if event.Type == what {
					select {
					case happened <- struct{}{}:
					default:
					}
				}
			}
		}()
	}
	Eventually(happened).WithPolling(glance).WithTimeout(4 * patience).Should(Receive())
}

// isLeaving returns true if clusterctl has begun to delete objects in the source. It deletes owned objects first.
func (w *world) isLeaving(ctx context.Context) bool {
	GinkgoHelper()
	for _, list := range leftovers() {
		Expect(w.here.client.List(ctx, list, client.InNamespace(w.namespace))).To(Succeed())
		here := len(objectsOf(list))
		Expect(w.there.client.List(ctx, list, client.InNamespace(w.namespace))).To(Succeed())
		if here < len(objectsOf(list)) {
			return true
		}
	}
	return false
}

// finish does the remaining steps after clusterctl was killed after it had copied all objects.
func (w *world) finish(ctx context.Context) {
	GinkgoHelper()
	w.pauseClusters(ctx, w.there, false)
	w.goOnThere(ctx)
}

// leaveHalfMachine leaves a Machine in the target like a clusterctl that is killed before it removes the finalizers.
// The Machine that arrives has the finalizer of Cluster API. Without it, the update by clusterctl would remove the
// finalizer of the leftover, and so delete the leftover.
func (w *world) leaveHalfMachine(ctx context.Context) *clusterv1.Machine {
	GinkgoHelper()
	var machines clusterv1.MachineList
	Expect(w.here.client.List(ctx, &machines, client.InNamespace(w.namespace))).To(Succeed())
	Expect(machines.Items).NotTo(BeEmpty())
	half := build.Machine(machines.Items[0].Name, "cluster", build.InNamespace(w.namespace))
	Expect(client.IgnoreAlreadyExists(w.there.client.Create(ctx, half))).To(Succeed())
	for _, at := range []*side{w.here, w.there} {
		stage.Change(ctx, at.client, w.key(half.Name), half, func(machine *clusterv1.Machine) {
			machine.Finalizers = []string{clusterv1.MachineFinalizer}
		})
	}
	Expect(w.there.client.Delete(ctx, half)).To(Succeed())
	return half
}

// reachedMachine returns the name of a Machine whose Metal3Machine clusterctl has copied.
func (w *world) reachedMachine(ctx context.Context) string {
	GinkgoHelper()
	var machines infrav1.Metal3MachineList
	Expect(w.there.client.List(ctx, &machines, client.InNamespace(w.namespace))).To(Succeed())
	Expect(machines.Items).NotTo(BeEmpty())
	return machines.Items[0].Name
}

// clear deletes the objects that a killed clusterctl has left.
func (w *world) clear(ctx context.Context, at *side) {
	GinkgoHelper()
	w.byHand("deleting the leftovers")
	for _, list := range leftovers() {
		Expect(at.client.List(ctx, list, client.InNamespace(w.namespace))).To(Succeed())
		w.remove(ctx, at, objectsOf(list)...)
	}
	Eventually(func(g Gomega) { g.Expect(w.hosts(ctx, g, at)).To(BeEmpty()) }).Should(Succeed())
}

// remove deletes objects without an action of a controller, as clusterctl does.
func (w *world) remove(ctx context.Context, at *side, objects ...client.Object) {
	GinkgoHelper()
	merge := func(object client.Object, format string, arguments ...any) {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, arguments...))
		Expect(client.IgnoreNotFound(at.client.Patch(ctx, object, patch))).To(Succeed())
	}
	for _, object := range objects {
		merge(object, `{"metadata":{"annotations":{%q:"",%q:""}}}`, infrav1.DeleteForMoveAnnotation, bmov1alpha1.PausedAnnotation)
		Expect(client.IgnoreNotFound(at.client.Delete(ctx, object))).To(Succeed())
		merge(object, `{"metadata":{"finalizers":null}}`)
	}
}
