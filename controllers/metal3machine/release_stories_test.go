package metal3machine_test

import (
	"context"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeReleases are the stories about deleted machines and lost hosts.
func describeReleases(s *suite) {
	// found are the states of a host before its first claim.
	found := map[string]func(*bmov1alpha1.BareMetalHost){
		"powered off": func(host *bmov1alpha1.BareMetalHost) { host.Spec.Online = false },
		"powered on":  func(host *bmov1alpha1.BareMetalHost) { host.Spec.Online = true },
		"with labels, annotations and data of its owner": func(host *bmov1alpha1.BareMetalHost) {
			host.Labels = map[string]string{"rack": "a", clusterv1.ClusterNameLabel: "inventory"}
			host.Annotations = map[string]string{"asset": "4711"}
			host.Spec.Online = true
			host.Spec.AutomatedCleaningMode = bmov1alpha1.CleaningModeMetadata
			host.Spec.UserData = &corev1.SecretReference{Name: "user", Namespace: host.Namespace}
			host.Spec.MetaData = &corev1.SecretReference{Name: "meta", Namespace: host.Namespace}
			host.Spec.NetworkData = &corev1.SecretReference{Name: "network", Namespace: host.Namespace}
		},
		"with another finalizer and owner": func(host *bmov1alpha1.BareMetalHost) {
			host.Finalizers = append(host.Finalizers, "example.com/inventory")
			host.OwnerReferences = nil
		},
	}
	for name, leave := range found {
		It("restores its host: "+name, func(ctx context.Context) {
			w := s.world(ctx)
			w.operate(ctx)
			w.dataSecrets(ctx, "user", "meta", "network", "of-machine")
			w.host(ctx, "host", stage.With(leave))
			w.settled(ctx, "host")
			before := w.getHost(ctx, Default, "host")
			w.start()
			w.machine(ctx, "machine", stage.With(func(machine *infrav1.Metal3Machine) {
				machine.Spec.MetaData = &corev1.SecretReference{Name: "of-machine"}
				machine.Spec.AutomatedCleaningMode = "metadata"
			}))
			w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, stage.IsTrue())
			w.remove(ctx, "machine")
			w.gone(ctx, "machine")
			w.restored(ctx, before)
			w.withoutMachineMetadata(ctx, "host")
		})
	}

	It("leaves its host powered on if it is deleted while it waits for its data", func(ctx context.Context) {
		w := s.world(ctx)
		w.operate(ctx)
		w.dataSecrets(ctx, "own-network")
		w.host(ctx, "host", stage.With(found["powered on"]))
		w.settled(ctx, "host")
		before := w.getHost(ctx, Default, "host")
		w.start()
		w.machine(ctx, "machine", withDataTemplate(), stage.With(func(machine *infrav1.Metal3Machine) {
			machine.Spec.AutomatedCleaningMode = infrav1.CleaningModeDisabled
		}))
		Expect(w.associated(ctx, "machine")).To(Equal("host"))
		w.remove(ctx, "machine")
		w.gone(ctx, "machine")
		w.restored(ctx, before)
	})

	It("keeps the Secrets of the administrator on a host that CAPM3 claimed", func(ctx context.Context) {
		w := s.world(ctx)
		w.operate(ctx)
		administrators := &corev1.SecretReference{Name: "of-administrator", Namespace: w.namespace}
		w.host(ctx, "host", build.Provisioned(), build.Consumed(w.named("machine")),
			stage.With(func(host *bmov1alpha1.BareMetalHost) {
				host.Spec.UserData, host.Spec.NetworkData = w.reference("machine-bootstrap"), administrators
				host.Spec.MetaData = w.reference("machine-metadata")
			}))
		w.start()
		w.machine(ctx, "machine", build.OnHost(w.getHost(ctx, Default, "host")))
		w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, stage.IsTrue())
		status := w.getMachine(ctx, Default, "machine").Status
		Expect(status.UserData).To(Equal(w.reference("machine-bootstrap")))
		Expect(status.MetaData).To(Equal(w.reference("machine-metadata")))
		Expect(status.NetworkData).To(BeNil(), "the machine has not set it")
		w.remove(ctx, "machine")
		w.gone(ctx, "machine")
		host := w.getHost(ctx, Default, "host")
		Expect(host.Spec.NetworkData).To(Equal(administrators))
		Expect(host.Spec.UserData).To(BeNil())
		Expect(host.Spec.MetaData).To(BeNil())
	})

	It("reports the progress of the release", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host", build.Provisioned(), build.Consumed(w.named("machine")))
		w.start()
		w.machine(ctx, "machine", build.Finalizers(infrav1.MachineFinalizer), build.OnHost(w.getHost(ctx, Default, "host")))
		w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, stage.IsTrue())
		w.remove(ctx, "machine")
		deleting := func(reason, message string) {
			GinkgoHelper()
			w.eventually(ctx, "machine", infrav1.DeletingCondition, And(
				stage.IsTrueBecause(reason), HaveField("Message", ContainSubstring(message))))
		}
		deleting(infrav1.HostDeprovisioningReason, "Waiting for BareMetalHost host to be deprovisioned (state: provisioned)")
		w.eventually(ctx, "machine", infrav1.ReadyCondition, stage.IsFalseBecause(infrav1.DeletingReason, "BareMetalHost host"))
		changeStatus(ctx, w, "host", &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Status.Provisioning.State = bmov1alpha1.StateDeprovisioning
			host.Status.ErrorType, host.Status.ErrorMessage = bmov1alpha1.PowerManagementError, "no answer"
		})
		deleting(infrav1.HostErrorReason, "BareMetalHost host reports power management error: no answer")
		Expect(w.hostsOf(ctx, Default, "machine")).To(ConsistOf("host"))
		changeStatus(ctx, w, "host", &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Status.Provisioning.State = bmov1alpha1.StateAvailable
			host.Status.ErrorType, host.Status.ErrorMessage = "", ""
		})
		w.gone(ctx, "machine")
		Expect(w.hostsOf(ctx, Default, "machine")).To(BeEmpty())
	})

	It("deprovisions its host with a cleaning mode that changed during a pause", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host", build.Provisioned(), build.Consumed(w.named("machine")))
		w.start()
		w.machine(ctx, "machine", build.Finalizers(infrav1.MachineFinalizer), build.OnHost(w.getHost(ctx, Default, "host")),
			stage.With(func(machine *infrav1.Metal3Machine) {
				machine.Spec.AutomatedCleaningMode = infrav1.CleaningModeMetadata
			}))
		mode := func(g Gomega) bmov1alpha1.AutomatedCleaningMode {
			return w.getHost(ctx, g, "host").Spec.AutomatedCleaningMode
		}
		Eventually(mode).Should(Equal(bmov1alpha1.CleaningModeMetadata))
		w.pauseCluster(ctx, true)
		w.eventually(ctx, "machine", infrav1.PausedCondition, stage.IsTrue())
		change(ctx, w, "machine", &infrav1.Metal3Machine{}, func(machine *infrav1.Metal3Machine) {
			machine.Spec.AutomatedCleaningMode = infrav1.CleaningModeDisabled
		})
		w.remove(ctx, "machine")
		w.pauseCluster(ctx, false)
		w.eventually(ctx, "machine", infrav1.DeletingCondition, stage.IsTrueBecause(infrav1.HostDeprovisioningReason))
		host := w.getHost(ctx, Default, "host")
		Expect(host.Spec.Image).To(BeNil())
		Expect(host.Spec.AutomatedCleaningMode).To(Equal(bmov1alpha1.CleaningModeDisabled))
	})

	It("is deleted without a host", func(ctx context.Context) {
		w := s.world(ctx)
		w.start()
		w.machine(ctx, "machine")
		w.eventually(ctx, "machine", infrav1.HostAssociatedCondition, stage.IsFalseBecause(infrav1.NoHostAvailableReason, ""))
		w.remove(ctx, "machine")
		w.gone(ctx, "machine")
		w.host(ctx, "host")
		Consistently(func(g Gomega) { g.Expect(w.hostsOf(ctx, g, "machine")).To(BeEmpty()) }).Should(Succeed())
	})

	It("is deleted after its Machine and Cluster", func(ctx context.Context) {
		w := s.world(ctx)
		w.operate(ctx)
		w.host(ctx, "host")
		w.start()
		w.machine(ctx, "machine")
		w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, stage.IsTrue())
		Expect(w.client.Delete(ctx, &clusterv1.Machine{ObjectMeta: w.named("machine").ObjectMeta})).To(Succeed())
		Expect(w.client.Delete(ctx, w.infra)).To(Succeed())
		Expect(w.client.Delete(ctx, w.cluster)).To(Succeed())
		w.remove(ctx, "machine")
		w.gone(ctx, "machine")
		w.withoutMachineMetadata(ctx, "host")
	})

	It("is deleted after its host", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host")
		w.start()
		w.machine(ctx, "machine")
		w.associated(ctx, "machine")
		Expect(w.client.Delete(ctx, w.getHost(ctx, Default, "host"))).To(Succeed())
		w.eventually(ctx, "machine", infrav1.HostAssociatedCondition, stage.IsFalseBecause(infrav1.NoHostAvailableReason, ""))
		w.remove(ctx, "machine")
		w.gone(ctx, "machine")
	})

	It("is deleted if its host is deleted during the release", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host", build.Provisioned(), build.Consumed(w.named("machine")))
		w.start()
		w.machine(ctx, "machine", build.OnHost(w.getHost(ctx, Default, "host")))
		w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, stage.IsTrue())
		w.remove(ctx, "machine")
		w.eventually(ctx, "machine", infrav1.DeletingCondition, stage.IsTrueBecause(infrav1.HostDeprovisioningReason))
		Expect(w.client.Delete(ctx, w.getHost(ctx, Default, "host"))).To(Succeed())
		w.gone(ctx, "machine")
	})

	It("claims another host if its host is deleted before it was provisioned", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host-0")
		w.start()
		w.machine(ctx, "machine")
		Expect(w.associated(ctx, "machine")).To(Equal("host-0"))
		Expect(w.client.Delete(ctx, w.getHost(ctx, Default, "host-0"))).To(Succeed())
		w.eventually(ctx, "machine", infrav1.HostAssociatedCondition, stage.IsFalseBecause(infrav1.NoHostAvailableReason, ""))
		w.host(ctx, "host-1")
		Expect(w.associated(ctx, "machine")).To(Equal("host-1"))
	})

	It("claims no other host if its host is deleted after it was provisioned", func(ctx context.Context) {
		w := s.world(ctx)
		w.lose(ctx)
		w.host(ctx, "free")
		w.start()
		w.eventually(ctx, "machine", infrav1.HostAssociatedCondition, stage.IsFalseBecause(infrav1.HostLostReason,
			"BareMetalHost host no longer exists. Restore it, or delete Machine machine to replace it."))
		Consistently(func(g Gomega) { g.Expect(w.hostsOf(ctx, g, "machine")).To(BeEmpty()) }).Should(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(w.events(ctx, g, "machine")).To(ContainElement(infrav1.HostLostReason))
		}).Should(Succeed())

		w.host(ctx, "host", build.Provisioned(), build.Consumed(w.named("machine")))
		w.eventually(ctx, "machine", infrav1.HostAssociatedCondition, stage.IsTrue())
		w.remove(ctx, "machine")
		w.eventually(ctx, "machine", infrav1.DeletingCondition, stage.IsTrueBecause(infrav1.HostDeprovisioningReason))
	})

	It("claims no other host if its host is deleted and its annotation is removed", func(ctx context.Context) {
		w := s.world(ctx)
		w.lose(ctx)
		w.forget(ctx)
		w.host(ctx, "free")
		w.start()
		w.eventually(ctx, "machine", infrav1.HostAssociatedCondition, stage.IsFalseBecause(infrav1.HostLostReason,
			"BareMetalHost host no longer exists. Restore it, or delete Machine machine to replace it."))
		Consistently(func(g Gomega) { g.Expect(w.hostsOf(ctx, g, "machine")).To(BeEmpty()) }).Should(Succeed())

		w.host(ctx, "host", build.Provisioned(), build.Consumed(w.named("machine")))
		Expect(w.associated(ctx, "machine")).To(Equal("host"))
	})

	// strip removes the consumerRef of a host.
	strip := func(ctx context.Context, w *world) {
		GinkgoHelper()
		change(ctx, w, "host", &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) { withoutConsumer(host) })
	}
	// sweptWorld returns a world with a host that is powered on, and a sweep of its hosts.
	sweptWorld := func(ctx context.Context) (w *world, before *bmov1alpha1.BareMetalHost) {
		GinkgoHelper()
		w = s.world(ctx)
		w.sweeps = true
		w.operate(ctx)
		w.host(ctx, "host", stage.With(func(host *bmov1alpha1.BareMetalHost) { host.Spec.Online = true }))
		w.settled(ctx, "host")
		return w, w.getHost(ctx, Default, "host")
	}
	// restored expects the release of the host.
	restored := func(ctx context.Context, w *world, before *bmov1alpha1.BareMetalHost) {
		GinkgoHelper()
		w.gone(ctx, "machine")
		w.restored(ctx, before)
	}

	It("claims its host again after the consumerRef was removed", func(ctx context.Context) {
		w, before := sweptWorld(ctx)
		w.start()
		w.machine(ctx, "machine")
		w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, stage.IsTrue())
		w.host(ctx, "free")
		strip(ctx, w)
		Eventually(func(g Gomega) {
			g.Expect(w.hostsOf(ctx, g, "machine")).To(ConsistOf("host"))
		}).Should(Succeed())
		w.remove(ctx, "machine")
		restored(ctx, w, before)
		Expect(w.getHost(ctx, Default, "free").Spec.ConsumerRef).To(BeNil())
	})

	It("releases its host if it is deleted after the consumerRef and its annotation were removed", func(ctx context.Context) {
		w, before := sweptWorld(ctx)
		running := w.start()
		w.secret(ctx, "machine")
		w.metal3Machine(ctx, w.owner(ctx, "machine"))
		Eventually(func(g Gomega) {
			g.Expect(w.getMachine(ctx, g, "machine").Spec.ProviderID).NotTo(BeEmpty())
		}).Should(Succeed())
		running.Stop()
		strip(ctx, w)
		w.forget(ctx)
		w.remove(ctx, "machine")
		w.start()
		restored(ctx, w, before)
	})

	It("releases its host if it is deleted after the consumerRef was removed", func(ctx context.Context) {
		w, before := sweptWorld(ctx)
		running := w.start()
		w.machine(ctx, "machine")
		w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, stage.IsTrue())
		running.Stop()
		strip(ctx, w)
		w.remove(ctx, "machine")
		w.start()
		restored(ctx, w, before)
	})

	It("resets the conditions of a lost host", func(ctx context.Context) {
		w := s.world(ctx)
		w.operate(ctx)
		w.host(ctx, "host")
		w.start()
		w.secret(ctx, "machine")
		w.metal3Machine(ctx, w.owner(ctx, "machine"))
		w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, stage.IsTrue())
		Eventually(func(g Gomega) {
			g.Expect(w.getMachine(ctx, g, "machine").Spec.ProviderID).NotTo(BeEmpty())
		}).Should(Succeed())
		change(ctx, w, "host", &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) { host.Finalizers = nil })
		Expect(w.client.Delete(ctx, w.getHost(ctx, Default, "host"))).To(Succeed())
		w.eventually(ctx, "machine", infrav1.HostAssociatedCondition, stage.IsFalseBecause(infrav1.HostLostReason, ""))
		w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, stage.IsFalseBecause(infrav1.WaitingForHostReason, ""))
	})

	It("does not reclaim a host with another consumer", func(ctx context.Context) {
		w := s.world(ctx)
		w.lose(ctx)
		w.host(ctx, "host", build.Provisioned(), build.Consumed(w.named("other")))
		before := w.hosts(ctx)
		w.start()
		w.eventually(ctx, "machine", infrav1.HostAssociatedCondition, stage.IsFalseBecause(infrav1.HostLostReason, ""))
		w.remove(ctx, "machine")
		w.gone(ctx, "machine")
		Expect(w.hosts(ctx)).To(Equal(before))
	})

	It("releases all its hosts", func(ctx context.Context) {
		w := s.world(ctx)
		w.operate(ctx)
		w.host(ctx, "host-0", build.Provisioned(), build.Consumed(w.named("machine")))
		w.host(ctx, "host-1", build.Provisioned(), build.Consumed(w.named("machine")))
		w.machine(ctx, "machine", build.Finalizers(infrav1.MachineFinalizer))
		w.remove(ctx, "machine")
		w.start()
		w.gone(ctx, "machine")
		w.withoutMachineMetadata(ctx, "host-0")
		w.withoutMachineMetadata(ctx, "host-1")
	})

	It("is not reconciled while a move deletes it", func(ctx context.Context) {
		w := s.world(ctx)
		w.operate(ctx)
		w.host(ctx, "host")
		w.start()
		w.machine(ctx, "machine")
		w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, stage.IsTrue())

		// clusterctl move does this to every object that it has copied.
		machine := w.getMachine(ctx, Default, "machine")
		machine.Annotations = map[string]string{infrav1.DeleteForMoveAnnotation: ""}
		Expect(w.client.Update(ctx, machine)).To(Succeed())
		Expect(w.client.Delete(ctx, machine)).To(Succeed())
		change(ctx, w, "host", &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			build.Labels(map[string]string{"touched": "yes"})(host)
		})
		w.untouched(ctx, "machine", "host")

		host := w.getHost(ctx, Default, "host")
		machine = w.getMachine(ctx, Default, "machine")
		Expect(machine.Finalizers).To(ConsistOf(infrav1.MachineFinalizer))
		machine.Finalizers = nil
		Expect(w.client.Update(ctx, machine)).To(Succeed())
		w.gone(ctx, "machine")
		Consistently(func(g Gomega) { g.Expect(w.getHost(ctx, g, "host").Spec).To(Equal(host.Spec)) }).Should(Succeed())
	})

	It("adopts a host that CAPM3 claimed, and releases it", func(ctx context.Context) {
		w := s.world(ctx)
		w.operate(ctx)
		w.host(ctx, "host", build.Provisioned(), ofCluster(clusterName), stage.With(func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.ConsumerRef = &corev1.ObjectReference{
				APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3Machine",
				Namespace: host.Namespace, Name: "machine",
			}
		}))
		before := w.getHost(ctx, Default, "host")
		w.machine(ctx, "machine", build.OnHost(before), build.Finalizers(infrav1.MachineFinalizer),
			stage.With(func(machine *infrav1.Metal3Machine) {
				machine.Status.Deprecated = &infrav1.DeprecatedStatus{V1Beta1: &infrav1.Metal3V1Beta1Status{
					Conditions: clusterv1.Conditions{{ //nolint:staticcheck // This is what CAPM3 wrote.
						Type: "Ready", Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
					}},
				}}
			}))
		Expect(w.getMachine(ctx, Default, "machine").Status.Deprecated).NotTo(BeNil())
		w.start()
		w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, stage.IsTrue())
		Expect(w.getMachine(ctx, Default, "machine").Status.Deprecated).To(BeNil())
		Expect(w.getHost(ctx, Default, "host").Spec).To(Equal(before.Spec), "a running host was written")
		w.remove(ctx, "machine")
		w.gone(ctx, "machine")
		host := w.withoutMachineMetadata(ctx, "host")
		Expect(host.Spec.Image).To(BeNil())
		Expect(host.Labels).NotTo(HaveKey(clusterv1.ClusterNameLabel))
	})
}

