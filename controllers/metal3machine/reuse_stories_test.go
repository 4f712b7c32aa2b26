package metal3machine_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeReuse are the stories about hosts that are reserved for the next machine of the same owner.
func describeReuse(s *suite) {
	workers := build.Labels(map[string]string{clusterv1.MachineDeploymentNameLabel: "workers"})
	madeFrom := func(template string) build.ObjectOption {
		return build.Annotations(map[string]string{clusterv1.TemplateClonedFromNameAnnotation: template})
	}
	// deployment creates the MachineDeployment of workers.
	deployment := func(ctx context.Context, w *world, name string) {
		GinkgoHelper()
		workers := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
		workers.Spec.ClusterName = clusterName
		workers.Spec.Selector.MatchLabels = map[string]string{"example.com/workers": ""}
		workers.Spec.Template.Labels = workers.Spec.Selector.MatchLabels
		workers.Spec.Template.Spec = build.Machine("worker", clusterName).Spec
		w.create(ctx, workers)
	}
	// running returns a world with a machine on the only host.
	running := func(ctx context.Context, ownerOption build.ObjectOption, option build.ObjectOption) *world {
		GinkgoHelper()
		w := s.world(ctx)
		w.operate(ctx)
		w.host(ctx, "host")
		w.create(ctx, build.MachineTemplate("keeps", build.InNamespace(w.namespace), build.NodeReuse()))
		w.create(ctx, build.MachineTemplate("frees", build.InNamespace(w.namespace)))
		deployment(ctx, w, "workers")
		w.start()
		w.member(ctx, "old", ownerOption, option)
		w.eventually(ctx, "old", infrav1.HostProvisionedCondition, stage.IsTrue())
		return w
	}
	kept := func(ctx context.Context, w *world, label string) {
		GinkgoHelper()
		host := w.getHost(ctx, Default, "host")
		Expect(host.Labels).To(HaveKeyWithValue(infrav1.NodeReuseLabel, label))
		Expect(host.Spec.ConsumerRef).To(HaveValue(Equal(corev1.ObjectReference{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Namespace: w.namespace, Name: clusterName,
		})))
		Expect(host.Spec.Image).To(BeNil())
	}

	It("reserves the host of a worker for the next worker", func(ctx context.Context) {
		w := running(ctx, workers, madeFrom("keeps"))
		w.remove(ctx, "old")
		w.gone(ctx, "old")
		kept(ctx, w, "md-workers")

		w.machine(ctx, "unrelated")
		w.eventually(ctx, "unrelated", infrav1.HostAssociatedCondition,
			stage.IsFalseBecause(infrav1.NoHostAvailableReason, "1 reserved for another owner"))
		w.member(ctx, "new", workers, madeFrom("frees"))
		Expect(w.associated(ctx, "new")).To(Equal("host"))
		w.eventually(ctx, "new", infrav1.HostAssociatedCondition, And(
			stage.IsTrueBecause(infrav1.HostAssociatedViaNodeReuseReason),
			HaveField("Message", "Associated BareMetalHost host")))
		Expect(w.getHost(ctx, Default, "host").Labels).NotTo(HaveKey(infrav1.NodeReuseLabel))

		w.remove(ctx, "new")
		w.gone(ctx, "new")
		Expect(w.associated(ctx, "unrelated")).To(Equal("host"), "the template of the last machine keeps nothing")
	})

	It("reserves the host of a worker without a template if the current template has nodeReuse", func(ctx context.Context) {
		w := running(ctx, workers, madeFrom("pruned"))
		change(ctx, w, "workers", &clusterv1.MachineDeployment{}, func(workers *clusterv1.MachineDeployment) {
			workers.Spec.Template.Spec.InfrastructureRef.Name = "keeps"
		})
		w.remove(ctx, "old")
		w.gone(ctx, "old")
		kept(ctx, w, "md-workers")
	})

	It("reserves the host for an owner with a name of maximum length", func(ctx context.Context) {
		name := strings.Repeat("x", 63)
		longest := build.Labels(map[string]string{clusterv1.MachineDeploymentNameLabel: name})
		w := running(ctx, longest, madeFrom("keeps"))
		deployment(ctx, w, name)
		w.remove(ctx, "old")
		w.gone(ctx, "old")
		w.member(ctx, "new", longest, madeFrom("frees"))
		w.eventually(ctx, "new", infrav1.HostAssociatedCondition, stage.IsTrueBecause(infrav1.HostAssociatedViaNodeReuseReason))
	})

	It("waits for its reserved host, even if another is free", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "free")
		w.host(ctx, "busy", build.Labels(map[string]string{infrav1.NodeReuseLabel: "md-workers"}), build.State("preparing"))
		w.start()
		w.member(ctx, "machine", workers, madeFrom("keeps"))
		w.eventually(ctx, "machine", infrav1.HostAssociatedCondition, stage.IsFalseBecause(infrav1.NoHostAvailableReason,
			"Waiting for BareMetalHost busy, which is reserved for md-workers by node reuse and is preparing"))
		w.operate(ctx)
		Expect(w.associated(ctx, "machine")).To(Equal("busy"))
	})

	It("reserves the host of a control plane if the current template has nodeReuse", func(ctx context.Context) {
		control := &controlplanev1.KubeadmControlPlane{}
		ownedByControlPlane := stage.With(func(machine *clusterv1.Machine) {
			control.UID = "1"
			control.Name = "control"
			build.OwnedBy(control)(machine)
		})
		w := running(ctx, ownedByControlPlane, madeFrom("frees"))
		w.create(ctx, controlPlane(w, "keeps"))
		w.remove(ctx, "old")
		w.gone(ctx, "old")
		kept(ctx, w, "cp-control")
		w.member(ctx, "new", ownedByControlPlane, madeFrom("keeps"))
		Expect(w.associated(ctx, "new")).To(Equal("host"))

		change(ctx, w, "control", &controlplanev1.KubeadmControlPlane{}, func(control *controlplanev1.KubeadmControlPlane) {
			control.Spec.MachineTemplate.Spec.InfrastructureRef.Name = "frees"
		})
		w.eventually(ctx, "new", infrav1.HostProvisionedCondition, stage.IsTrue())
		w.remove(ctx, "new")
		w.gone(ctx, "new")
		w.withoutMachineMetadata(ctx, "host")
	})

	It("reserves no host of a Cluster that is being deleted", func(ctx context.Context) {
		w := running(ctx, workers, madeFrom("keeps"))
		change(ctx, w, clusterName, &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
			cluster.Finalizers = []string{"example.com/stays"}
		})
		DeferCleanup(func(ctx context.Context) {
			change(ctx, w, clusterName, &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) { cluster.Finalizers = nil })
		})
		Expect(w.client.Delete(ctx, w.cluster)).To(Succeed())
		w.remove(ctx, "old")
		w.gone(ctx, "old")
		w.withoutMachineMetadata(ctx, "host")
	})

	It("reserves no host for a MachineDeployment that is being deleted", func(ctx context.Context) {
		w := running(ctx, workers, madeFrom("keeps"))
		finalizers := func(ctx context.Context, list ...string) {
			change(ctx, w, "workers", &clusterv1.MachineDeployment{}, func(workers *clusterv1.MachineDeployment) {
				workers.Finalizers = list
			})
		}
		finalizers(ctx, "example.com/stays")
		DeferCleanup(finalizers)
		Expect(w.client.Delete(ctx, &clusterv1.MachineDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "workers"},
		})).To(Succeed())
		w.machine(ctx, "unrelated")
		w.remove(ctx, "old")
		w.gone(ctx, "old")
		Expect(w.associated(ctx, "unrelated")).To(Equal("host"))
	})

	It("restores a host that was reserved and released", func(ctx context.Context) {
		w := s.world(ctx)
		w.operate(ctx)
		w.host(ctx, "host", build.Annotations(map[string]string{"asset": "4711"}))
		w.settled(ctx, "host")
		before := w.getHost(ctx, Default, "host")
		w.create(ctx, build.MachineTemplate("keeps", build.InNamespace(w.namespace), build.NodeReuse()))
		deployment(ctx, w, "workers")
		w.start()
		w.member(ctx, "old", workers, madeFrom("keeps"))
		w.eventually(ctx, "old", infrav1.HostProvisionedCondition, stage.IsTrue())
		w.remove(ctx, "old")
		w.gone(ctx, "old")
		w.member(ctx, "new", workers, madeFrom("gone"))
		w.eventually(ctx, "new", infrav1.HostProvisionedCondition, stage.IsTrue())
		w.remove(ctx, "new")
		w.gone(ctx, "new")
		w.restored(ctx, before)
	})
}

// member creates a machine of an owner, with its Machine and bootstrap data.
func (w *world) member(ctx context.Context, name string, owner, machine build.ObjectOption) {
	GinkgoHelper()
	w.secret(ctx, name)
	w.metal3Machine(ctx, w.owner(ctx, name, withBootstrapConfig(), owner), machine)
}

func controlPlane(w *world, template string) *controlplanev1.KubeadmControlPlane {
	replicas := int32(1)
	return &controlplanev1.KubeadmControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "control"},
		Spec: controlplanev1.KubeadmControlPlaneSpec{
			Replicas: &replicas, Version: "v1.36.0",
			MachineTemplate: controlplanev1.KubeadmControlPlaneMachineTemplate{
				Spec: controlplanev1.KubeadmControlPlaneMachineTemplateSpec{
					InfrastructureRef: clusterv1.ContractVersionedObjectReference{
						APIGroup: infrav1.GroupVersion.Group, Kind: "Metal3MachineTemplate", Name: template,
					},
				},
			},
		},
	}
}
