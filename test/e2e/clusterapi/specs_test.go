package clusterapi_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	capi "sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/bmc"
)

// background is the context of the specs, which live as long as the suite.
var background = context.Background()

var _ = Describe("creating a cluster", func() {
	capi.QuickStartSpec(background, func() capi.QuickStartSpecInput {
		return capi.QuickStartSpecInput{
			E2EConfig: bed.config, ClusterctlConfigPath: bed.clusterctl, BootstrapClusterProxy: bed.proxy,
			ArtifactFolder: artefacts("quick-start"), PostNamespaceCreated: withHosts(2),
		}
	})
})

var _ = Describe("creating a cluster of the ClusterClass", func() {
	capi.QuickStartSpec(background, func() capi.QuickStartSpecInput {
		flavour := "topology"
		return capi.QuickStartSpecInput{
			E2EConfig: bed.config, ClusterctlConfigPath: bed.clusterctl, BootstrapClusterProxy: bed.proxy,
			ArtifactFolder: artefacts("quick-start-topology"), PostNamespaceCreated: withHosts(2), Flavor: &flavour,
		}
	})
})

var _ = Describe("changing the ClusterClass", func() {
	capi.ClusterClassChangesSpec(background, func() capi.ClusterClassChangesSpecInput {
		return capi.ClusterClassChangesSpecInput{
			E2EConfig: bed.config, ClusterctlConfigPath: bed.clusterctl, BootstrapClusterProxy: bed.proxy,
			ArtifactFolder: artefacts("clusterclass-changes"), PostNamespaceCreated: withHosts(4), Flavor: "topology",
			ModifyControlPlaneFields:                             map[string]any{"spec.kubeadmConfigSpec.verbosity": int64(4)},
			ModifyMachineDeploymentBootstrapConfigTemplateFields: map[string]any{"spec.template.spec.verbosity": int64(4)},
			// Variables of the class overwrite most other fields.
			ModifyMachineDeploymentInfrastructureMachineTemplateFields: map[string]any{"spec.nodeReuse": true},
		}
	})
})

var _ = Describe("draining nodes", func() {
	capi.NodeDrainTimeoutSpec(background, func() capi.NodeDrainTimeoutSpecInput {
		return capi.NodeDrainTimeoutSpecInput{
			E2EConfig: bed.config, ClusterctlConfigPath: bed.clusterctl, BootstrapClusterProxy: bed.proxy,
			ArtifactFolder: artefacts("node-drain"), PostNamespaceCreated: withHosts(4),
		}
	})
})

var _ = Describe("scaling workers", func() {
	capi.MachineDeploymentScaleSpec(background, func() capi.MachineDeploymentScaleSpecInput {
		return capi.MachineDeploymentScaleSpecInput{
			E2EConfig: bed.config, ClusterctlConfigPath: bed.clusterctl, BootstrapClusterProxy: bed.proxy,
			ArtifactFolder: artefacts("md-scale"), PostNamespaceCreated: withHosts(4),
		}
	})
})

var _ = Describe("rolling out", func() {
	capi.KCPAndMachineDeploymentRolloutSpec(background, func() capi.KCPAndMachineDeploymentRolloutSpecInput {
		return capi.KCPAndMachineDeploymentRolloutSpecInput{
			E2EConfig: bed.config, ClusterctlConfigPath: bed.clusterctl, BootstrapClusterProxy: bed.proxy,
			ArtifactFolder: artefacts("kcp-md-rollout"), PostNamespaceCreated: withHosts(3), Flavor: "rollout",
		}
	})
})

var _ = Describe("upgrading Kubernetes", func() {
	capi.ClusterUpgradeConformanceSpec(background, func() capi.ClusterUpgradeConformanceSpecInput {
		return capi.ClusterUpgradeConformanceSpecInput{
			E2EConfig: bed.config, ClusterctlConfigPath: bed.clusterctl, BootstrapClusterProxy: bed.proxy,
			ArtifactFolder: artefacts("upgrade"), PostNamespaceCreated: withHosts(3),
			WorkerMachineCount: ptr.To[int64](1), SkipConformanceTests: true,
		}
	})
})

