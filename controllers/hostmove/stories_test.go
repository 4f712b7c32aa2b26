package hostmove_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// ours is the value of the annotation for a pause by the provider.
const ours = infrav1.HostPausedByProvider

// withIronic returns a Metal3Cluster with an Ironic endpoint.
func withIronic() build.Metal3ClusterOption {
	return stage.With(func(infra *infrav1.Metal3Cluster) {
		infra.Spec.Ironic = &infrav1.Ironic{ClusterID: "c1", Endpoint: infrav1.IronicEndpoint{
			VirtualIPs: []string{"192.0.2.2"}, CIDRs: []string{"192.0.2.0/24"}, Interface: "eth0",
		}}
	})
}

// describeParking are the stories before clusterctl copies the hosts.
func describeParking(s *suite) {
	It("parks claimed and free hosts while their Cluster is paused", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx)
		w.host(ctx, "claimed", build.Provisioned(), build.NIC("eth0", "02:00:00:00:00:01", "192.0.2.21"), w.claimed())
		w.host(ctx, "free", build.Available())
		w.manager.Start()
		w.stays(ctx, "claimed")
		w.pause(ctx, true)
		w.parked(ctx, "claimed", ours)
		w.parked(ctx, "free", ours)
		Eventually(func(g Gomega) {
			g.Expect(w.events(ctx, g, "free")).To(ConsistOf("PausedForMove", "ReadyForMove"))
		}).Should(Succeed())
		Expect(w.writes.Done()).To(HaveLen(4), "two writes for each host")
	})

	It("waits until a host is not busy, and unpauses a busy host", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx)
		w.host(ctx, "busy", build.State(bmov1alpha1.StateInspecting))
		w.host(ctx, "caught", build.State(bmov1alpha1.StatePreparing), build.Paused(ours))
		w.pause(ctx, true)
		w.manager.Start()
		w.running(ctx, "caught")
		w.stays(ctx, "busy")
		for _, name := range []string{"busy", "caught"} {
			w.report(ctx, name, func(status *bmov1alpha1.BareMetalHostStatus) {
				status.Provisioning.State = bmov1alpha1.StateAvailable
			})
			w.parked(ctx, name, ours)
		}
	})

	It("parks a host after its reboot", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx)
		w.host(ctx, "off", build.Provisioned(), w.claimed(), build.Paused(ours), off())
		w.host(ctx, "asked", build.Provisioned(), w.claimed(),
			build.Annotations(map[string]string{bmov1alpha1.RebootAnnotationPrefix: ""}))
		w.pause(ctx, true)
		w.manager.Start()
		w.running(ctx, "off")
		w.stays(ctx, "asked")
		w.report(ctx, "off", func(status *bmov1alpha1.BareMetalHostStatus) { status.PoweredOn = true })
		stage.Change(ctx, w.client, w.key("asked"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			delete(host.Annotations, bmov1alpha1.RebootAnnotationPrefix)
		})
		w.parked(ctx, "off", ours)
		w.parked(ctx, "asked", ours)
	})

	It("records a status that BMO writes after the pause", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx)
		w.host(ctx, "host", build.Provisioned(), w.claimed())
		w.pause(ctx, true)
		w.manager.Start()
		w.parked(ctx, "host", ours)
		w.report(ctx, "host", func(status *bmov1alpha1.BareMetalHostStatus) {
			later := metav1.NewTime(status.LastUpdated.Add(time.Second))
			status.LastUpdated, status.Provisioning.ID = &later, "of-another-node"
		})
		w.parked(ctx, "host", ours)
	})

	It("records the status of a host that a user has paused, and keeps that pause", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx)
		w.host(ctx, "host", build.Provisioned(), w.claimed(), build.Paused("maintenance"))
		w.pause(ctx, true)
		w.manager.Start()
		w.parked(ctx, "host", "maintenance")
		w.pause(ctx, false)
		w.stays(ctx, "host")
		Expect(w.get(ctx, Default, "host").Annotations).To(HaveKeyWithValue(bmov1alpha1.PausedAnnotation, "maintenance"))
	})

	It("parks detached hosts and hosts with errors", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx)
		w.host(ctx, "failed", build.State(bmov1alpha1.StateRegistering), build.Error("wrong password"))
		w.host(ctx, "detached", build.Provisioned(), w.claimed(), stage.With(func(host *bmov1alpha1.BareMetalHost) {
			host.Status.OperationalStatus = bmov1alpha1.OperationalStatusDetached
		}))
		w.host(ctx, "new")
		w.pause(ctx, true)
		w.manager.Start()
		w.parked(ctx, "failed", ours)
		w.parked(ctx, "detached", ours)
		Eventually(func(g Gomega) {
			g.Expect(w.get(ctx, g, "new").Annotations).To(HaveKeyWithValue(bmov1alpha1.PausedAnnotation, ours))
		}).Should(Succeed())
		w.stays(ctx, "new")
	})

	It("does not park free hosts while another Cluster of the namespace runs", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx)
		w.create(ctx, build.Cluster("other", build.InNamespace(w.namespace)))
		w.create(ctx, build.Metal3Cluster("other", build.InNamespace(w.namespace), gated()))
		w.host(ctx, "claimed", build.Provisioned(), w.claimed())
		w.host(ctx, "free", build.Available())
		w.pause(ctx, true)
		w.manager.Start()
		w.parked(ctx, "claimed", ours)
		w.stays(ctx, "free")
		w.running(ctx, "free")
	})
}

