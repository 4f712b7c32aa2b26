package clusterapi_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	capi "sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/specs"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/bmc"
)

const (
	// labName is the name of the lab. It differs from that of the stories, so that both can run.
	labName = "capi"

	// labMachines is the maximum number of machines: the management machine, a management cluster of two nodes, and a
	// cluster of a control-plane node and two workers.
	labMachines = 6

	// upgradedTemplate is the Metal3MachineTemplate of nodes after an upgrade in the flavour upgrades.
	upgradedTemplate = "upgraded"

	// startLimit includes the build of all programs.
	startLimit = 50 * time.Minute

	// stopLimit is the time limit for the removal of the lab.
	stopLimit = 5 * time.Minute
)

// bed is the shared state of all specs.
var bed struct {
	lab   *lab.Lab
	proxy proxy
	// config is metal3.yaml. clusterctl is the path of the clusterctl.yaml for it.
	config     *clusterctl.E2EConfig
	clusterctl string
	// folder has logs, objects and generated files.
	folder string
}

func TestClusterAPI(t *testing.T) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("requires root on Linux: the lab uses Linux namespaces")
	}
	specs.Run(t, "specs of Cluster API")
}

var _ = BeforeSuite(func(ctx context.Context) {
	// Features of Cluster API that are off by default: the spec of rollouts propagates taints, and others use a ClusterClass.
	// The program clusterctl does not look for a later version of itself.
	for _, variable := range []string{"EXP_MACHINE_TAINT_PROPAGATION", "CLUSTER_TOPOLOGY", "CLUSTERCTL_DISABLE_VERSIONCHECK"} {
		Expect(os.Setenv(variable, "true")).To(Succeed())
	}
	started := time.Now()
	running, err := lab.Start(ctx, lab.Options{
		Name: labName, Machines: labMachines, EarlierKubernetes: true, Later: true,
		Progress: func(format string, args ...any) {
			fmt.Printf("[lab %6.1fs] %s\n", time.Since(started).Seconds(), fmt.Sprintf(format, args...))
		},
	})
	Expect(err).NotTo(HaveOccurred())
	bed.lab = running
	DeferCleanup(func(ctx context.Context) {
		Expect(running.Stop(ctx)).To(Succeed())
		left, err := lab.Leftovers(labName)
		Expect(err).NotTo(HaveOccurred())
		Expect(left).To(BeEmpty(), "the lab must leave nothing behind")
	}, NodeTimeout(stopLimit))
	bed.proxy = newProxy(running.Management())
	configure(ctx)
}, NodeTimeout(startLimit))

// configure writes a repository with the providers of metal3.yaml and the templates.
func configure(ctx context.Context) {
	var err error
	bed.folder, err = filepath.Abs(filepath.Join("..", "..", "..", "out", "clusterapi"))
	Expect(err).NotTo(HaveOccurred())
	Expect(os.RemoveAll(bed.folder)).To(Succeed())
	templates := filepath.Join(bed.folder, "templates")
	Expect(os.MkdirAll(templates, 0o750)).To(Succeed())
	nodes := writeTemplates(ctx, templates)

	program := bed.lab.Management().Clusterctl()
	repository := filepath.Dir(program.Config)
	version := onlyVersion(repository, "infrastructure-metal3")
	write(filepath.Join(templates, "clusterclass-metal3.yaml"),
		classOf(filepath.Join(repository, "infrastructure-metal3", version), nodes))
	known := map[string]string{
		"REPOSITORY": repository, "TEMPLATES": templates,
		"CLUSTER_API_VERSION": onlyVersion(repository, "cluster-api"), "METAL3_VERSION": version,
		"ADDRESS_MANAGER_VERSION": onlyVersion(repository, "ipam-metal3"),
	}
	content, err := os.ReadFile("metal3.yaml")
	Expect(err).NotTo(HaveOccurred())
	expanded := filepath.Join(bed.folder, "metal3.yaml")
	write(expanded, []byte(os.Expand(string(content), func(name string) string {
		Expect(known).To(HaveKey(name), "metal3.yaml names a variable without a value")
		return known[name]
	})))

	bed.config = clusterctl.LoadE2EConfig(ctx, clusterctl.LoadE2EConfigInput{ConfigPath: expanded})
	earlier := lab.VersionedNodeImage(binaries.EarlierKubernetesVersion)
	bed.config.Variables = map[string]string{
		"KUBERNETES_VERSION":                 binaries.KubernetesVersion,
		capi.KubernetesVersionUpgradeFrom:    binaries.EarlierKubernetesVersion,
		capi.KubernetesVersionUpgradeTo:      binaries.KubernetesVersion,
		"EARLIER_IMAGE_URL":                  bmc.ImageURL(earlier),
		"EARLIER_IMAGE_CHECKSUM":             bmc.ChecksumURL(earlier),
		capi.CPMachineTemplateUpgradeTo:      upgradedTemplate,
		capi.WorkersMachineTemplateUpgradeTo: upgradedTemplate,
		"ETCD_IMAGE_TAG":                     binaries.EtcdVersion, "COREDNS_IMAGE_TAG": binaries.CoreDNSVersion,
	}
	for _, variable := range program.Variables {
		name, value, _ := strings.Cut(variable, "=")
		bed.config.Variables[name] = value
	}
	bed.clusterctl = clusterctl.CreateRepository(ctx, clusterctl.CreateRepositoryInput{
		E2EConfig: bed.config, RepositoryFolder: filepath.Join(bed.folder, "repository"),
	})
}

// writeTemplates writes the templates of all flavours, and returns the one with an earlier release of Kubernetes.
func writeTemplates(ctx context.Context, folder string) (upgrades []byte) {
	GinkgoHelper()
	for file, from := range map[string]string{
		"cluster-template.yaml":             filepath.Join("..", "..", "lab", "templates", "plain"),
		"cluster-template-remediation.yaml": filepath.Join("templates", "remediation"),
		"cluster-template-rollout.yaml":     filepath.Join("templates", "rollout"),
		"cluster-template-upgrades.yaml":    filepath.Join("templates", "upgrades"),
	} {
		template, err := bed.lab.Kustomize(ctx, from, "--load-restrictor=LoadRestrictionsNone")
		Expect(err).NotTo(HaveOccurred())
		write(filepath.Join(folder, file), []byte(template))
		switch filepath.Base(from) {
		case "plain":
			write(filepath.Join(folder, "cluster-template-management.yaml"), []byte(atOtherAddress(template)))
		case "upgrades":
			upgrades = []byte(template)
		}
	}
	return upgrades
}

func write(path string, content []byte) {
	GinkgoHelper()
	Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
}

// onlyVersion returns the only version of a provider in a repository.
func onlyVersion(repository, provider string) string {
	GinkgoHelper()
	versions, err := filepath.Glob(filepath.Join(repository, provider, "v*"))
	Expect(err).NotTo(HaveOccurred())
	Expect(versions).To(HaveLen(1))
	return filepath.Base(versions[0])
}
