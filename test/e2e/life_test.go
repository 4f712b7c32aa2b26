package e2e_test

import (
	"context"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
)

// storyLimit is the time limit of a story.
const storyLimit = 30 * time.Minute

var _ = Describe("A cluster", Ordered, func() {
	w := &world{}

	BeforeAll(func(ctx context.Context) {
		w.Client = bed.proxy.GetClient()
		w.found = map[string]bmov1alpha1.BareMetalHostSpec{}
		for _, found := range w.hosts(ctx, Default) {
			w.found[found.Name] = found.Spec
		}
		// After a failure, other stories need the hosts.
		DeferCleanup(removeCluster, w.Client, clusterName, NodeTimeout(storyLimit))
		w.create(ctx)
		w.untilRunning(ctx, w.workers.Name, 1)
	}, NodeTimeout(storyLimit))

	It("has nodes with the provider IDs of its machines", func(ctx context.Context) {
		workload, err := bed.lab.Workload(ctx, clusterName)
		Expect(err).NotTo(HaveOccurred())
		var nodes corev1.NodeList
		Expect(workload.Client.List(ctx, &nodes)).To(Succeed())
		Expect(nodes.Items).To(HaveLen(2))
		var machines infrav1.Metal3MachineList
		Expect(w.List(ctx, &machines, client.InNamespace(lab.Namespace),
			client.MatchingLabels{clusterv1.ClusterNameLabel: clusterName})).To(Succeed())
		for _, machine := range machines.Items {
			want := host.ProviderID(machine.Namespace, hostOf(&machine), machine.Name)
			Expect(machine.Spec.ProviderID).To(Equal(want))
			Expect(nodes.Items).To(ContainElement(HaveField("Spec.ProviderID", want)))
			Expect(machine.Status.Addresses).NotTo(BeEmpty())
		}
	}, NodeTimeout(storyLimit))

	It("grows to three control-plane nodes and shrinks to one", func(ctx context.Context) {
		for _, replicas := range []int32{3, 1} {
			Eventually(func(g Gomega) {
				g.Expect(w.Get(ctx, client.ObjectKeyFromObject(w.controlPlane), w.controlPlane)).To(Succeed())
				g.Expect(w.controlPlane.Status.Selector).NotTo(BeEmpty(), "the framework counts machines by it")
			}, patiently()...).Should(Succeed())
			framework.ScaleAndWaitControlPlane(ctx, framework.ScaleAndWaitControlPlaneInput{
				ClusterProxy: bed.proxy, Cluster: w.cluster, ControlPlane: w.controlPlane, Replicas: replicas,
				WaitForControlPlane: patiently(),
			})
		}
	}, NodeTimeout(storyLimit))

	It("gets another worker and removes it", func(ctx context.Context) {
		for _, replicas := range []int32{2, 1} {
			w.scale(ctx, replicas)
			w.untilRunning(ctx, w.workers.Name, int(replicas))
		}
	}, NodeTimeout(storyLimit))

	It("keeps the host of a worker when it is rolled out with node reuse", func(ctx context.Context) {
		w.reuseNodes(ctx, true)
		w.changeWorkers(ctx, func(workers *clusterv1.MachineDeployment) {
			workers.Spec.Rollout.Strategy.Type = clusterv1.RollingUpdateMachineDeploymentStrategyType
			workers.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromInt32(0))
			workers.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromInt32(1))
		})
		used := w.onlyHost(ctx, Default, w.workers.Name)
		framework.UpgradeMachineDeploymentInfrastructureRefAndWait(ctx,
			framework.UpgradeMachineDeploymentInfrastructureRefAndWaitInput{
				ClusterProxy: bed.proxy, Cluster: w.cluster,
				MachineDeployments:          []*clusterv1.MachineDeployment{w.workers},
				WaitForMachinesToBeUpgraded: patiently(),
			})
		w.untilRunning(ctx, w.workers.Name, 1)
		Expect(w.onlyHost(ctx, Default, w.workers.Name)).To(Equal(used))
		// Otherwise the host of each deleted worker would stay reserved.
		w.reuseNodes(ctx, false)
	}, NodeTimeout(storyLimit))

	It("places machines in their failure domain", func(ctx context.Context) {
		var free []string
		for _, candidate := range w.hosts(ctx, Default) {
			if candidate.Spec.ConsumerRef == nil {
				free = append(free, candidate.Name)
			}
		}
		Expect(len(free)).To(BeNumerically(">=", 2), "a choice requires two free hosts")
		chosen := w.host(ctx, Default, free[len(free)-1])
		before := chosen.DeepCopy()
		chosen.Labels = map[string]string{infrav1.FailureDomainLabel: "far"}
		Expect(w.Patch(ctx, chosen, client.MergeFrom(before))).To(Succeed())

		name := w.another(ctx, "far", func(workers *clusterv1.MachineDeployment, _ *infrav1.Metal3MachineTemplate) {
			workers.Spec.Template.Spec.FailureDomain = "far"
		})
		w.untilRunning(ctx, name, 1)
		Expect(w.onlyHost(ctx, Default, name)).To(Equal(chosen.Name))
		w.removeOther(ctx, name)
		w.untilFree(ctx, chosen.Name)
		Expect(w.host(ctx, Default, chosen.Name).Labels).To(HaveKeyWithValue(infrav1.FailureDomainLabel, "far"),
			"the label of another owner")
		w.unlabel(ctx, chosen.Name)
	}, NodeTimeout(storyLimit))

	describeDeploys(w)
	describeFaults(w)
	describeRemediation(w)
	describeProtection(w)
	describeUpgrade(w)

	It("is deleted, and its hosts are restored", func(ctx context.Context) {
		// The waiting of the framework requires a clusterctl configuration, or refuses every Cluster.
		framework.DeleteCluster(ctx, framework.DeleteClusterInput{Deleter: w.Client, Cluster: w.cluster})
		Eventually(func(g Gomega) {
			err := w.Get(ctx, client.ObjectKeyFromObject(w.cluster), &clusterv1.Cluster{})
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the Cluster still exists")
		}, patiently()...).Should(Succeed())
		for name, spec := range w.found {
			w.untilFree(ctx, name)
			found := w.host(ctx, Default, name)
			Expect(cmp.Diff(spec, found.Spec)).To(BeEmpty(), name)
			Expect(found.Annotations).To(BeEmpty(), name)
			Expect(found.Labels).To(BeEmpty(), name)
			machine := bed.lab.Machine(name)
			Expect(!machine.Running() || machine.RunsRamdisk()).To(BeTrue(), "the system of a Machine still runs on %s", name)
			Expect(machine.Installed()).To(BeEmpty(), "the disk of %s", name)
		}
	}, NodeTimeout(storyLimit))
})
