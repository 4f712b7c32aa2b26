package hostsweep_test

import (
	"context"
	"errors"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeUpgrade contains the stories about ownerReferences, with and without the sweep.
func describeUpgrade(s *suite) {
	It("saves hosts from the garbage collector", func(ctx context.Context) {
		w := s.world(ctx)
		swept, unswept := w.machine(ctx, "swept"), w.machine(ctx, "unswept")
		w.host(ctx, "swept", build.Provisioned(), ownedAsByCAPM3(swept), consumedAsByCAPM3(swept))
		running := w.manager.Start()
		w.swept(ctx, "swept", nil)
		Eventually(func(g Gomega) {
			g.Expect(w.events(ctx, g, "swept")).To(ConsistOf("LeftoversRemoved"))
		}).Should(Succeed())
		Expect(w.get(ctx, Default, "swept").Spec.ConsumerRef).NotTo(BeNil(), "the claim stays")
		running.Stop()

		w.host(ctx, "unswept", build.Provisioned(), ownedAsByCAPM3(unswept), consumedAsByCAPM3(unswept))
		Expect(w.client.Delete(ctx, swept)).To(Succeed())
		Expect(w.client.Delete(ctx, unswept)).To(Succeed())
		Eventually(func(g Gomega) { g.Expect(w.exists(ctx, g, "unswept")).To(BeFalse()) }).Should(Succeed())
		Consistently(func(g Gomega) { g.Expect(w.exists(ctx, g, "swept")).To(BeTrue()) }).Should(Succeed())
	})

	It("reports a host that the API server refuses to change", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host", build.Provisioned(), ownedAsByCAPM3(w.machine(ctx, "machine")))
		w.writes.Judge(func(write stage.Write) stage.Verdict {
			return stage.Verdict{Err: apierrors.NewForbidden(schema.GroupResource{Resource: "baremetalhosts"}, write.Name,
				errors.New("denied by a policy"))}
		})
		w.manager.Start()
		Eventually(func(g Gomega) {
			g.Expect(w.notes(ctx, g, "host")).To(ContainElement(And(HavePrefix("Warning WriteRefused: "),
				ContainSubstring("denied by a policy"), ContainSubstring("ownerReferences"))))
		}).Should(Succeed())
		w.writes.Judge(nil)
		stage.Change(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Labels = map[string]string{"corrected": "yes"}
		})
		w.swept(ctx, "host", nil)
	})

	for name, answer := range map[string]*apierrors.StatusError{
		"denies with a status of its own": apierrors.NewBadRequest("a webhook denied the request: no"),
		"does not answer":                 apierrors.NewInternalError(errors.New("failed calling webhook: no endpoints")),
	} {
		It("reports a webhook that "+name, func(ctx context.Context) {
			w := s.world(ctx)
			w.host(ctx, "host", build.Provisioned(), ownedAsByCAPM3(w.machine(ctx, "machine")))
			w.writes.Judge(func(stage.Write) stage.Verdict { return stage.Verdict{Err: answer} })
			w.manager.Start()
			Eventually(func(g Gomega) {
				g.Expect(w.notes(ctx, g, "host")).To(ContainElement(And(HavePrefix("Warning WriteRefused: "),
					HaveSuffix(answer.Error()))))
			}).Should(Succeed())
		})
	}

	It("keeps other owners", func(ctx context.Context) {
		w := s.world(ctx)
		inventory := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "inventory"}}
		w.create(ctx, inventory)
		w.host(ctx, "host", build.OwnedBy(inventory), ownedAsByCAPM3(w.machine(ctx, "machine")),
			stage.With(func(host *bmov1alpha1.BareMetalHost) { host.OwnerReferences[1].Controller = nil }))
		w.manager.Start()
		Eventually(func(g Gomega) {
			g.Expect(w.get(ctx, g, "host").OwnerReferences).To(ConsistOf(HaveField("Kind", "ConfigMap")))
		}).Should(Succeed())
	})
}

