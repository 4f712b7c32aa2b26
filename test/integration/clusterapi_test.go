package integration_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/managers"
)

// describeClusterAPI has the specs of Cluster API without this provider.
func describeClusterAPI(m *management) {
	It("gets Cluster API from clusterctl without any network", func(ctx context.Context) {
		// A dash omits the infrastructure provider, which has other specs.
		m.run(ctx, "init", "--infrastructure=-")
		Expect(m.providers(ctx)).To(ConsistOf("cluster-api", "bootstrap-kubeadm", "control-plane-kubeadm"))
	})

	It("names images of the release that is installed", func(ctx context.Context) {
		var deployments appsv1.DeploymentList
		Expect(m.server.Client.List(ctx, &deployments, client.HasLabels{clusterv1.ProviderNameLabel})).To(Succeed())
		Expect(deployments.Items).To(HaveLen(3))
		for _, deployment := range deployments.Items {
			image := deployment.Spec.Template.Spec.Containers[0].Image
			Expect(image).To(HavePrefix("registry.k8s.io/cluster-api/"))
			Expect(image).To(HaveSuffix(":" + binaries.CAPIVersion))
		}
	})

	It("runs the managers of Cluster API with the installed RBAC rules", func(ctx context.Context) {
		// First the controller manager: it aggregates the role of the core manager.
		Expect(m.server.StartControllerManager(ctx)).To(Succeed())
		wanted, err := managers.EnsureClusterAPI(ctx, m.server)
		Expect(err).NotTo(HaveOccurred())
		m.startManagers(ctx, wanted...)
		Expect(m.server.Client.Create(ctx, build.Namespace(build.DefaultNamespace))).To(Succeed())
	})

	It("reconciles a Cluster", func(ctx context.Context) {
		cluster := build.Cluster("without-infrastructure")
		cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
			APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: "awaited",
		}
		cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{}
		cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: build.EndpointHost, Port: build.EndpointPort}
		Expect(m.server.Client.Create(ctx, cluster)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(m.server.Client.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)).To(Succeed())
			g.Expect(cluster.Finalizers).To(ContainElement(clusterv1.ClusterFinalizer))
			g.Expect(cluster.Status.Phase).NotTo(BeEmpty())
		}).Should(Succeed())
	})

	It("calls the validating webhooks", func(ctx context.Context) {
		cluster := build.Cluster("invalid")
		cluster.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"no-network"}
		err := m.server.Client.Create(ctx, cluster)
		Expect(err).To(MatchError(ContainSubstring("no-network")))
	})

	It("calls the conversion webhooks", func(ctx context.Context) {
		output := m.kubectl(ctx, "get", "clusters.v1beta1.cluster.x-k8s.io", "-n", build.DefaultNamespace,
			"-o", "jsonpath={.items[*].apiVersion}")
		Expect(output).To(Equal("cluster.x-k8s.io/v1beta1"))
	})

	It("deletes a Cluster", func(ctx context.Context) {
		m.kubectl(ctx, "delete", "cluster", "without-infrastructure", "-n", build.DefaultNamespace, "--wait=false")
		Eventually(func() string {
			return strings.TrimSpace(m.kubectl(ctx, "get", "clusters", "-n", build.DefaultNamespace, "-o", "name"))
		}).Should(BeEmpty())
	})
}

// providers returns the labels of the installed providers.
func (m *management) providers(ctx context.Context) []string {
	GinkgoHelper()
	names := strings.Fields(m.kubectl(ctx, "get", "providers.clusterctl.cluster.x-k8s.io", "--all-namespaces",
		"-l", clusterctlv1.ClusterctlLabel, "-o", "jsonpath={.items[*].metadata.name}"))
	return names
}
