package move_test

import (
	"context"
	"encoding/json"
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// unfinished are the stories of hosts and machines that change when a move begins.
func unfinished(c *clusters) []story {
	return []story{
		{"keeps the hosts of Machines that a move would lose", func(ctx context.Context) {
			w := c.world(ctx)
			w.cluster(ctx, "cluster")
			w.host(ctx, "cluster-0")
			w.machine(ctx, "cluster", "cluster-0")
			w.host(ctx, "young")
			w.settled(ctx)
			w.readyForMove(ctx)
			before := w.trace(ctx)
			young, leaving := w.forgettable(ctx)
			journey := w.begin(ctx)
			w.infras(ctx, stage.HaveCondition(infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason,
				"The move waits: Machine cluster-0 is being deleted, and a move would lose the deletion: wait until it is gone; "+
					"Metal3Machine young has no ownerReference, so clusterctl would leave it behind")))
			Expect(w.hosts(ctx, Default, w.there)).To(BeEmpty())

			By("aborting the move, and completing both operations")
			journey.lose()
			w.pauseClusters(ctx, w.here, false)
			stage.Change(ctx, w.here.client, w.key(leaving.Name), leaving, func(machine *clusterv1.Machine) {
				machine.Finalizers = nil
			})
			for _, object := range []client.Object{
				young, &infrav1.Metal3Machine{ObjectMeta: w.named(leaving.Name)},
				&corev1.Secret{ObjectMeta: w.named(leaving.Name + "-bootstrap")},
			} {
				Expect(w.here.client.Delete(ctx, object)).To(Succeed())
			}
			w.change(ctx, "young", func(host *bmov1alpha1.BareMetalHost) { host.Spec.ConsumerRef = nil })
			w.eventually(ctx, "cluster-0", inState(bmov1alpha1.StateAvailable), isFine(), HaveField("Spec.ConsumerRef", BeNil()))
			w.settled(ctx)
			w.readyForMove(ctx)
			w.move(ctx)
			w.settled(ctx)
			w.observed(ctx)
			Expect(w.asked(before, "active")).To(BeZero(), "no image is written again")
		}},
		{"moves hosts that BMO is deprovisioning", func(ctx context.Context) {
			w := c.world(ctx)
			w.cluster(ctx, "cluster")
			for _, host := range []string{"cluster-0", "cluster-1"} {
				w.host(ctx, host)
				w.machine(ctx, "cluster", host)
			}
			w.settled(ctx)
			before := w.trace(ctx)
			w.stuck(true)
			for _, object := range w.partsOf("cluster-1") {
				Expect(w.here.client.Delete(ctx, object)).To(Succeed())
			}
			w.eventually(ctx, "cluster-1", inState(bmov1alpha1.StateDeprovisioning))
			w.infras(ctx, stage.HaveCondition(infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.NotReadyForMoveReason,
				"clusterctl metal3 pivot allow-busy --namespace "+w.namespace+" --host cluster-1")))

			By("allowing the busy host to move")
			w.change(ctx, "cluster-1", func(host *bmov1alpha1.BareMetalHost) {
				metav1.SetMetaDataAnnotation(&host.ObjectMeta, infrav1.MoveWhileBusyAnnotation, "")
			})
			w.eventually(ctx, "cluster-1", HaveField("Spec.ConsumerRef", BeNil()))
			w.readyForMove(ctx)
			w.move(ctx)
			w.eventually(ctx, "cluster-1", isNotPaused(), inState(bmov1alpha1.StateDeprovisioning),
				HaveField("Annotations", Not(HaveKey(infrav1.MoveWhileBusyAnnotation))))
			w.stuck(false)
			w.settled(ctx)
			w.unharmed(ctx, before.except("cluster-1"))
			Expect(w.asked(before, "deleted")).To(Equal(1), "it is deprovisioned once")
			Expect(w.asked(before, "active")).To(BeZero())
		}},
	}
}