// describeOrphans contains the stories about hosts that are kept powered off.
func describeOrphans(s *suite) {
	const ofCAPM3 = infrav1.RemediationRebootPrefix + "0b2f6c1e-9f31-4a57-9f0e-2d8b8c1f0a11"
	off := map[string]string{ofCAPM3: `{"mode":"hard"}`, "reboot.metal3.io/by-user": ""}
	byUser := map[string]string{"reboot.metal3.io/by-user": ""}

	It("powers a host on whose remediation no longer exists", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "claimed", build.Provisioned(), build.Consumed(w.machine(ctx, "machine")), build.Annotations(off))
		w.manager.Start()
		w.swept(ctx, "claimed", byUser)
		w.host(ctx, "restored-later", build.Annotations(off))
		w.swept(ctx, "restored-later", byUser)
	})

	It("keeps a host off until the remediation of its Machine ends", func(ctx context.Context) {
		w := s.world(ctx)
		owner := build.Machine("owner", "cluster", build.InNamespace(w.namespace))
		w.create(ctx, owner)
		machine := build.Metal3Machine("machine", "cluster", build.InNamespace(w.namespace), build.OwnedBy(owner))
		w.create(ctx, machine)
		request := &infrav1.Metal3Remediation{ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: "moved", Finalizers: []string{"example.com/keeps"},
		}}
		build.OwnedBy(owner)(request)
		w.create(ctx, request)
		w.host(ctx, "host", build.Provisioned(), build.Consumed(machine), build.Annotations(off))
		w.manager.Start()
		w.host(ctx, "orphan", build.Annotations(off))
		w.swept(ctx, "orphan", byUser)
		Expect(w.client.Delete(ctx, request)).To(Succeed())
		Consistently(func(g Gomega) { g.Expect(w.get(ctx, g, "host").Annotations).To(Equal(off)) }).Should(Succeed())
		stage.Change(ctx, w.client, w.key("moved"), request, func(request *infrav1.Metal3Remediation) {
			request.Finalizers = nil
		})
		w.swept(ctx, "host", byUser)
	})

	It("keeps a host off while a Cluster is paused, since remediations may still be moved to it", func(ctx context.Context) {
		w := s.world(ctx)
		w.create(ctx, build.Cluster("cluster", build.InNamespace(w.namespace), build.ClusterPaused()))
		w.host(ctx, "host", build.Annotations(off), ownedAsByCAPM3(w.machine(ctx, "machine")))
		w.manager.Start()
		w.swept(ctx, "host", off)
		Consistently(func(g Gomega) { g.Expect(w.get(ctx, g, "host").Annotations).To(Equal(off)) }).Should(Succeed())
		w.pause(ctx, false)
		w.swept(ctx, "host", byUser)
	})
}

