package move_test

import (
	"context"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/departure"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// undisturbed are the stories of moves without a fault.
func undisturbed(c *clusters) []story {
	return []story{
		{"moves hosts of every kind, and changes none of them", func(ctx context.Context) {
			w := c.world(ctx)
			w.everyKind(ctx)
			before := w.trace(ctx)
			w.readyForMove(ctx)
			w.move(ctx)

			// The user still pauses the host, so BMO has not restored the status from the annotation.
			w.eventually(ctx, "paused", isPausedBy("maintenance"),
				HaveField("Annotations", HaveKey(bmov1alpha1.StatusAnnotation)), inState(bmov1alpha1.StateNone))
			// BMO repeats the attempts with the wrong credentials in both clusters.
			w.eventually(ctx, "locked", hasFailed(bmov1alpha1.RegistrationError), inState(bmov1alpha1.StateRegistering))
			w.unharmed(ctx, before.except("paused", "locked"))
			w.nothingDone(before, "update", "manage")

			By("removing the pause of the user, and correcting the errors")
			for _, host := range []string{"errored", "locked"} {
				w.changeSecret(ctx, host, func(secret *corev1.Secret) {
					secret.Data["username"], secret.Data["password"] = []byte("admin"), []byte(goodPassword)
				})
			}
			w.change(ctx, "paused", func(host *bmov1alpha1.BareMetalHost) {
				delete(host.Annotations, bmov1alpha1.PausedAnnotation)
			})
			w.eventually(ctx, "paused", inState(bmov1alpha1.StateProvisioned), isFine(),
				HaveField("Annotations", Not(HaveKey(bmov1alpha1.StatusAnnotation))))
			w.eventually(ctx, "errored", inState(bmov1alpha1.StateProvisioned), isFine())
			w.eventually(ctx, "locked", inState(bmov1alpha1.StateAvailable), isFine())
			w.nothingDone(before.except("locked"), "update")
		}},
		story{"waits for a host that is provisioning, and keeps its status", func(ctx context.Context) {
			w := c.world(ctx)
			w.fleet(ctx, "cluster", 1, 1)
			before, journey := w.beginWhileProvisioning(ctx, "late")
			w.infras(ctx, stage.HaveCondition(infrav1.ReadyForMoveCondition,
				stage.IsFalseBecause(infrav1.WaitingForHostsReason, "host late is provisioning")))
			w.eventually(ctx, "cluster-0", isPausedBy(infrav1.HostPausedByProvider))
			w.stuck(false)
			w.arrive(ctx, journey)
			w.eventually(ctx, "late", inState(bmov1alpha1.StateProvisioned), isFine(), isNotPaused())
			w.unharmed(ctx, before.except("late"))
			Expect(w.asked(before, "active")).To(Equal(1), "the host that was provisioning is provisioned once")
		}}.atNight(),
		story{"waits for a Machine that is created or deleted while clusterctl begins", func(ctx context.Context) {
			w := c.world(ctx)
			w.fleet(ctx, "cluster", 2, 1)
			before, journey := w.beginWhileProvisioning(ctx, "late")
			w.eventually(ctx, "cluster-0", isPausedBy(infrav1.HostPausedByProvider))
			young := build.Machine("young", "cluster", build.InNamespace(w.namespace))
			w.create(ctx, young)
			leaving := &clusterv1.Machine{ObjectMeta: w.named("cluster-1")}
			keep := "example.com/keep"
			stage.Change(ctx, w.here.client, w.key("cluster-1"), leaving, func(machine *clusterv1.Machine) {
				machine.Finalizers = append(machine.Finalizers, keep)
			})
			Expect(w.here.client.Delete(ctx, leaving)).To(Succeed())
			w.stuck(false)
			w.infras(ctx, stage.HaveCondition(infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason,
				"The move waits: Machine cluster-1 is being deleted, and a move would lose the deletion: wait until it is gone; "+
					"Machine young has no node: wait for it, or delete it")))

			By("aborting the move")
			journey.lose()
			Expect(w.here.client.Delete(ctx, young)).To(Succeed())
			w.pauseClusters(ctx, w.here, false)
			w.unharmed(ctx, before.except("late", "cluster-1"))
		}}.atNight(),
		story{"moves hosts that a scale-down and an earlier provider have left", func(ctx context.Context) {
			w := c.world(ctx)
			w.fleet(ctx, "cluster", 2, 1)
			w.scaleDown(ctx, "cluster-1")
			w.change(ctx, "cluster-free-0", func(host *bmov1alpha1.BareMetalHost) {
				metav1.SetMetaDataAnnotation(&host.ObjectMeta, infrav1.BlockMoveAnnotation, "")
			})
			w.eventually(ctx, "cluster-1", inState(bmov1alpha1.StateAvailable), isFine(), HaveField("Spec.ConsumerRef", BeNil()))
			w.eventually(ctx, "cluster-free-0", HaveField("Annotations", Not(HaveKey(infrav1.BlockMoveAnnotation))))
			// Cleaning has powered the machine off. Until it is on again, the status may show the power from before.
			var before trace
			Eventually(func(g Gomega) {
				before = w.trace(ctx)
				g.Expect(before.pictures["cluster-1"]).To(And(HaveField("Powered", true), HaveField("Status.PoweredOn", true)))
			}).Should(Succeed())
			w.readyForMove(ctx)
			w.move(ctx)
			w.unharmed(ctx, before)
		}}.atNight(),
		story{"moves all clusters of a namespace", func(ctx context.Context) {
			w := c.world(ctx)
			w.fleet(ctx, "first", 2, 0)
			w.fleet(ctx, "second", 1, 1)
			before := w.trace(ctx)
			w.readyForMove(ctx)
			w.move(ctx)
			w.unharmed(ctx, before)
			w.settled(ctx)
			w.readyForMove(ctx)
		}}.atNight(),
		{"refuses objects that a GitOps controller creates again in the source", func(ctx context.Context) {
			w := c.world(ctx)
			w.fleet(ctx, "cluster", 1, 1)
			before, manifests := w.trace(ctx), w.manifests(ctx)
			w.readyForMove(ctx)
			w.move(ctx)
			for _, manifest := range manifests {
				Expect(w.there.client.Create(ctx, manifest)).To(MatchError(And(
					ContainSubstring("moved to another management cluster"), ContainSubstring("stop the GitOps controller"))))
			}
			w.unharmed(ctx, before)

			By("moving back")
			w.readyForMove(ctx)
			w.move(ctx)
			w.unharmed(ctx, before)
			w.settled(ctx)
			Eventually(func(g Gomega) { g.Expect(departure.Of(ctx, w.here.client, w.namespace)).To(BeZero()) }).Should(Succeed())
		}},
	}
}