// leftBehind has the story of hosts that a killed clusterctl has left.
func leftBehind(c *clusters) []story {
	return []story{
		{"moves back onto leftovers, and BMO wipes no host", func(ctx context.Context) {
			w := c.world(ctx)
			w.cluster(ctx, "cluster")
			for _, host := range []string{"kept", "upgraded", "half"} {
				w.host(ctx, host, deployed)
			}
			w.settled(ctx)
			w.readyForMove(ctx)
			w.loseWhileDeleting(ctx)
			w.finish(ctx)
			w.there.mend()
			Expect(w.hosts(ctx, Default, w.there)).To(HaveLen(3), "all hosts are left over")
			w.leaveHalf(ctx, "half")
			w.settled(ctx)

			By("upgrading a host in the management cluster that runs the Cluster")
			w.change(ctx, "upgraded", func(host *bmov1alpha1.BareMetalHost) {
				host.Spec.Image.URL = "http://images.example/upgraded.img"
			})
			w.eventually(ctx, "upgraded", inState(bmov1alpha1.StateProvisioned), isFine(),
				HaveField("Status.Provisioning.Image.URL", "http://images.example/upgraded.img"),
				HaveField("Status.PoweredOn", true))
			w.readyForMove(ctx)
			before := w.trace(ctx)

			By("moving back")
			w.move(ctx)
			w.eventually(ctx, "kept", inState(bmov1alpha1.StateProvisioned), isFine(), isNotPaused())
			w.eventually(ctx, "upgraded", isNotPaused(),
				HaveField("Status.Provisioning.Image.URL", "http://images.example/upgraded.img"))
			w.observed(ctx, "kept", "upgraded")
			w.eventually(ctx, "half", isPausedBy(infrav1.HostPausedByProvider))
			w.nothingDone(before, "update")
			w.same(ctx, before.except("half"))

			By("replacing the host that is being deleted")
			w.keep(ctx, "half")
			w.eventually(ctx, "half", inState(bmov1alpha1.StateProvisioned), isFine(), isNotPaused(),
				HaveField("DeletionTimestamp", BeNil()), HaveField("Spec", before.pictures["half"].Spec))
			w.observed(ctx)
			w.nothingDone(before, "update")
		}},
		{"holds a leftover that is being deleted although its own status comes back", func(ctx context.Context) {
			w := c.world(ctx)
			w.cluster(ctx, "cluster")
			w.host(ctx, "half", deployed)
			w.settled(ctx)
			w.observed(ctx)
			w.change(ctx, "half", func(host *bmov1alpha1.BareMetalHost) {
				metav1.SetMetaDataAnnotation(&host.ObjectMeta, bmov1alpha1.PausedAnnotation, "maintenance")
			})
			w.readyForMove(ctx)
			before := w.trace(ctx)
			w.loseWhileDeleting(ctx)
			w.finish(ctx)
			w.there.mend()
			w.leaveHalf(ctx, "half")
			w.readyForMove(ctx)
			w.move(ctx)
			w.eventually(ctx, "half", isPausedBy("maintenance"), HaveField("DeletionTimestamp", Not(BeNil())))
			w.infras(ctx, stage.HaveCondition(infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.NotReadyForMoveReason,
				"BareMetalHost half was being deleted when it arrived")))

			By("replacing it, and ending the pause of the user")
			w.keep(ctx, "half")
			w.change(ctx, "half", func(host *bmov1alpha1.BareMetalHost) {
				delete(host.Annotations, bmov1alpha1.PausedAnnotation)
			})
			w.eventually(ctx, "half", inState(bmov1alpha1.StateProvisioned), isFine(), isNotPaused(),
				HaveField("DeletionTimestamp", BeNil()), HaveField("Spec", before.pictures["half"].Spec))
			w.observed(ctx)
			w.nothingDone(before, "update")
		}},
	}
}

// forgettable creates a Metal3Machine that clusterctl does not discover, with a host, and deletes a Machine whose
// deletion waits.
func (w *world) forgettable(ctx context.Context) (young *infrav1.Metal3Machine, leaving *clusterv1.Machine) {
	GinkgoHelper()
	young = build.Metal3Machine("young", "cluster", build.InNamespace(w.namespace))
	w.create(ctx, young)
	w.change(ctx, "young", func(host *bmov1alpha1.BareMetalHost) {
		host.Spec.ConsumerRef = build.Host("x", build.Consumed(young)).Spec.ConsumerRef
	})
	leaving = &clusterv1.Machine{ObjectMeta: w.named("cluster-0")}
	stage.Change(ctx, w.here.client, w.key(leaving.Name), leaving, func(machine *clusterv1.Machine) {
		machine.Finalizers = append(machine.Finalizers, "example.com/keep")
	})
	Expect(w.here.client.Delete(ctx, leaving)).To(Succeed())
	return young, leaving
}

// deployed sets an image that the host already runs, with a status annotation that says so, as after a move.
func deployed(host *bmov1alpha1.BareMetalHost) {
	GinkgoHelper()
	imaged(host)
	known, err := json.Marshal(map[string]any{
		"operationalStatus": "OK", "errorMessage": "", "errorCount": 0, "poweredOn": true,
		"provisioning": map[string]any{
			"state": "provisioned", "ID": "", "bootMode": "UEFI", "image": host.Spec.Image,
		},
	})
	Expect(err).NotTo(HaveOccurred())
	metav1.SetMetaDataAnnotation(&host.ObjectMeta, bmov1alpha1.StatusAnnotation, string(known))
}

// leaveHalf marks and deletes a leftover host like a clusterctl that is killed before it removes the finalizers.
func (w *world) leaveHalf(ctx context.Context, name string) {
	GinkgoHelper()
	left := &bmov1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	Expect(w.there.client.Patch(ctx, left, deleteForMove())).To(Succeed())
	Expect(w.there.client.Delete(ctx, left)).To(Succeed())
}

// deleteForMove is the patch of clusterctl before it deletes an object in the source: it replaces all annotations.
func deleteForMove() client.Patch {
	return client.RawPatch(types.JSONPatchType, fmt.Appendf(nil,
		`[{"op":"add","path":"/metadata/annotations","value":{%q:""}}]`, infrav1.DeleteForMoveAnnotation))
}
