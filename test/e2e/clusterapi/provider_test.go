package clusterapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/version"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	capi "sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

const (
	// managementFlavour is the flavour of a cluster that becomes a management cluster. It has another address and router
	// ID than the clusters that it manages, because the lab has one network.
	managementFlavour = "management"

	managementNumber, managementRouterID = 101, 52

	// managerNamespace and managerDeployment identify the manager of this provider.
	managerNamespace, managerDeployment = "capm3-system", "capm3-controller-manager"
)

// The spec makes a new cluster a management cluster with the release of this provider, creates a cluster from there, and
// upgrades all providers. Only this provider has a later release.
var _ = Describe("upgrading this provider", func() {
	capi.ClusterctlUpgradeSpec(background, func() capi.ClusterctlUpgradeSpecInput {
		released, later, err := bed.lab.ManagerImages()
		Expect(err).NotTo(HaveOccurred())
		config, provider := withLaterRelease(released, later)
		file := clusterctl.CreateRepository(background, clusterctl.CreateRepositoryInput{
			E2EConfig: config, RepositoryFolder: filepath.Join(bed.folder, "repository-upgrade"),
		})
		return capi.ClusterctlUpgradeSpecInput{
			E2EConfig: config, ClusterctlConfigPath: file, BootstrapClusterProxy: bed.proxy,
			ArtifactFolder: artefacts("clusterctl-upgrade"), MgmtFlavor: managementFlavour,
			InitWithBinary: serveClusterctl(), InitWithKubernetesVersion: binaries.KubernetesVersion,
			InitWithInfrastructureProviders: []string{provider}, InitWithIPAMProviders: []string{addressManager()},
			PostNamespaceCreated: withHosts(3),
			PreInit:              func(created framework.ClusterProxy) { installPrerequisites(created) },
			PreUpgrade:           func(created framework.ClusterProxy) { expectManager(created, released) },
			PostUpgrade: func(created framework.ClusterProxy, _, _ string) {
				expectManager(created, later)
			},
		}
	})
})

// withLaterRelease returns a configuration with a second release of this provider, which differs in the image of the
// manager, and the name of the first one for clusterctl.
func withLaterRelease(image, laterImage string) (config *clusterctl.E2EConfig, first string) {
	GinkgoHelper()
	config = bed.config.DeepCopy()
	for i := range config.Providers {
		provider := &config.Providers[i]
		if provider.Type != string(clusterctlv1.InfrastructureProviderType) {
			continue
		}
		Expect(provider.Versions).To(HaveLen(1))
		later := provider.Versions[0]
		first = provider.Name + ":" + later.Name
		current := version.MustParseSemantic(later.Name)
		later.Name = fmt.Sprintf("v%s", current.WithPatch(current.Patch()+1))
		later.Replacements = []clusterctl.ComponentReplacement{{Old: regexp.QuoteMeta(image), New: laterImage}}
		provider.Versions = append(provider.Versions, later)
	}
	Expect(first).NotTo(BeEmpty(), "metal3.yaml has an infrastructure provider")
	return config, first
}

// addressManager returns the name of the IP address manager for clusterctl. The spec finds versions by name, and this
// provider has the same name.
func addressManager() string {
	GinkgoHelper()
	for _, provider := range bed.config.Providers {
		if provider.Type == string(clusterctlv1.IPAMProviderType) {
			return provider.Name + ":" + provider.Versions[0].Name
		}
	}
	Fail("metal3.yaml has no IPAM provider")
	return ""
}

// serveClusterctl returns a URL of the clusterctl of the lab. The spec downloads the program.
func serveClusterctl() string {
	path := bed.lab.Management().Clusterctl().Path
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		http.ServeFile(response, request, path)
	}))
	DeferCleanup(server.Close)
	return server.URL
}

// expectManager expects the image of the manager in a cluster.
func expectManager(of framework.ClusterProxy, image string) {
	GinkgoHelper()
	var manager appsv1.Deployment
	Expect(of.GetClient().Get(background, client.ObjectKey{
		Namespace: managerNamespace, Name: managerDeployment,
	}, &manager)).To(Succeed())
	Expect(manager.Spec.Template.Spec.Containers).To(HaveLen(1))
	Expect(manager.Spec.Template.Spec.Containers[0].Image).To(Equal(image))
}

// atOtherAddress gives the API server of a template another address and router ID.
func atOtherAddress(template string) string {
	GinkgoHelper()
	for variable, value := range map[string]string{
		"${CLUSTER_APIENDPOINT_HOST}":     network.Address4(managementNumber).String(),
		"${CLUSTER_APIENDPOINT_VRID:=51}": strconv.Itoa(managementRouterID),
	} {
		Expect(template).To(ContainSubstring(variable))
		template = strings.ReplaceAll(template, variable, value)
	}
	return template
}
