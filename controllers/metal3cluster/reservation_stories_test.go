package metal3cluster_test

import (
	"context"
	"errors"
	"maps"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeReservations are the stories of hosts that node reuse reserves for a deleted cluster.
func describeReservations(s *suite) {
	for its, clusterGone := range map[string]bool{"exists": false, "does not exist": true} {
		It("releases its reserved hosts when it is deleted and its Cluster "+its, func(ctx context.Context) {
			w := s.world(ctx)
			w.manager.Start()
			cluster := w.cluster(ctx)
			w.infrastructure(ctx, cluster)
			w.ready(ctx)
			cleaned, uncleaned := w.reserved(ctx, "cleaned", clusterName, ""), w.reserved(ctx, "uncleaned", clusterName, "disabled")
			unlabelled := w.reserved(ctx, "unlabelled", clusterName, "")
			stage.Change(ctx, w.client, w.key("unlabelled"), &bmov1alpha1.BareMetalHost{}, func(h *bmov1alpha1.BareMetalHost) {
				delete(h.Labels, infrav1.NodeReuseLabel)
			})
			w.reserved(ctx, "neighbour", "other", "disabled")
			neighbour := w.stored(ctx, Default, "neighbour")
			if clusterGone {
				Expect(w.client.Delete(ctx, cluster)).To(Succeed())
			}
			w.remove(ctx)
			w.gone(ctx)
			Expect(w.stored(ctx, Default, "cleaned")).To(beAs(cleaned))
			Expect(w.stored(ctx, Default, "unlabelled")).To(beAs(unlabelled), "a user has removed the label only")
			uncleaned.Spec.Online = false
			Expect(w.stored(ctx, Default, "uncleaned")).To(beAs(uncleaned), "the old system must not come back")
			Expect(w.stored(ctx, Default, "neighbour")).To(Equal(neighbour))
		})
	}

	It("keeps reservations while there are Machines, and while its Cluster is paused", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx))
		w.ready(ctx)
		found := w.reserved(ctx, "host", clusterName, "")
		kept := w.stored(ctx, Default, "host")
		machine := w.pausedDeletion(ctx)
		Expect(w.client.Delete(ctx, machine)).To(Succeed())
		Consistently(func(g Gomega) { g.Expect(w.stored(ctx, g, "host")).To(Equal(kept)) }).Should(Succeed())
		w.pause(ctx, false)
		w.gone(ctx)
		Expect(w.stored(ctx, Default, "host")).To(beAs(found))
	})

	It("does not write reserved hosts that are being moved", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx))
		w.ready(ctx)
		found := w.reserved(ctx, "plain", clusterName, "")
		annotations := map[string]map[string]string{
			"paused": {bmov1alpha1.PausedAnnotation: infrav1.HostPausedByProvider},
			"moving": {infrav1.DeleteForMoveAnnotation: ""},
		}
		before := map[string]*bmov1alpha1.BareMetalHost{}
		for name, added := range annotations {
			w.reserved(ctx, name, clusterName, "")
			stage.Change(ctx, w.client, w.key(name), &bmov1alpha1.BareMetalHost{}, func(h *bmov1alpha1.BareMetalHost) {
				maps.Copy(h.Annotations, added)
			})
			before[name] = w.stored(ctx, Default, name)
		}
		w.remove(ctx)
		w.eventually(ctx, infrav1.DeletingCondition, And(stage.IsTrueBecause(infrav1.WaitingForHostsReason),
			HaveField("Message", ContainSubstring("BareMetalHost paused, reserved"))))
		Expect(w.stored(ctx, Default, "plain")).To(beAs(found))
		for name, kept := range before {
			Expect(w.stored(ctx, Default, name)).To(Equal(kept))
		}
		Expect(w.client.Delete(ctx, &clusterv1.Cluster{ObjectMeta: named(w.namespace, clusterName)})).To(Succeed())
		w.gone(ctx)
	})

	It("releases every reserved host despite failed and conflicting writes", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx))
		w.ready(ctx)
		found := map[string]*bmov1alpha1.BareMetalHost{}
		for _, name := range []string{"broken", "busy", "gone", "lost", "plain"} {
			found[name] = w.reserved(ctx, name, clusterName, "")
		}
		refusal := apierrors.NewInternalError(errors.New("no leader"))
		faults := map[string]func() stage.Verdict{
			"broken": func() stage.Verdict { return stage.Verdict{Err: refusal} },
			"lost":   func() stage.Verdict { return stage.Verdict{Err: refusal, Lost: true} },
			"busy": func() stage.Verdict {
				stage.Change(ctx, w.client, w.key("busy"), &bmov1alpha1.BareMetalHost{}, func(h *bmov1alpha1.BareMetalHost) {
					h.Labels["rack"] = "b"
				})
				return stage.Verdict{}
			},
			"gone": func() stage.Verdict {
				Expect(w.client.Delete(ctx, w.stored(ctx, Default, "gone"))).To(Succeed())
				return stage.Verdict{}
			},
		}
		w.manager.Writes.Judge(func(write stage.Write) stage.Verdict {
			fault, planned := faults[write.Name]
			if !planned || write.Kind != "BareMetalHost" {
				return stage.Verdict{}
			}
			delete(faults, write.Name)
			return fault()
		})
		w.remove(ctx)
		w.gone(ctx)
		Expect(faults).To(BeEmpty())
		for _, name := range []string{"broken", "lost", "plain"} {
			Expect(w.stored(ctx, Default, name)).To(beAs(found[name]))
		}
		found["busy"].Labels["rack"] = "b"
		Expect(w.stored(ctx, Default, "busy")).To(beAs(found["busy"]), "the change of the other writer stays")
	})
}