// describeSweep contains the stories about annotations.
func describeSweep(s *suite) {
	leftovers := map[string]string{
		infrav1.BlockMoveAnnotation: "",
		infrav1.ReleaseAnnotation:   `{"online":true}`,
		"example.com/asset":         "4711",
	}
	all := build.Annotations(leftovers)
	unblocked := map[string]string{infrav1.ReleaseAnnotation: `{"online":true}`, "example.com/asset": "4711"}

	It("removes block-move and old records from unclaimed hosts", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "before-the-start", all)
		w.manager.Start()
		w.swept(ctx, "before-the-start", map[string]string{"example.com/asset": "4711"})
		w.host(ctx, "restored-later", all)
		w.swept(ctx, "restored-later", map[string]string{"example.com/asset": "4711"})
		Expect(w.writes.Done()).To(HaveLen(2), "one write for each host")
	})

	It("removes block-move from a reserved host, and restores it after a manual release", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host", build.Available(), all, build.Labels(map[string]string{infrav1.NodeReuseLabel: "md-workers"}),
			stage.With(func(host *bmov1alpha1.BareMetalHost) {
				host.Spec.ConsumerRef = &corev1.ObjectReference{
					APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Namespace: w.namespace, Name: "cluster",
				}
			}))
		w.manager.Start()
		w.swept(ctx, "host", unblocked)
		stage.Change(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			delete(host.Labels, infrav1.NodeReuseLabel)
		})
		Consistently(func(g Gomega) { g.Expect(w.get(ctx, g, "host").Annotations).To(Equal(unblocked)) }).Should(Succeed())
		stage.Change(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.ConsumerRef = nil
		})
		w.swept(ctx, "host", map[string]string{"example.com/asset": "4711"})
		Expect(w.get(ctx, Default, "host").Spec.Online).To(BeTrue())
	})

	It("keeps only the record of a host that lost its consumerRef while a machine has recorded it", func(ctx context.Context) {
		w := s.world(ctx)
		machine := w.machine(ctx, "machine")
		stage.Change(ctx, w.client, w.key("machine"), machine, func(machine *infrav1.Metal3Machine) {
			machine.Annotations = map[string]string{infrav1.HostAnnotation: w.namespace + "/recorded"}
		})
		w.host(ctx, "recorded", all)
		w.manager.Start()
		w.host(ctx, "dirty", all)
		w.swept(ctx, "dirty", map[string]string{"example.com/asset": "4711"})
		w.swept(ctx, "recorded", unblocked)
		Consistently(func(g Gomega) { g.Expect(w.get(ctx, g, "recorded").Annotations).To(Equal(unblocked)) }).Should(Succeed())
		stage.Change(ctx, w.client, w.key("machine"), machine, func(machine *infrav1.Metal3Machine) {
			machine.Annotations, machine.Spec.ProviderID = nil, "metal3://"+w.namespace+"/recorded/machine"
		})
		Consistently(func(g Gomega) { g.Expect(w.get(ctx, g, "recorded").Annotations).To(Equal(unblocked)) }).Should(Succeed())
		Expect(w.client.Delete(ctx, machine)).To(Succeed())
		w.swept(ctx, "recorded", map[string]string{"example.com/asset": "4711"})
	})

	It("removes the record of a host when its machine records another host", func(ctx context.Context) {
		w := s.world(ctx)
		machine := w.machine(ctx, "machine")
		record := func(host string) {
			stage.Change(ctx, w.client, w.key("machine"), machine, func(machine *infrav1.Metal3Machine) {
				machine.Annotations = map[string]string{infrav1.HostAnnotation: w.namespace + "/" + host}
			})
		}
		record("first")
		w.host(ctx, "first", all)
		w.manager.Start()
		w.host(ctx, "dirty", all)
		w.swept(ctx, "dirty", map[string]string{"example.com/asset": "4711"})
		w.swept(ctx, "first", unblocked)
		record("second")
		w.swept(ctx, "first", map[string]string{"example.com/asset": "4711"})
	})

	It("keeps values of users and of other consumers", func(ctx context.Context) {
		w := s.world(ctx)
		byUser := map[string]string{bmov1alpha1.PausedAnnotation: "maintenance", bmov1alpha1.DetachedAnnotation: ""}
		machine := w.machine(ctx, "machine")
		w.host(ctx, "paused-by-user", build.Annotations(byUser))
		w.host(ctx, "claimed", build.Consumed(machine), all)
		w.host(ctx, "claimed-by-others", all, stage.With(func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: "metal3.io/v1alpha1", Kind: "HostClaim", Name: "claim"}
		}))
		w.host(ctx, "moving", build.Annotations(map[string]string{infrav1.DeleteForMoveAnnotation: ""}), all)
		w.host(ctx, "clean")
		w.manager.Start()
		w.host(ctx, "dirty", all)
		w.swept(ctx, "dirty", map[string]string{"example.com/asset": "4711"})
		Consistently(w.writes.Done).Should(ConsistOf(stage.Write{Verb: "patch", Kind: "BareMetalHost", Name: "dirty"}))
		Expect(w.get(ctx, Default, "paused-by-user").Annotations).To(Equal(byUser))
		Expect(w.get(ctx, Default, "claimed").Annotations).To(Equal(leftovers))
		Expect(w.get(ctx, Default, "claimed-by-others").Annotations).To(Equal(leftovers))
	})

	It("removes only ownerReferences while a Cluster is paused", func(ctx context.Context) {
		w := s.world(ctx)
		w.create(ctx, build.Cluster("cluster", build.InNamespace(w.namespace), build.ClusterPaused()))
		w.host(ctx, "host", all, ownedAsByCAPM3(w.machine(ctx, "machine")))
		w.manager.Start()
		w.swept(ctx, "host", leftovers)
		Consistently(func(g Gomega) { g.Expect(w.get(ctx, g, "host").Annotations).To(Equal(leftovers)) }).Should(Succeed())
		w.pause(ctx, false)
		w.swept(ctx, "host", map[string]string{"example.com/asset": "4711"})
	})

	It("sweeps again after a write conflict", func(ctx context.Context) {
		w := s.world(ctx)
		overtaken := false
		w.writes.Judge(func(write stage.Write) stage.Verdict {
			if !overtaken {
				overtaken = true
				stage.Change(ctx, w.client, w.key(write.Name), &bmov1alpha1.BareMetalHost{},
					func(host *bmov1alpha1.BareMetalHost) { host.Annotations["example.com/asset"] = "4712" })
			}
			return stage.Verdict{}
		})
		w.host(ctx, "host", all)
		w.manager.Start()
		w.swept(ctx, "host", map[string]string{"example.com/asset": "4712"})
	})
}
