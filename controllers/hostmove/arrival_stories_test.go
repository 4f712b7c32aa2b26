package hostmove_test

import (
	"context"
	"encoding/json"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/departure"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// upgraded is the image that a host got in the source cluster.
const upgraded = "http://images.example/upgraded.img"

// arrivedAfter returns a host that has arrived on a leftover: the annotation has the status that another cluster
// recorded some time after the status of the leftover, or before it.
func arrivedAfter(after time.Duration) build.HostOption {
	return stage.With(func(host *bmov1alpha1.BareMetalHost) {
		host.Spec.Image.URL = upgraded
		arrived := host.Status.DeepCopy()
		arrived.HardwareDetails, arrived.Provisioning.Image.URL = nil, upgraded
		arrived.LastUpdated = &metav1.Time{Time: host.Status.LastUpdated.Add(after)}
		content, err := json.Marshal(arrived)
		Expect(err).NotTo(HaveOccurred())
		build.Annotations(map[string]string{
			bmov1alpha1.StatusAnnotation: string(content), infrav1.StatusOriginAnnotation: "of-another-cluster",
		})(host)
	})
}

// describeArrivals are the stories of hosts that arrive on leftovers of an earlier move.
func describeArrivals(s *suite) {
	It("restores the status of an arrived host before it resumes the host", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx)
		w.host(ctx, "leftover", build.Provisioned(), w.claimed(), build.Paused(ours), arrivedAfter(time.Hour))
		resumedWith := make(chan string, 1)
		watcher, err := client.NewWithWatch(s.server.Config, client.Options{Scheme: build.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		stream, err := watcher.Watch(ctx, &bmov1alpha1.BareMetalHostList{}, client.InNamespace(w.namespace))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(stream.Stop)
		go func() {
			defer close(resumedWith)
			for event := range stream.ResultChan() {
				host, isHost := event.Object.(*bmov1alpha1.BareMetalHost)
				if !isHost {
					return
				}
				if _, paused := host.Annotations[bmov1alpha1.PausedAnnotation]; !paused {
					resumedWith <- host.Status.Provisioning.Image.URL
					return
				}
			}
		}()
		w.manager.Start()
		Eventually(resumedWith).Should(Receive(Equal(upgraded)), "the host was resumed with the status of the leftover")
		host := w.get(ctx, Default, "leftover")
		Expect(host.Status.HardwareDetails).NotTo(BeNil(), "the annotation has no hardware details")
		Eventually(func(g Gomega) {
			g.Expect(w.events(ctx, g, "leftover")).To(ConsistOf("StatusRestored", "ResumedAfterMove"))
		}).Should(Succeed())
	})

	It("keeps a host paused that BMO would wipe, and reports it", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx)
		const keep = "example.com/keep"
		w.host(ctx, "deleted", build.Provisioned(), w.claimed(), build.Paused(ours), arrivedAfter(time.Hour),
			build.Finalizers(keep))
		Expect(w.client.Delete(ctx, build.Host("deleted", build.InNamespace(w.namespace)))).To(Succeed())
		w.host(ctx, "newer", build.Provisioned(), w.claimed(), build.Paused(ours), arrivedAfter(-time.Hour))
		w.manager.Start()
		for _, name := range []string{"deleted", "newer"} {
			Eventually(func(g Gomega) {
				g.Expect(w.events(ctx, g, name)).To(ContainElement("ArrivalHeld"))
			}).Should(Succeed(), name)
		}
		w.stays(ctx, "deleted")
		w.stays(ctx, "newer")
		for _, name := range []string{"deleted", "newer"} {
			host := w.get(ctx, Default, name)
			Expect(host.Annotations).To(HaveKeyWithValue(bmov1alpha1.PausedAnnotation, ours), name)
			Expect(host.Status.Provisioning.Image.URL).To(Equal(build.ImageURL), "nothing was restored to %s", name)
		}

		By("deciding for the newer status")
		stage.Change(ctx, w.client, w.key("newer"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			delete(host.Annotations, bmov1alpha1.StatusAnnotation)
		})
		w.running(ctx, "newer")
		stage.Change(ctx, w.client, w.key("deleted"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Finalizers = nil
		})
	})

	It("fences hosts that another management cluster manages, in all their states", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx, withIronic())
		w.host(ctx, "busy", build.State(bmov1alpha1.StateDeprovisioning), w.claimed())
		w.host(ctx, "free", build.Available())
		w.host(ctx, "leftover", build.Provisioned(), w.claimed(), build.Paused(ours), build.Annotations(map[string]string{
			infrav1.PauseReasonAnnotation: pivot.PauseReason(pivot.Pause), infrav1.MoveEpochAnnotation: "1",
		}))
		w.host(ctx, "maintained", build.Provisioned(), w.claimed(), build.Paused("maintenance"))
		w.manager.Start()
		w.stays(ctx, "busy")
		w.judge(ctx, metav1.ConditionFalse, infrav1.ManagedElsewhereReason)
		for _, name := range []string{"busy", "free", "leftover"} {
			Eventually(func(g Gomega) {
				g.Expect(w.get(ctx, g, name).Annotations).To(HaveKeyWithValue(bmov1alpha1.PausedAnnotation, ours), name)
				g.Expect(w.events(ctx, g, name)).To(ConsistOf("Fenced"))
				g.Expect(w.get(ctx, g, name).Annotations).To(HaveKeyWithValue(infrav1.PauseReasonAnnotation,
					HavePrefix("Another management cluster manages the host")))
			}).Should(Succeed())
		}
		Expect(w.get(ctx, Default, "leftover").Annotations).To(HaveKeyWithValue(infrav1.MoveEpochAnnotation, "1"))
		Expect(w.get(ctx, Default, "maintained").Annotations).To(And(Not(HaveKey(infrav1.PauseReasonAnnotation)),
			HaveKeyWithValue(bmov1alpha1.PausedAnnotation, "maintenance")), "the pause of the user needs no other reason")

		By("pausing the Cluster, which would let a busy host finish otherwise")
		w.pause(ctx, true)
		w.stays(ctx, "busy")
		w.pause(ctx, false)

		By("managing the cluster again")
		w.judge(ctx, metav1.ConditionTrue, infrav1.EndpointAnswersReason)
		w.running(ctx, "busy")
		w.running(ctx, "free")
		Expect(w.get(ctx, Default, "busy").Annotations).NotTo(HaveKey(infrav1.PauseReasonAnnotation))
	})

	It("sets the epoch of the move on hosts, and removes it when the Cluster runs", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx, build.Annotations(map[string]string{infrav1.MoveEpochAnnotation: "5"}))
		w.host(ctx, "early", build.Available(), build.Paused("maintenance"))
		w.host(ctx, "late", build.Available())
		w.pause(ctx, true)
		w.manager.Start()
		w.parked(ctx, "early", "maintenance")
		w.parked(ctx, "late", ours)
		for _, name := range []string{"early", "late"} {
			Expect(w.get(ctx, Default, name).Annotations).To(HaveKeyWithValue(infrav1.MoveEpochAnnotation, "5"), name)
		}
		Expect(w.get(ctx, Default, "early").Annotations).NotTo(HaveKey(infrav1.PauseReasonAnnotation))
		Expect(w.get(ctx, Default, "late").Annotations).To(HaveKeyWithValue(infrav1.PauseReasonAnnotation,
			HavePrefix("Paused for clusterctl move")))

		By("moving again while the hosts are parked")
		w.epoch(ctx, "7", "5")
		for _, name := range []string{"early", "late"} {
			Eventually(func(g Gomega) {
				g.Expect(w.get(ctx, g, name).Annotations).To(HaveKeyWithValue(infrav1.MoveEpochAnnotation, "7"), name)
			}).Should(Succeed())
		}
		w.epoch(ctx, "8", "7")
		w.pause(ctx, false)
		w.running(ctx, "late")
		Expect(w.get(ctx, Default, "late").Annotations).NotTo(HaveKey(infrav1.MoveEpochAnnotation))

		By("ending the pause of the user")
		remove := func(annotation string) {
			GinkgoHelper()
			stage.Change(ctx, w.client, w.key("early"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
				delete(host.Annotations, annotation)
			})
		}
		remove(bmov1alpha1.PausedAnnotation)
		w.stays(ctx, "early")
		Expect(w.get(ctx, Default, "early").Annotations).To(HaveKey(infrav1.StatusOriginAnnotation))

		By("removing the status annotation, as BMO does")
		remove(bmov1alpha1.StatusAnnotation)
		Eventually(func(g Gomega) { g.Expect(w.get(ctx, g, "early").Annotations).To(BeEmpty()) }).Should(Succeed())
	})

	It("keeps a leftover host of an earlier move paused until the user decides", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx)
		w.epoch(ctx, "4", "3")
		stamped := func(epoch string) build.HostOption {
			return build.Annotations(map[string]string{infrav1.MoveEpochAnnotation: epoch})
		}
		w.host(ctx, "left", build.Provisioned(), build.Paused(ours), stamped("1"))
		w.host(ctx, "arrived", build.Provisioned(), build.Paused(ours), stamped("3"))
		w.manager.Start()
		w.running(ctx, "arrived")
		Eventually(func(g Gomega) {
			g.Expect(w.events(ctx, g, "left")).To(ConsistOf("ArrivalHeld"))
			g.Expect(w.get(ctx, g, "left").Annotations).To(HaveKeyWithValue(infrav1.PauseReasonAnnotation,
				HavePrefix("Left by an earlier move")))
		}).Should(Succeed())
		w.stays(ctx, "left")

		By("keeping the host")
		stage.Change(ctx, w.client, w.key("left"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			delete(host.Annotations, infrav1.MoveEpochAnnotation)
		})
		w.running(ctx, "left")
	})

	It("keeps a free host paused that arrives before its Cluster, while another Cluster runs", func(ctx context.Context) {
		w := s.world(ctx)
		w.create(ctx, build.Cluster("resident", build.InNamespace(w.namespace)))
		w.create(ctx, build.Metal3Cluster("resident", build.InNamespace(w.namespace), gated()))
		w.host(ctx, "free", build.Paused(ours), build.Annotations(map[string]string{
			bmov1alpha1.StatusAnnotation:   `{"provisioning":{"state":"available"}}`,
			infrav1.StatusOriginAnnotation: "of-another-cluster", infrav1.MoveEpochAnnotation: "1",
		}))
		w.manager.Start()
		w.stays(ctx, "free")

		By("creating the Cluster that the host moves with")
		w.create(ctx, build.Cluster("cluster", build.InNamespace(w.namespace), build.ClusterPaused()))
		w.create(ctx, build.Metal3Cluster("cluster", build.InNamespace(w.namespace),
			build.Annotations(map[string]string{infrav1.MoveEpochAnnotation: "1"})))
		w.stays(ctx, "free")

		By("unpausing it")
		w.pause(ctx, false)
		stage.Change(ctx, w.client, w.key("cluster"), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
			build.Annotations(map[string]string{
				infrav1.MoveEpochAnnotation: "2", infrav1.ArrivalEpochAnnotation: "1", infrav1.BlockMoveAnnotation: "",
			})(infra)
		})
		w.running(ctx, "free")
		Expect(w.get(ctx, Default, "free").Annotations).NotTo(HaveKey(infrav1.StatusOriginAnnotation))
	})

	It("resumes a host that was not moved, and keeps the moved ones paused", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx, build.Annotations(map[string]string{infrav1.MoveEpochAnnotation: "1"}))
		w.host(ctx, "left", build.Available())
		w.pause(ctx, true)
		w.manager.Start()
		w.parked(ctx, "left", ours)

		By("opening the gate")
		leaves := pivot.Departure{Infras: map[string]pivot.Epoch{"cluster": 1}}
		leaves.Enter([]*bmov1alpha1.BareMetalHost{w.get(ctx, Default, "left")})
		Expect(departure.New(w.client).Remember(ctx, w.namespace, leaves)).To(Succeed())
		stage.Change(ctx, w.client, w.key("cluster"), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
			delete(infra.Annotations, infrav1.BlockMoveAnnotation)
		})
		w.host(ctx, "late", stage.With(func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.BMC.Address, host.Spec.BootMACAddress = "redfish://late.example/1", "02:00:00:00:00:ff"
		}))
		Eventually(func(g Gomega) {
			g.Expect(w.get(ctx, g, "late").Annotations).To(HaveKeyWithValue(bmov1alpha1.PausedAnnotation, ours))
		}).Should(Succeed())

		By("deleting the Cluster, as clusterctl does at the end")
		Expect(w.client.Delete(ctx, build.Metal3Cluster("cluster", build.InNamespace(w.namespace)))).To(Succeed())
		Expect(w.client.Delete(ctx, build.Cluster("cluster", build.InNamespace(w.namespace)))).To(Succeed())
		w.running(ctx, "late")
		Eventually(func(g Gomega) { g.Expect(w.events(ctx, g, "late")).To(ContainElement("NotMoved")) }).Should(Succeed())
		w.stays(ctx, "left")
		Expect(w.get(ctx, Default, "left").Annotations).To(HaveKeyWithValue(bmov1alpha1.PausedAnnotation, ours))

		By("creating another Cluster in the namespace")
		w.create(ctx, build.Metal3Cluster("new", build.InNamespace(w.namespace), gated()))
		w.stays(ctx, "left")
		w.create(ctx, build.Cluster("new", build.InNamespace(w.namespace)))
		Eventually(func(g Gomega) { g.Expect(w.events(ctx, g, "left")).To(ContainElement("MovedAway")) }).Should(Succeed())
		w.stays(ctx, "left")
		Expect(w.get(ctx, Default, "left").Annotations).To(And(HaveKeyWithValue(bmov1alpha1.PausedAnnotation, ours),
			HaveKeyWithValue(infrav1.PauseReasonAnnotation, pivot.PauseReason(pivot.KeepAway))))

		By("forgetting the move, which changes no host")
		record := &corev1.ConfigMap{}
		record.Namespace, record.Name = w.namespace, pivot.DepartureName
		Expect(w.client.Delete(ctx, record)).To(Succeed())
		w.running(ctx, "left")
	})

	It("restores nothing while a host is not paused", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx)
		w.host(ctx, "leftover", build.Provisioned(), w.claimed(), arrivedAfter(time.Hour))
		w.pause(ctx, true)
		w.manager.Start()
		Eventually(func(g Gomega) {
			host := w.get(ctx, g, "leftover")
			g.Expect(host.Annotations).To(HaveKeyWithValue(bmov1alpha1.PausedAnnotation, ours))
			g.Expect(host.Status.Provisioning.Image.URL).To(Equal(upgraded))
		}).Should(Succeed())
		done := w.writes.Done()
		Expect(done[:2]).To(HaveExactElements(
			HaveField("String()", "patch BareMetalHost"), HaveField("String()", "patch status BareMetalHost")), "the pause first")
	})
}