// pausedDeletion deletes the Metal3Cluster, and pauses its Cluster while the deletion waits for the returned Machine.
func (w *world) pausedDeletion(ctx context.Context) *clusterv1.Machine {
	GinkgoHelper()
	machine := build.Machine("machine", clusterName, build.InNamespace(w.namespace))
	w.create(ctx, machine)
	w.remove(ctx)
	w.eventually(ctx, infrav1.DeletingCondition, stage.IsTrueBecause(infrav1.WaitingForMachinesReason))
	w.pause(ctx, true)
	w.eventually(ctx, infrav1.PausedCondition, stage.IsTrue())
	return machine
}

// reserved creates a host that node reuse reserves for a Cluster. It returns the host as it was before its machine.
func (w *world) reserved(ctx context.Context, name, cluster, cleaning string) *bmov1alpha1.BareMetalHost {
	GinkgoHelper()
	w.host(ctx, name, build.Available(), build.Labels(map[string]string{"rack": "a"}),
		stage.With(func(h *bmov1alpha1.BareMetalHost) { h.Spec.Online = true }))
	found := w.stored(ctx, Default, name)
	held := host.Desired(found, host.Claim{
		Machine: "machine", Namespace: w.namespace, Cluster: cluster, CleaningMode: cleaning,
		Provision: &host.Provision{Image: &infrav1.Image{URL: build.ImageURL}},
	})
	release := host.Release{Machine: "machine", Namespace: w.namespace, Reserve: "md-workers", Cluster: cluster}
	emptied := host.PlanRelease(held, release).Write
	kept := host.PlanRelease(emptied, release).Write
	Expect(kept.Spec.Online).To(BeFalse())
	Expect(w.client.Update(ctx, kept)).To(Succeed())
	return found
}

func (w *world) stored(ctx context.Context, g Gomega, name string) *bmov1alpha1.BareMetalHost {
	found := &bmov1alpha1.BareMetalHost{}
	g.Expect(w.client.Get(ctx, w.key(name), found)).To(Succeed())
	return found
}

// beAs matches a host with the spec, labels and annotations of another.
func beAs(want *bmov1alpha1.BareMetalHost) types.GomegaMatcher {
	return And(
		HaveField("Spec", want.Spec),
		WithTransform(client.Object.GetLabels, Equal(want.Labels)),
		WithTransform(client.Object.GetAnnotations, Equal(want.Annotations)),
	)
}