// lose creates a provisioned machine with a recorded host that does not exist.
func (w *world) lose(ctx context.Context) {
	GinkgoHelper()
	w.machine(ctx, "machine", build.OnHost(build.Host("host", build.InNamespace(w.namespace))),
		build.Finalizers(infrav1.MachineFinalizer), stage.With(func(machine *infrav1.Metal3Machine) {
			machine.Spec.ProviderID = w.providerID("host", "machine")
		}))
}

// forget removes the annotations of a machine with the name of its host.
func (w *world) forget(ctx context.Context) {
	GinkgoHelper()
	change(ctx, w, "machine", &infrav1.Metal3Machine{}, func(machine *infrav1.Metal3Machine) { machine.Annotations = nil })
}

// named returns a Metal3Machine of the world that need not exist.
func (w *world) named(machine string) *infrav1.Metal3Machine {
	return build.Metal3Machine(machine, clusterName, build.InNamespace(w.namespace))
}

// settled waits until BMO has settled an available host.
func (w *world) settled(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		host := w.getHost(ctx, g, name)
		g.Expect(host.Finalizers).To(ContainElement(bmov1alpha1.BareMetalHostFinalizer))
		g.Expect(host.Status.Provisioning.State).To(Equal(bmov1alpha1.StateAvailable))
		g.Expect(host.Status.PoweredOn).To(Equal(host.Spec.Online))
	}).Should(Succeed())
}