// off returns a host that is off although its spec.online is true.
func off() build.HostOption {
	return stage.With(func(host *bmov1alpha1.BareMetalHost) { host.Status.PoweredOn = false })
}

// describeResuming are the stories after a move, in the source and in the target.
func describeResuming(s *suite) {
	It("keeps hosts paused until the Metal3Cluster has block-move again", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx, build.Annotations(map[string]string{"example.com/x": ""}), stage.With(
			func(infra *infrav1.Metal3Cluster) { delete(infra.Annotations, infrav1.BlockMoveAnnotation) }))
		w.host(ctx, "claimed", build.Provisioned(), w.claimed(), build.Paused(ours))
		w.host(ctx, "free", build.Available(), build.Paused(ours))
		w.manager.Start()
		w.stays(ctx, "claimed")
		w.stays(ctx, "free")
		stage.Change(ctx, w.client, w.key("cluster"), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
			infra.Annotations[infrav1.BlockMoveAnnotation] = ""
		})
		w.running(ctx, "claimed")
		w.running(ctx, "free")
	})

	It("resumes a host that clusterctl marked for its deletion, after the mark is removed", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx)
		w.host(ctx, "host", build.Available(), build.Paused(ours), build.Annotations(map[string]string{
			infrav1.DeleteForMoveAnnotation: "",
		}))
		w.manager.Start()
		w.stays(ctx, "host")
		stage.Change(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			delete(host.Annotations, infrav1.DeleteForMoveAnnotation)
		})
		w.running(ctx, "host")
	})

	It("removes the pause when a move is aborted", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx)
		w.host(ctx, "claimed", build.Provisioned(), w.claimed())
		w.host(ctx, "free", build.Available())
		w.pause(ctx, true)
		w.manager.Start()
		w.parked(ctx, "claimed", ours)
		w.parked(ctx, "free", ours)
		w.pause(ctx, false)
		w.running(ctx, "claimed")
		w.running(ctx, "free")
	})

	It("keeps moved hosts paused until their own Ironic answers", func(ctx context.Context) {
		w := s.world(ctx)
		brought := build.Annotations(map[string]string{
			bmov1alpha1.PausedAnnotation: ours, bmov1alpha1.StatusAnnotation: `{"provisioning":{"state":"provisioned"}}`,
		})
		w.host(ctx, "claimed", brought, w.claimed())
		w.host(ctx, "free", brought)
		w.manager.Start()
		w.stays(ctx, "free")
		w.cluster(ctx, withIronic())
		w.pause(ctx, true)
		w.stays(ctx, "claimed")
		w.pause(ctx, false)
		w.observe(ctx, metav1.ConditionFalse, infrav1.IronicHolder{Kind: infrav1.HolderForeign, Name: "c2-x"})
		w.stays(ctx, "claimed")
		w.stays(ctx, "free")
		w.observe(ctx, metav1.ConditionTrue, infrav1.IronicHolder{Kind: infrav1.HolderManagement, Name: "m"})
		w.running(ctx, "claimed")
		w.running(ctx, "free")
		Expect(w.get(ctx, Default, "free").Annotations).To(HaveKey(bmov1alpha1.StatusAnnotation))
	})

	It("does not write a host that clusterctl deletes", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx)
		w.host(ctx, "host", build.Provisioned(), w.claimed(), build.Annotations(map[string]string{
			infrav1.DeleteForMoveAnnotation: "",
		}))
		w.manager.Start()
		w.pause(ctx, true)
		w.stays(ctx, "host")
		w.pause(ctx, false)
		w.stays(ctx, "host")
		Expect(w.writes.Done()).To(BeEmpty())
	})

	It("requeues every host in BMO when another Ironic takes over, a hundred at a time", func(ctx context.Context) {
		w := s.world(ctx)
		const hosts = 105
		w.cluster(ctx, withIronic())
		for i := range hosts {
			w.host(ctx, fmt.Sprintf("host-%03d", i), build.Available())
		}
		w.manager.Start()
		w.observe(ctx, metav1.ConditionTrue, infrav1.IronicHolder{Kind: infrav1.HolderManagement, Name: "m"})
		w.stays(ctx, "host-000")
		told := func(name string) func(g Gomega) {
			return func(g Gomega) {
				var list bmov1alpha1.BareMetalHostList
				g.Expect(w.client.List(ctx, &list)).To(Succeed())
				for _, host := range list.Items {
					if host.Namespace == w.namespace {
						g.Expect(host.Annotations).To(HaveKeyWithValue(infrav1.IronicHolderAnnotation, name))
					}
				}
			}
		}
		w.observe(ctx, metav1.ConditionTrue, infrav1.IronicHolder{Kind: infrav1.HolderControlPlane, Name: "n1"})
		Eventually(told("ControlPlane/n1")).Should(Succeed())
		w.observe(ctx, metav1.ConditionFalse, infrav1.IronicHolder{Kind: infrav1.HolderNone})
		w.stays(ctx, "host-000")
		w.observe(ctx, metav1.ConditionTrue, infrav1.IronicHolder{Kind: infrav1.HolderControlPlane, Name: "n2"})
		Eventually(told("ControlPlane/n2")).Should(Succeed())
		Expect(w.writes.Done()).To(HaveLen(2*hosts), "one write for each host and change")
	})

	It("resumes, requeues and keeps the hosts of other namespaces that the same Ironic serves", func(ctx context.Context) {
		w, other := s.world(ctx), s.world(ctx)
		w.cluster(ctx, withIronic())
		other.cluster(ctx)
		other.host(ctx, "arrived", build.Provisioned(), other.claimed(), build.Paused(ours))
		other.host(ctx, "free", build.Available())
		other.joined(ctx)
		other.host(ctx, "joined", build.Provisioned(), build.State(bmov1alpha1.StateProvisioning), other.claimed())
		apart := s.world(ctx)
		apart.host(ctx, "alone", build.Available())
		w.manager.Others = []string{other.namespace, apart.namespace}
		other.writes = w.writes
		w.manager.Start()
		other.stays(ctx, "arrived")

		By("verifying the endpoint")
		w.observe(ctx, metav1.ConditionTrue, infrav1.IronicHolder{Kind: infrav1.HolderManagement, Name: "m"})
		other.running(ctx, "arrived")

		By("handing it over")
		w.observe(ctx, metav1.ConditionTrue, infrav1.IronicHolder{Kind: infrav1.HolderControlPlane, Name: "n"})
		for world, names := range map[*world][]string{other: {"arrived", "free"}, apart: {"alone"}} {
			for _, name := range names {
				Eventually(func(g Gomega) {
					g.Expect(world.get(ctx, g, name).Annotations).To(
						HaveKeyWithValue(infrav1.IronicHolderAnnotation, "ControlPlane/n"))
				}).Should(Succeed(), name)
			}
		}
		Eventually(func(g Gomega) {
			g.Expect(other.get(ctx, g, "joined").Status.Provisioning.State).To(Equal(bmov1alpha1.StateProvisioned))
		}).Should(Succeed(), "the new Ironic would provision it again")
	})

	It("resumes a host that waits for the Ironic of another namespace, with a manager for one namespace", func(ctx context.Context) {
		w, other := s.world(ctx), s.world(ctx)
		w.cluster(ctx, withIronic(), stage.With(func(infra *infrav1.Metal3Cluster) {
			infra.Spec.Ironic.ClusterID = "moves-later"
		}))
		other.cluster(ctx)
		other.host(ctx, "waits", build.Provisioned(), other.claimed(), build.Annotations(map[string]string{
			bmov1alpha1.PausedAnnotation: ours, infrav1.IronicClusterIDAnnotation: "moves-later",
		}))
		other.host(ctx, "own", build.Provisioned(), other.claimed(), build.Annotations(map[string]string{
			bmov1alpha1.PausedAnnotation: ours,
		}))
		other.manager.Everywhere = []client.Object{&infrav1.Metal3Cluster{}}
		other.manager.Start()
		other.running(ctx, "own")
		other.stays(ctx, "waits")
		w.observe(ctx, metav1.ConditionTrue, infrav1.IronicHolder{Kind: infrav1.HolderManagement, Name: "m"})
		other.running(ctx, "waits")
	})

	It("removes the VIP holder from a host when the cluster with the endpoint is deleted", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx, withIronic())
		w.host(ctx, "host", build.Available(), build.Annotations(map[string]string{"example.com/of": "user"}))
		w.manager.Start()
		w.observe(ctx, metav1.ConditionTrue, infrav1.IronicHolder{Kind: infrav1.HolderControlPlane, Name: "n"})
		Eventually(func(g Gomega) {
			g.Expect(w.get(ctx, g, "host").Annotations).To(HaveKey(infrav1.IronicHolderAnnotation))
		}).Should(Succeed())
		finalize := func(ctx context.Context, finalizers ...string) {
			stage.Change(ctx, w.client, w.key("cluster"), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
				cluster.Finalizers = finalizers
			})
		}
		finalize(ctx, clusterv1.ClusterFinalizer)
		DeferCleanup(func(ctx context.Context) { finalize(ctx) })
		Expect(w.client.Delete(ctx, build.Cluster("cluster", build.InNamespace(w.namespace)))).To(Succeed())
		Expect(w.client.Delete(ctx, build.Metal3Cluster("cluster", build.InNamespace(w.namespace)))).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(w.get(ctx, g, "host").Annotations).To(Equal(map[string]string{"example.com/of": "user"}))
		}).Should(Succeed())
	})
}