// manifests returns hosts and Metal3Clusters as a user has them in a repository.
func (w *world) manifests(ctx context.Context) []client.Object {
	GinkgoHelper()
	var manifests []client.Object
	var infras infrav1.Metal3ClusterList
	Expect(w.here.client.List(ctx, &infras, client.InNamespace(w.namespace))).To(Succeed())
	for _, infra := range infras.Items {
		manifests = append(manifests, &infrav1.Metal3Cluster{ObjectMeta: w.named(infra.Name), Spec: infra.Spec})
	}
	for name, host := range w.hosts(ctx, Default, w.here) {
		spec := *host.Spec.DeepCopy()
		spec.ConsumerRef, spec.Image, spec.UserData = nil, nil, nil
		manifests = append(manifests, &bmov1alpha1.BareMetalHost{ObjectMeta: w.named(name), Spec: spec})
	}
	return manifests
}

// scaleDown deletes a Machine and its objects in place of Cluster API and the garbage collector.
func (w *world) scaleDown(ctx context.Context, name string) {
	GinkgoHelper()
	for _, object := range w.partsOf(name) {
		Expect(w.here.client.Delete(ctx, object)).To(Succeed())
		Eventually(func() error {
			return w.here.client.Get(ctx, client.ObjectKeyFromObject(object), object)
		}).Should(MatchError(ContainSubstring("not found")))
	}
}

// partsOf returns the objects of a machine, in the order of their deletion.
func (w *world) partsOf(name string) []client.Object {
	return []client.Object{
		&infrav1.Metal3Machine{ObjectMeta: w.named(name)}, &clusterv1.Machine{ObjectMeta: w.named(name)},
		w.secret(name + "-bootstrap"),
	}
}

// everyKind creates a host in each stable state, and one whose registration fails again and again.
func (w *world) everyKind(ctx context.Context) {
	GinkgoHelper()
	w.fleet(ctx, "cluster", 2, 1)
	for _, host := range []string{"errored", "detached", "paused"} {
		w.host(ctx, host, imaged)
	}
	w.host(ctx, "external", func(host *bmov1alpha1.BareMetalHost) { host.Spec.ExternallyProvisioned = true })
	w.host(ctx, "locked")
	w.changeSecret(ctx, "locked", func(secret *corev1.Secret) { secret.Data["password"] = []byte("hunter2") })
	for _, host := range []string{"errored", "detached", "paused"} {
		w.eventually(ctx, host, inState(bmov1alpha1.StateProvisioned), isFine(), HaveField("Status.PoweredOn", true))
	}
	w.eventually(ctx, "external", inState(bmov1alpha1.StateExternallyProvisioned), isFine(),
		HaveField("Status.PoweredOn", true))
	w.changeSecret(ctx, "errored", func(secret *corev1.Secret) { delete(secret.Data, "username") })
	w.change(ctx, "detached", func(host *bmov1alpha1.BareMetalHost) {
		host.Annotations[bmov1alpha1.DetachedAnnotation] = ""
	})
	w.change(ctx, "paused", func(host *bmov1alpha1.BareMetalHost) {
		host.Annotations[bmov1alpha1.PausedAnnotation] = "maintenance"
	})
	w.eventually(ctx, "errored", hasFailed(bmov1alpha1.RegistrationError))
	w.eventually(ctx, "locked", hasFailed(bmov1alpha1.RegistrationError))
	w.eventually(ctx, "detached", HaveField("Status.OperationalStatus", bmov1alpha1.OperationalStatusDetached))
}

// beginWhileProvisioning adds a host that stays in provisioning until stuck(false), and begins a move then. It returns
// the trace from before.
func (w *world) beginWhileProvisioning(ctx context.Context, name string) (trace, *journey) {
	w.host(ctx, name)
	w.settled(ctx)
	w.readyForMove(ctx)
	before := w.trace(ctx)
	w.stuck(true)
	w.change(ctx, name, imaged)
	w.eventually(ctx, name, inState(bmov1alpha1.StateProvisioning))
	return before, w.begin(ctx)
}