// withoutMachineMetadata expects no metadata of a machine on a host.
func (w *world) withoutMachineMetadata(ctx context.Context, name string) *bmov1alpha1.BareMetalHost {
	GinkgoHelper()
	host := w.getHost(ctx, Default, name)
	Expect(host.Spec.ConsumerRef).To(BeNil())
	Expect(host.Spec.Image).To(BeNil())
	Expect(host.Spec.CustomDeploy).To(BeNil())
	Expect(host.Annotations).NotTo(HaveKey(infrav1.ReleaseAnnotation))
	Expect(host.OwnerReferences).To(BeEmpty())
	return host
}

// restored waits until a host is as it was. A host that is always on is off for a moment after its cleaning.
func (w *world) restored(ctx context.Context, before *bmov1alpha1.BareMetalHost) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(cmp.Diff(steady(before), steady(w.getHost(ctx, g, before.Name)))).To(BeEmpty())
	}).Should(Succeed())
}

// steady returns a host without the fields that change with every write. Of the status, it keeps what a machine changes:
// BMO also records what it did.
func steady(host *bmov1alpha1.BareMetalHost) client.Object {
	host.TypeMeta = metav1.TypeMeta{}
	host.ResourceVersion, host.Generation, host.ManagedFields = "", 0, nil
	status := host.Status
	host.Status = bmov1alpha1.BareMetalHostStatus{
		OperationalStatus: status.OperationalStatus, ErrorType: status.ErrorType, ErrorMessage: status.ErrorMessage,
		HardwareDetails: status.HardwareDetails, PoweredOn: status.PoweredOn,
		Provisioning: bmov1alpha1.ProvisionStatus{
			State: status.Provisioning.State, Image: status.Provisioning.Image, CustomDeploy: status.Provisioning.CustomDeploy,
		},
	}
	return host
}