// The class puts the Kubernetes version of the nodes into the URL of their image.
var _ = Describe("upgrading Kubernetes by the ClusterClass", func() {
	capi.ClusterUpgradeConformanceSpec(background, func() capi.ClusterUpgradeConformanceSpecInput {
		versioned := lab.VersionedNodeImage("{version}")
		return capi.ClusterUpgradeConformanceSpecInput{
			E2EConfig: bed.config, ClusterctlConfigPath: bed.clusterctl, BootstrapClusterProxy: bed.proxy,
			ArtifactFolder: artefacts("upgrade-topology"), PostNamespaceCreated: withHosts(3), Flavor: ptr.To("topology"),
			WorkerMachineCount: ptr.To[int64](1), SkipConformanceTests: true,
			ClusterctlVariables: map[string]string{
				"IMAGE_URL": bmc.ImageURL(versioned), "IMAGE_CHECKSUM": bmc.ChecksumURL(versioned),
			},
		}
	})
})

var _ = Describe("replacing an unhealthy machine", func() {
	capi.MachineDeploymentRemediationSpec(background, func() capi.MachineDeploymentRemediationSpecInput {
		flavour := "remediation"
		return capi.MachineDeploymentRemediationSpecInput{
			E2EConfig: bed.config, ClusterctlConfigPath: bed.clusterctl, BootstrapClusterProxy: bed.proxy,
			ArtifactFolder: artefacts("md-remediation"), PostNamespaceCreated: withHosts(3), Flavor: &flavour,
		}
	})
})

var _ = Describe("moving a cluster to its own control plane, and upgrading Kubernetes there", func() {
	capi.SelfHostedSpec(background, func() capi.SelfHostedSpecInput {
		return capi.SelfHostedSpecInput{
			E2EConfig: bed.config, ClusterctlConfigPath: bed.clusterctl, BootstrapClusterProxy: bed.proxy,
			ArtifactFolder: artefacts("self-hosted"), PostNamespaceCreated: withHostsOrOperator(3), Flavor: "upgrades",
		}
	})
})

func artefacts(spec string) string { return filepath.Join(bed.folder, spec) }

// withHosts creates hosts in the namespace of a spec, in the cluster that manages them.
func withHosts(count int) func(framework.ClusterProxy, string) {
	return func(manager framework.ClusterProxy, namespace string) {
		GinkgoHelper()
		// The names of machines are unique in the lab, which has another namespace. They must be short, because they
		// are part of paths of sockets. Only the end of a namespace is random.
		id := namespace[strings.LastIndex(namespace, "-")+1:]
		for i := range count {
			name := fmt.Sprintf("host-%s-%d", id, i)
			Expect(bed.lab.AddHost(background, clusterOf(manager), name, func(object client.Object) {
				object.SetNamespace(namespace)
			})).To(Succeed())
		}
	}
}

// withHostsOrOperator creates hosts in a namespace of the management cluster. In another cluster it installs the
// prerequisites of Cluster API.
func withHostsOrOperator(count int) func(framework.ClusterProxy, string) {
	addHosts := withHosts(count)
	return func(created framework.ClusterProxy, namespace string) {
		GinkgoHelper()
		if clusterOf(created) == bed.lab.Management() {
			addHosts(created, namespace)
			return
		}
		installPrerequisites(created)
	}
}

// installPrerequisites installs the prerequisites of Cluster API in a cluster.
func installPrerequisites(into framework.ClusterProxy) {
	GinkgoHelper()
	Expect(bed.lab.InstallPrerequisites(background, clusterOf(into), bed.lab.Ironic())).To(Succeed())
}

// clusterOf returns the cluster of the lab that a proxy connects to.
func clusterOf(connected framework.ClusterProxy) *lab.Cluster {
	GinkgoHelper()
	made, ours := connected.(proxy)
	Expect(ours).To(BeTrue(), "the suite creates all proxies")
	return made.cluster
}