// joined creates the machine of the claimed hosts. Its Node has joined.
func (w *world) joined(ctx context.Context) {
	GinkgoHelper()
	owner := build.Machine("machine", "cluster", build.InNamespace(w.namespace), stage.With(func(m *clusterv1.Machine) {
		m.Status.NodeRef.Name = "node"
	}))
	w.create(ctx, owner)
	w.create(ctx, build.Metal3Machine("machine", "cluster", build.InNamespace(w.namespace), build.OwnedBy(owner)))
}

// describeInterruption are the stories of an Ironic that is lost during an operation.
func describeInterruption(s *suite) {
	It("keeps a host whose node has joined although it is still being provisioned", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx, withIronic())
		w.joined(ctx)
		w.host(ctx, "joined", build.Provisioned(), build.State(bmov1alpha1.StateProvisioning), w.claimed(),
			stage.With(func(host *bmov1alpha1.BareMetalHost) { host.Status.Provisioning.Image = bmov1alpha1.Image{} }))
		w.manager.Start()
		w.observe(ctx, metav1.ConditionTrue, infrav1.IronicHolder{Kind: infrav1.HolderManagement, Name: "m"})
		w.stays(ctx, "joined")
		Expect(w.get(ctx, Default, "joined").Status.Provisioning.State).To(Equal(bmov1alpha1.StateProvisioning))
		w.observe(ctx, metav1.ConditionTrue, infrav1.IronicHolder{Kind: infrav1.HolderControlPlane, Name: "n"})
		Eventually(func(g Gomega) {
			host := w.get(ctx, g, "joined")
			g.Expect(host.Status.Provisioning.State).To(Equal(bmov1alpha1.StateProvisioned))
			g.Expect(host.Status.Provisioning.Image).To(Equal(*host.Spec.Image), "another one would be deprovisioned")
			g.Expect(host.Annotations).To(HaveKeyWithValue(infrav1.IronicHolderAnnotation, "ControlPlane/n"))
			g.Expect(w.events(ctx, g, "joined")).To(ContainElement("ProvisioningInterrupted"))
		}).Should(Succeed())
	})

	// deploying returns a host that is being provisioned for a machine without a Node, in a cluster with a control
	// plane, and that loses its Ironic.
	deploying := func(ctx context.Context) *world {
		GinkgoHelper()
		w := s.world(ctx)
		w.cluster(ctx, withIronic())
		stage.ChangeStatus(ctx, w.client, w.key("cluster"), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
			cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
		})
		owner := build.Machine("machine", "cluster", build.InNamespace(w.namespace))
		w.create(ctx, owner)
		w.create(ctx, build.Metal3Machine("machine", "cluster", build.InNamespace(w.namespace), build.OwnedBy(owner)))
		w.host(ctx, "host", build.Provisioned(), build.State(bmov1alpha1.StateProvisioning), w.claimed(),
			stage.With(func(host *bmov1alpha1.BareMetalHost) {
				host.Status.Provisioning.Image = bmov1alpha1.Image{}
				host.Status.HardwareDetails = &bmov1alpha1.HardwareDetails{Hostname: "inspected"}
			}))
		w.manager.Start()
		return w
	}
	loseIronic := func(ctx context.Context, w *world) {
		w.observe(ctx, metav1.ConditionTrue, infrav1.IronicHolder{Kind: infrav1.HolderControlPlane, Name: "n"})
	}
	kept := func(ctx context.Context, w *world) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			host := w.get(ctx, g, "host")
			g.Expect(host.Status.Provisioning.State).To(Equal(bmov1alpha1.StateProvisioned))
			g.Expect(host.Status.Provisioning.Image).To(Equal(*host.Spec.Image))
			g.Expect(host.Annotations).To(HaveKeyWithValue(infrav1.IronicHolderAnnotation, "ControlPlane/n"))
			g.Expect(host.Annotations).NotTo(HaveKey(bmov1alpha1.PausedAnnotation))
		}).Should(Succeed())
	}

	It("keeps a host whose node has joined before its Machine has status.nodeRef", func(ctx context.Context) {
		w := deploying(ctx)
		w.nodes.answer(true, nil)
		loseIronic(ctx, w)
		kept(ctx, w)
		Expect(w.nodes.question()).To(Equal(workload.Query{
			HostUID: string(w.get(ctx, Default, "host").UID), Hostname: "inspected",
		}))
	})

	It("does not keep a host whose node has not joined", func(ctx context.Context) {
		w := deploying(ctx)
		loseIronic(ctx, w)
		Eventually(func(g Gomega) {
			host := w.get(ctx, g, "host")
			g.Expect(host.Annotations).To(Equal(map[string]string{infrav1.IronicHolderAnnotation: "ControlPlane/n"}))
			g.Expect(host.Status.Provisioning.State).To(Equal(bmov1alpha1.StateProvisioning))
		}).Should(Succeed())
	})

	It("holds a host until its cluster answers whether its node has joined", func(ctx context.Context) {
		w := deploying(ctx)
		w.nodes.answer(false, workload.ErrUnreachable)
		loseIronic(ctx, w)
		Eventually(func(g Gomega) {
			g.Expect(w.get(ctx, g, "host").Annotations).To(And(HaveLen(2), HaveKeyWithValue(bmov1alpha1.PausedAnnotation, ours),
				HaveKeyWithValue(infrav1.PauseReasonAnnotation, HavePrefix("The Ironic that was provisioning the host is gone"))))
			g.Expect(w.events(ctx, g, "host")).To(ConsistOf("ProvisioningHeld"))
		}).Should(Succeed())
		w.stays(ctx, "host")
		w.nodes.answer(true, nil)
		kept(ctx, w)
	})

	It("holds a host and reports the error if the nodes of its cluster cannot be read", func(ctx context.Context) {
		w := deploying(ctx)
		w.nodes.answer(false, errors.New("nodes is forbidden"))
		loseIronic(ctx, w)
		Eventually(func(g Gomega) {
			g.Expect(w.get(ctx, g, "host").Annotations).To(HaveKeyWithValue(bmov1alpha1.PausedAnnotation, ours))
			g.Expect(w.events(ctx, g, "host")).To(ContainElements("ReadFailed", "ProvisioningHeld"))
		}).Should(Succeed())
		w.nodes.answer(true, nil)
		kept(ctx, w)
	})

	It("keeps a host whose node has joined although it was moved while it was being provisioned",
		func(ctx context.Context) {
			w := s.world(ctx)
			w.cluster(ctx, withIronic())
			owner := build.Machine("machine", "cluster", build.InNamespace(w.namespace), stage.With(func(m *clusterv1.Machine) {
				m.Status.NodeRef.Name = "node"
			}))
			w.create(ctx, owner)
			w.create(ctx, build.Metal3Machine("machine", "cluster", build.InNamespace(w.namespace), build.OwnedBy(owner)))
			w.host(ctx, "arrived", build.Provisioned(), w.claimed(), build.Paused(ours),
				build.Finalizers(bmov1alpha1.BareMetalHostFinalizer), build.Annotations(map[string]string{
					bmov1alpha1.StatusAnnotation: `{"provisioning":{"state":"provisioning","ID":"old"},"errorType":"old"}`,
				}), stage.With(func(host *bmov1alpha1.BareMetalHost) { host.Status = bmov1alpha1.BareMetalHostStatus{} }))
			w.manager.Start()
			w.observe(ctx, metav1.ConditionTrue, infrav1.IronicHolder{Kind: infrav1.HolderControlPlane, Name: "n"})
			w.running(ctx, "arrived")
			Expect(w.get(ctx, Default, "arrived").Annotations[bmov1alpha1.StatusAnnotation]).To(
				And(ContainSubstring(`"state":"provisioned"`), ContainSubstring(`"ID":"old"`), Not(ContainSubstring("errorType"))))
			Eventually(func(g Gomega) {
				g.Expect(w.events(ctx, g, "arrived")).To(ContainElement("ProvisioningInterrupted"))
			}).Should(Succeed())
		})

	It("keeps a host paused that arrived without its status, until its node has joined", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx)
		owner := build.Machine("machine", "cluster", build.InNamespace(w.namespace))
		w.create(ctx, owner)
		w.create(ctx, build.Metal3Machine("machine", "cluster", build.InNamespace(w.namespace), build.OwnedBy(owner)))
		w.host(ctx, "restored", build.Provisioned(), w.claimed(), build.Paused(ours),
			build.Finalizers(bmov1alpha1.BareMetalHostFinalizer), stage.With(func(host *bmov1alpha1.BareMetalHost) {
				host.Status = bmov1alpha1.BareMetalHostStatus{}
			}))
		w.manager.Start()
		Eventually(func(g Gomega) {
			g.Expect(w.get(ctx, g, "restored").Annotations).To(HaveKeyWithValue(infrav1.PauseReasonAnnotation,
				HavePrefix("The host has an image and arrived without its status")))
		}).Should(Succeed())
		w.stays(ctx, "restored")
		Eventually(func(g Gomega) { g.Expect(w.events(ctx, g, "restored")).To(ConsistOf("StatusLost")) }).Should(Succeed())
		stage.ChangeStatus(ctx, w.client, w.key("machine"), &clusterv1.Machine{}, func(machine *clusterv1.Machine) {
			machine.Status.NodeRef.Name = "node"
		})
		w.running(ctx, "restored")
		host := w.get(ctx, Default, "restored")
		Expect(host.Status.Provisioning.State).To(Equal(bmov1alpha1.StateProvisioned))
		Expect(host.Status.Provisioning.Image).To(Equal(*host.Spec.Image))
	})
}

