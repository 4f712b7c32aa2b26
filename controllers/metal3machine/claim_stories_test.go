package metal3machine_test

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
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeClaims are the stories about the choice and the claim of a host.
func describeClaims(s *suite) {
	It("claims and provisions the host in one write", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host", build.InDomain("room-1"), build.NIC("eth0", "52:54:00:00:00:01", "192.0.2.1"),
			build.NIC("eth1", "52:54:00:00:00:02", ""))
		w.dataSecrets(ctx, "meta", "network")
		w.start()
		w.machine(ctx, "machine", stage.With(func(machine *infrav1.Metal3Machine) {
			machine.Spec.Image.DiskFormat = "qcow2"
			machine.Spec.MetaData = &corev1.SecretReference{Name: "meta"}
			machine.Spec.NetworkData = &corev1.SecretReference{Name: "network"}
			machine.Spec.UserData = &corev1.SecretReference{Name: "ignored"}
			machine.Spec.AutomatedCleaningMode = "disabled"
		}))
		Expect(w.associated(ctx, "machine")).To(Equal("host"))

		host := w.getHost(ctx, Default, "host")
		Expect(host.Spec.Image).To(HaveValue(And(
			HaveField("URL", build.ImageURL), HaveField("ChecksumType", bmov1alpha1.SHA256),
			HaveField("DiskFormat", HaveValue(Equal("qcow2"))),
		)))
		Expect(host.Spec.Online).To(BeTrue())
		Expect(host.Spec.UserData).To(Equal(w.reference("machine-bootstrap")))
		Expect(host.Spec.MetaData).To(Equal(w.reference("meta")))
		Expect(host.Spec.NetworkData).To(Equal(w.reference("network")))
		Expect(host.Spec.AutomatedCleaningMode).To(Equal(bmov1alpha1.CleaningModeDisabled))
		Expect(host.Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, clusterName))
		Expect(host.OwnerReferences).To(BeEmpty())
		Expect(host.Spec.ConsumerRef).To(HaveValue(Equal(corev1.ObjectReference{
			APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Machine", Namespace: w.namespace, Name: "machine",
		})))

		machine := w.getMachine(ctx, Default, "machine")
		Expect(machine.Finalizers).To(ConsistOf(infrav1.MachineFinalizer))
		Expect(machine.Spec.ProviderID).To(BeEmpty())
		Expect(machine.Status.FailureDomain).To(Equal("room-1"))
		Expect(machine.Status.Addresses).To(Equal([]clusterv1.MachineAddress{
			{Type: clusterv1.MachineInternalIP, Address: "192.0.2.1"},
			{Type: clusterv1.MachineHostName, Address: "host"},
			{Type: clusterv1.MachineInternalDNS, Address: "host"},
		}))
		Expect(machine.Status.UserData).To(Equal(w.reference("machine-bootstrap")))
		Expect(machine.Status.MetaData).To(Equal(w.reference("meta")))
		Expect(machine.Status.NetworkData).To(Equal(w.reference("network")))
		w.eventually(ctx, "machine", infrav1.DataReadyCondition, stage.IsTrueBecause(infrav1.DataExternalReason))
		w.eventually(ctx, "machine", infrav1.HostProvisionedCondition,
			stage.IsFalseBecause(infrav1.HostProvisioningReason, "Waiting for BareMetalHost host to be provisioned (state: available)"))
		w.eventually(ctx, "machine", infrav1.NodeLinkedCondition,
			stage.IsFalseBecause(infrav1.WaitingForHostProvisionedReason, ""))
	})

	It("is associated with three writes and one event", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host")
		w.start()
		w.machine(ctx, "machine")
		w.associated(ctx, "machine")
		Eventually(func(g Gomega) {
			g.Expect(w.events(ctx, g, "machine")).To(ConsistOf(infrav1.HostAssociatedReason))
		}).Should(Succeed())
		Consistently(w.writes.Done).Should(Equal([]stage.Write{
			{Verb: "patch", Kind: "Metal3Machine", Name: "machine"},
			{Verb: "patch", Kind: "BareMetalHost", Name: "host"},
			{Verb: "patch status", Kind: "Metal3Machine", Name: "machine"},
		}))
		Expect(w.events(ctx, Default, "machine")).To(HaveLen(1))
	})

	It("uses bootstrap data of any format", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host")
		w.create(ctx, build.BootstrapSecret("machine", build.Ignition, []byte("{}"), build.InNamespace(w.namespace),
			ofCluster(clusterName)))
		w.start()
		w.metal3Machine(ctx, w.owner(ctx, "machine"))
		w.associated(ctx, "machine")
		Expect(w.getHost(ctx, Default, "host").Spec.UserData).To(Equal(w.reference("machine-bootstrap")))
	})

	It("uses its own user data for a Machine without bootstrap data", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host")
		w.start()
		owner := w.owner(ctx, "machine", stage.With(func(machine *clusterv1.Machine) {
			machine.Spec.Bootstrap = clusterv1.Bootstrap{DataSecretName: ptr.To("")}
		}))
		w.metal3Machine(ctx, owner, stage.With(func(machine *infrav1.Metal3Machine) {
			machine.Spec.UserData = &corev1.SecretReference{Name: "own"}
		}))
		for _, condition := range []string{infrav1.HostAssociatedCondition, infrav1.ReadyCondition} {
			w.eventually(ctx, "machine", condition, stage.IsFalseBecause(infrav1.DataSecretMissingReason,
				"Secret own, which spec.userData names, does not exist. Create it"))
		}
		Expect(w.getHost(ctx, Default, "host").Spec.ConsumerRef).To(BeNil(), "without the Secret, BMO does not provision it")
		w.dataSecrets(ctx, "own")
		w.associated(ctx, "machine")
		Expect(w.getHost(ctx, Default, "host").Spec.UserData).To(Equal(w.reference("own")))
	})

	It("prefers its failure domain", func(ctx context.Context) {
		w := s.world(ctx)
		for _, name := range []string{"host-0", "host-1", "host-2", "host-3"} {
			w.host(ctx, name, build.InDomain("room-1"))
		}
		w.host(ctx, "host-4", build.InDomain("room-2"))
		w.start()
		w.secret(ctx, "first")
		w.metal3Machine(ctx, w.owner(ctx, "first", build.InDomain("room-2")), build.InDomain("room-1"))
		Expect(w.associated(ctx, "first")).To(Equal("host-4"), "the Machine decides")
		w.eventually(ctx, "first", infrav1.HostAssociatedCondition,
			HaveField("Message", "Associated BareMetalHost host-4 in failure domain room-2"))

		w.machine(ctx, "second", build.InDomain("room-2"))
		Expect(w.associated(ctx, "second")).To(HavePrefix("host-"))
		w.eventually(ctx, "second", infrav1.HostAssociatedCondition,
			HaveField("Message", ContainSubstring("which is not in failure domain room-2")))
		Expect(w.getMachine(ctx, Default, "second").Status.FailureDomain).To(Equal("room-1"), "the failure domain of its host")
		Expect(w.getMachine(ctx, Default, "second").Spec.FailureDomain).To(Equal("room-2"), "as the spec of the Machine requests")
	})

	It("requires its failure domain if the policy is strict", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host-0", build.InDomain("room-1"))
		w.start()
		w.machine(ctx, "machine", build.InDomain("room-2"), stage.With(func(machine *infrav1.Metal3Machine) {
			machine.Spec.FailureDomainPolicy = infrav1.FailureDomainStrict
		}))
		w.eventually(ctx, "machine", infrav1.HostAssociatedCondition,
			stage.IsFalseBecause(infrav1.NoHostAvailableReason, "1 host: 1 not in failure domain room-2"))
		w.host(ctx, "host-1", build.InDomain("room-2"))
		Expect(w.associated(ctx, "machine")).To(Equal("host-1"))
	})

	It("reconciles only machines with the label of its watch filter", func(ctx context.Context) {
		w := s.world(ctx)
		w.watchFilter = "mine"
		w.host(ctx, "host-0")
		w.host(ctx, "host-1")
		w.start()
		w.machine(ctx, "theirs", build.Labels(map[string]string{clusterv1.WatchLabel: "theirs"}))
		w.machine(ctx, "mine", build.Labels(map[string]string{clusterv1.WatchLabel: "mine"}))
		host := w.associated(ctx, "mine")
		// A host does not have the label. Its events enqueue its machine.
		changeStatus(ctx, w, host, &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Status.Provisioning.State = bmov1alpha1.StateProvisioning
		})
		w.eventually(ctx, "mine", infrav1.HostProvisionedCondition,
			stage.IsFalseBecause(infrav1.HostProvisioningReason, "(state: provisioning)"))
		// An event of an object of the machine must not enqueue the machine either.
		change(ctx, w, "theirs", &clusterv1.Machine{}, func(machine *clusterv1.Machine) {
			build.Labels(map[string]string{"changed": "yes"})(machine)
		})
		Consistently(func(g Gomega) {
			g.Expect(w.getMachine(ctx, g, "theirs").Finalizers).To(BeEmpty())
			g.Expect(w.getMachine(ctx, g, "theirs").Status.Conditions).To(BeEmpty())
		}).Should(Succeed())
	})

	It("chooses another host if another machine claims the recorded one first", func(ctx context.Context) {
		w := s.world(ctx)
		other := build.Metal3Machine("other", clusterName, build.InNamespace(w.namespace))
		taken := w.host(ctx, "taken", build.Consumed(other))
		w.host(ctx, "free")
		w.start()
		w.machine(ctx, "machine", build.OnHost(taken), build.Annotations(map[string]string{
			infrav1.ChosenHostAnnotation: "taken",
		}))
		Expect(w.associated(ctx, "machine")).To(Equal("free"))
		Expect(w.hostsOf(ctx, Default, "other")).To(ConsistOf("taken"))
	})

	It("claims another host if the API server refuses the claim of the first one", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host-0")
		w.writes.Judge(func(write stage.Write) stage.Verdict {
			if write.Kind != "BareMetalHost" || write.Name != "host-0" {
				return stage.Verdict{}
			}
			return stage.Verdict{Err: apierrors.NewForbidden(schema.GroupResource{Resource: "baremetalhosts"}, write.Name,
				errors.New("denied by the webhook of BMO"))}
		})
		w.start()
		w.machine(ctx, "machine")
		w.eventually(ctx, "machine", infrav1.HostAssociatedCondition,
			stage.IsFalseBecause(infrav1.AssociationFailedReason, "denied by the webhook of BMO"))
		w.host(ctx, "host-1")
		Expect(w.associated(ctx, "machine")).To(Equal("host-1"))
		Expect(w.getHost(ctx, Default, "host-0").Spec.ConsumerRef).To(BeNil())
	})

	It("claims another host if its claim is lost and the host is in error then", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host-0")
		w.writes.Judge(func(write stage.Write) stage.Verdict {
			if write.Kind != "BareMetalHost" {
				return stage.Verdict{}
			}
			return stage.Verdict{Err: context.DeadlineExceeded}
		})
		w.start()
		w.machine(ctx, "machine")
		Eventually(func(g Gomega) {
			g.Expect(w.getMachine(ctx, g, "machine").Annotations).To(
				HaveKeyWithValue(infrav1.HostAnnotation, w.namespace+"/host-0"))
		}).Should(Succeed())
		changeStatus(ctx, w, "host-0", &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Status.ErrorMessage = "no power"
		})
		w.eventually(ctx, "machine", infrav1.HostAssociatedCondition,
			stage.IsFalseBecause(infrav1.NoHostAvailableReason, "1 host: 1 in error (host-0)"))
		w.writes.Judge(nil)
		w.host(ctx, "host-1")
		Expect(w.associated(ctx, "machine")).To(Equal("host-1"))
	})

	It("waits for the host in its annotation until it exists", func(ctx context.Context) {
		w := s.world(ctx)
		w.start()
		w.machine(ctx, "machine", build.OnHost(build.Host("later", build.InNamespace(w.namespace))))
		waits := func(state string) {
			GinkgoHelper()
			w.eventually(ctx, "machine", infrav1.HostAssociatedCondition, stage.IsFalseBecause(infrav1.NoHostAvailableReason,
				"Waiting for BareMetalHost later, which "+state))
		}
		waits("does not exist")
		w.host(ctx, "free")
		w.host(ctx, "later", build.Consumed(w.named("other")))
		w.machine(ctx, "second")
		Expect(w.associated(ctx, "second")).To(Equal("free"), "no machine waits for this host")
		change(ctx, w, "later", &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) { withoutConsumer(host) })
		Expect(w.associated(ctx, "machine")).To(Equal("later"))
	})

	It("claims the host in its annotation", func(ctx context.Context) {
		w := s.world(ctx)
		for _, name := range []string{"host-0", "host-1", "host-2"} {
			w.host(ctx, name)
		}
		chosen := w.host(ctx, "chosen", build.State(bmov1alpha1.StateInspecting))
		w.start()
		w.machine(ctx, "machine", build.OnHost(chosen))
		w.eventually(ctx, "machine", infrav1.HostAssociatedCondition, stage.IsFalseBecause(infrav1.NoHostAvailableReason,
			"Waiting for BareMetalHost chosen, which is not available yet"))
		changeStatus(ctx, w, "chosen", &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Status.Provisioning.State = bmov1alpha1.StateAvailable
		})
		Expect(w.associated(ctx, "machine")).To(Equal("chosen"))
	})

	It("claims another host if the host that CAPM3 claimed is deleted", func(ctx context.Context) {
		w := s.world(ctx)
		claimed := w.host(ctx, "claimed", build.Available(), build.Consumed(w.named("machine")))
		w.dataSecrets(ctx, "own-network")
		w.machine(ctx, "machine", withDataTemplate(), build.OnHost(claimed), build.Finalizers(infrav1.MachineFinalizer))
		w.start()
		Expect(w.associated(ctx, "machine")).To(Equal("claimed"))
		w.host(ctx, "free")
		Expect(w.client.Delete(ctx, claimed)).To(Succeed())
		Eventually(func(g Gomega) { g.Expect(w.hostsOf(ctx, g, "machine")).To(ConsistOf("free")) }).Should(Succeed())
	})

	It("keeps one of two claimed hosts", func(ctx context.Context) {
		w := s.world(ctx)
		machine := build.Metal3Machine("machine", clusterName, build.InNamespace(w.namespace))
		surplus := w.host(ctx, "a-surplus", build.Consumed(machine))
		held := w.host(ctx, "held", build.Consumed(machine))
		w.start()
		w.machine(ctx, "machine", build.OnHost(held))
		Eventually(func(g Gomega) {
			g.Expect(w.hostsOf(ctx, g, "machine")).To(ConsistOf("held"))
		}).Should(Succeed())
		Expect(w.getHost(ctx, Default, "a-surplus").Spec).To(Equal(withoutConsumer(surplus).Spec))
		Expect(w.associated(ctx, "machine")).To(Equal("held"))
	})

	It("keeps the host that its provider ID names if the annotation was removed", func(ctx context.Context) {
		w := s.world(ctx)
		machine := build.Metal3Machine("machine", clusterName, build.InNamespace(w.namespace))
		w.host(ctx, "a-surplus", build.Consumed(machine))
		w.host(ctx, "held", build.Consumed(machine))
		w.start()
		w.machine(ctx, "machine", stage.With(func(machine *infrav1.Metal3Machine) {
			machine.Spec.ProviderID = host.ProviderID(w.namespace, "held", "machine")
		}))
		Eventually(func(g Gomega) {
			g.Expect(w.hostsOf(ctx, g, "machine")).To(ConsistOf("held"))
		}).Should(Succeed())
	})

	It("stays associated if a policy rejects the release of a surplus host", func(ctx context.Context) {
		w := s.world(ctx)
		machine := build.Metal3Machine("machine", clusterName, build.InNamespace(w.namespace))
		w.host(ctx, "a-surplus", build.Consumed(machine))
		held := w.host(ctx, "held", build.Consumed(machine))
		w.writes.Judge(func(write stage.Write) stage.Verdict {
			if write.Name != "a-surplus" {
				return stage.Verdict{}
			}
			return stage.Verdict{Err: apierrors.NewForbidden(schema.GroupResource{Resource: "baremetalhosts"}, write.Name,
				errors.New("denied by a policy"))}
		})
		w.start()
		w.machine(ctx, "machine", build.OnHost(held))
		w.eventually(ctx, "machine", infrav1.HostAssociatedCondition, And(
			HaveField("Status", metav1.ConditionTrue), HaveField("Reason", infrav1.HostAssociatedReason),
			HaveField("Message", And(HavePrefix("Associated BareMetalHost held"), ContainSubstring("denied by a policy")))))
		w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, HaveField("Reason", infrav1.HostProvisioningReason))
		Eventually(func(g Gomega) {
			g.Expect(w.events(ctx, g, "machine")).To(ContainElement("WriteRefused"))
		}).Should(Succeed())
		w.writes.Judge(nil)
		change(ctx, w, "a-surplus", &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			build.Labels(map[string]string{"changed": "yes"})(host)
		})
		Eventually(func(g Gomega) { g.Expect(w.hostsOf(ctx, g, "machine")).To(ConsistOf("held")) }).Should(Succeed())
		w.eventually(ctx, "machine", infrav1.HostAssociatedCondition, HaveField("Message", "Associated BareMetalHost held"))
	})
}

func withoutConsumer(host *bmov1alpha1.BareMetalHost) *bmov1alpha1.BareMetalHost {
	host.Spec.ConsumerRef = nil
	return host
}

// reference returns a reference to a Secret of the world.
func (w *world) reference(name string) *corev1.SecretReference {
	return &corev1.SecretReference{Namespace: w.namespace, Name: name}
}