// describeFaults are the stories of failed writes.
func describeFaults(s *suite) {
	It("does not retry the write of a host that the API server refuses, and reports it", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx)
		w.host(ctx, "old", build.Available())
		w.pause(ctx, true)
		tried := 0
		w.writes.Judge(func(write stage.Write) stage.Verdict {
			if write.Kind != "BareMetalHost" {
				return stage.Verdict{}
			}
			tried++
			return stage.Verdict{Err: apierrors.NewBadRequest("a webhook denied the request: spec.raid contradicts")}
		})
		w.manager.Start()
		Eventually(func(g Gomega) { g.Expect(w.events(ctx, g, "old")).To(ContainElement("WriteRefused")) }).Should(Succeed())
		w.stays(ctx, "old")
		w.writes.Judge(nil)
		Expect(tried).To(BeNumerically("<", 4), "the next attempt waits for a change of the host")
		stage.Change(ctx, w.client, w.key("old"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.Description = "corrected"
		})
		w.parked(ctx, "old", ours)
	})

	It("reports a webhook that does not answer, and parks the host when it does", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx)
		w.host(ctx, "host", build.Available())
		w.pause(ctx, true)
		w.writes.Judge(func(stage.Write) stage.Verdict {
			return stage.Verdict{Err: apierrors.NewInternalError(errors.New("failed calling webhook: no endpoints"))}
		})
		w.manager.Start()
		Eventually(func(g Gomega) { g.Expect(w.events(ctx, g, "host")).To(ContainElement("WriteRefused")) }).Should(Succeed())
		w.writes.Judge(nil)
		w.parked(ctx, "host", ours)
	})

	It("parks and resumes despite failed, lost and conflicting writes", func(ctx context.Context) {
		w := s.world(ctx)
		w.cluster(ctx)
		w.host(ctx, "host", build.Provisioned(), w.claimed())
		turn := 0
		w.writes.Judge(func(write stage.Write) stage.Verdict {
			if write.Kind != "BareMetalHost" {
				return stage.Verdict{}
			}
			turn++
			switch turn % 4 {
			case 1:
				return stage.Verdict{Err: errors.New("no connection")}
			case 2:
				stage.Change(ctx, w.client, w.key(write.Name), &bmov1alpha1.BareMetalHost{},
					func(host *bmov1alpha1.BareMetalHost) {
						build.Annotations(map[string]string{"example.com/turn": fmt.Sprint(turn)})(host)
					})
				return stage.Verdict{}
			case 3:
				return stage.Verdict{Err: errors.New("no answer"), Lost: true}
			default:
				return stage.Verdict{}
			}
		})
		w.manager.Start()
		w.pause(ctx, true)
		w.parked(ctx, "host", ours)
		w.pause(ctx, false)
		w.running(ctx, "host")
	})
}
