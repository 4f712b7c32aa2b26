package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/managers"
)

const (
	// clusterName is the name of the cluster of the specs.
	clusterName = "integration"
	// kubernetesVersion is the version of its nodes.
	kubernetesVersion = "v1.36.0"

	// flavour is the template that requires only hosts.
	flavour = "development"

	// hostCount is one host for the control plane, one for the worker, and one that stays available.
	hostCount = 3
)

// describeProvider has the specs of this provider, from its installation to the deletion of a cluster.
func describeProvider(m *management) {
	It("gets this provider from clusterctl", func(ctx context.Context) {
		Expect(m.missing).NotTo(HaveOccurred())
		m.run(ctx, "init", "--infrastructure=metal3")
		Expect(m.providers(ctx)).To(ContainElement("infrastructure-metal3"))
	})

	It("runs the manager of this provider with the installed RBAC rules", func(ctx context.Context) {
		m.startManagers(ctx, managers.Provider(m.buildManager(ctx)))
	}, NodeTimeout(buildPatience))

	It("calls the webhooks of this provider", func(ctx context.Context) {
		invalid := build.Metal3Machine("invalid", clusterName)
		invalid.Spec.Image = nil
		Expect(m.server.Client.Create(ctx, invalid)).To(MatchError(ContainSubstring("spec.image")))
	})

	It("accepts all its templates", func(ctx context.Context) {
		templates, err := filepath.Glob(filepath.Join(m.release, "cluster-template*.yaml"))
		Expect(err).NotTo(HaveOccurred())
		Expect(templates).NotTo(BeEmpty())
		for _, template := range templates {
			name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(template), "cluster-template"), ".yaml")
			m.apply(ctx, m.generate(ctx, strings.TrimPrefix(name, "-")), "--dry-run=server")
		}
	})

	It("has hosts", func(ctx context.Context) {
		for i := range hostCount {
			host := build.Host(fmt.Sprintf("host-%d", i))
			Expect(m.server.Client.Create(ctx, build.ControllerSecret(host))).To(Succeed())
			Expect(m.server.Client.Create(ctx, host)).To(Succeed())
		}
		m.eventuallyHosts(ctx, map[bmov1alpha1.ProvisioningState]int{bmov1alpha1.StateAvailable: hostCount})
	})

	It("creates a cluster from a template", func(ctx context.Context) {
		m.apply(ctx, m.generate(ctx, flavour))
		Eventually(func(g Gomega) {
			var cluster clusterv1.Cluster
			g.Expect(m.server.Client.Get(ctx, key(clusterName), &cluster)).To(Succeed())
			g.Expect(cluster.Status.Initialization.InfrastructureProvisioned).To(HaveValue(BeTrue()))
			g.Expect(cluster.Spec.ControlPlaneEndpoint.Host).To(Equal(build.EndpointHost))
		}).Should(Succeed())
	})

	It("provisions a host for the first control-plane machine", func(ctx context.Context) {
		// The API server of the new cluster never answers. So the control plane stays at its first machine, and the
		// worker has no bootstrap data and no host.
		Eventually(func(g Gomega) {
			machine := m.controlPlaneMachine(ctx, g)
			host := m.hostOf(ctx, g, machine)
			g.Expect(host.Spec.ConsumerRef).To(HaveField("Name", machine.Name))
			g.Expect(host.Spec.Image).To(HaveField("URL", build.ImageURL))
			g.Expect(host.Spec.Online).To(BeTrue())
			g.Expect(host.Status.Provisioning.State).To(Equal(bmov1alpha1.StateProvisioned))
			var userData corev1.Secret
			g.Expect(host.Spec.UserData).NotTo(BeNil())
			g.Expect(m.server.Client.Get(ctx, key(host.Spec.UserData.Name), &userData)).To(Succeed())
			g.Expect(userData.Data).To(HaveKey("value"))
		}).Should(Succeed())
		m.eventuallyHosts(ctx, map[bmov1alpha1.ProvisioningState]int{
			bmov1alpha1.StateProvisioned: 1, bmov1alpha1.StateAvailable: hostCount - 1,
		})
	})

	It("reports that it waits for the Node", func(ctx context.Context) {
		Eventually(func(g Gomega) {
			conditions := m.controlPlaneMachine(ctx, g).Status.Conditions
			g.Expect(meta.IsStatusConditionTrue(conditions, infrav1.HostAssociatedCondition)).To(BeTrue(), "%v", conditions)
			g.Expect(meta.IsStatusConditionTrue(conditions, infrav1.HostProvisionedCondition)).To(BeTrue(), "%v", conditions)
			g.Expect(meta.FindStatusCondition(conditions, infrav1.NodeLinkedCondition)).To(HaveValue(And(
				HaveField("Status", metav1.ConditionFalse),
				HaveField("Reason", BeElementOf(infrav1.WaitingForNodeReason, infrav1.WorkloadClusterUnreachableReason)),
			)))
		}).Should(Succeed())
	})

	It("serves the older version of its API", func(ctx context.Context) {
		output := m.kubectl(ctx, "get", "metal3machines.v1beta1.infrastructure.cluster.x-k8s.io",
			"--namespace="+build.DefaultNamespace, "-o", "jsonpath={.items[0].apiVersion}")
		Expect(output).To(Equal("infrastructure.cluster.x-k8s.io/v1beta1"))
	})

	It("is described by clusterctl", func(ctx context.Context) {
		// Cluster API creates the worker up to 15 s after the first control-plane machine. Then nothing changes.
		want, err := os.ReadFile(filepath.Join("testdata", "describe.txt"))
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() string {
			return described(m.run(ctx, "describe", "cluster", clusterName, "--namespace="+build.DefaultNamespace, "--echo",
				"--show-conditions=all"))
		}).Should(Equal(string(want)))
	})

	It("passes the checks of clusterctl move without a target", func(ctx context.Context) {
		_, log, err := m.clusterctl.RunWithLog(ctx, "move", "--dry-run", "--namespace="+build.DefaultNamespace, "-v=1")
		Expect(err).NotTo(HaveOccurred())
		for _, kind := range []string{"Metal3Cluster", "Metal3Machine", "Metal3MachineTemplate", "BareMetalHost"} {
			Expect(log).To(ContainSubstring(kind+"="), "a move would leave it behind")
		}
	})

	It("releases the host of a deleted Cluster", func(ctx context.Context) {
		m.kubectl(ctx, "delete", "cluster", clusterName, "--namespace="+build.DefaultNamespace, "--wait=false")
		Eventually(func() string {
			return strings.TrimSpace(m.kubectl(ctx, "get", "clusters,machines,metal3clusters,metal3machines",
				"--namespace="+build.DefaultNamespace, "-o", "name"))
		}).Should(BeEmpty())
		m.eventuallyHosts(ctx, map[bmov1alpha1.ProvisioningState]int{bmov1alpha1.StateAvailable: hostCount})
		var hosts bmov1alpha1.BareMetalHostList
		Expect(m.server.Client.List(ctx, &hosts, client.InNamespace(build.DefaultNamespace))).To(Succeed())
		for _, host := range hosts.Items {
			Expect(host.Spec.ConsumerRef).To(BeNil(), "%s still has a consumer", host.Name)
			Expect(host.Spec.UserData).To(BeNil(), "%s still has user data", host.Name)
		}
	})
}

var (
	branches      = regexp.MustCompile(`^[│├└─ ]+`)
	objectRow     = regexp.MustCompile(`^[A-Z][A-Za-z0-9]+ ` + build.DefaultNamespace + `/`)
	infraRow      = regexp.MustCompile(`^Metal3[A-Za-z0-9]+ `)
	generatedName = regexp.MustCompile(`(` + clusterName + `-(?:control-plane|workers))(?:-[a-z0-9]{5})+\b`)
	hostName      = regexp.MustCompile(`\bhost-[0-9]\b`)
	age           = regexp.MustCompile(` {2}[0-9]+[smh]([0-9]+[sm])?( |$)`)
	spaces        = regexp.MustCompile(` {2,}`)
)

// described returns the rows of clusterctl describe about this provider: all objects, all conditions of the objects
// of this provider, and InfrastructureReady. The rows have no ages, generated names and padding.
func described(output string) string {
	var rows []string
	isInfra, isKept := false, false
	for line := range strings.Lines(output) {
		row := branches.ReplaceAllString(strings.TrimRight(line, " \n"), "")
		isCondition := strings.Contains(line, "─") && !objectRow.MatchString(row)
		switch {
		case objectRow.MatchString(row):
			isInfra, isKept = infraRow.MatchString(row), true
		case isCondition:
			isKept = isInfra || strings.HasPrefix(row, clusterv1.InfrastructureReadyCondition+" ")
		}
		if !isKept {
			continue
		}
		row = generatedName.ReplaceAllString(row, "$1-xxxxx")
		row = age.ReplaceAllString(hostName.ReplaceAllString(row, "host-x"), "  AGE ")
		rows = append(rows, strings.TrimSpace(spaces.ReplaceAllString(row, "  ")))
	}
	return strings.Join(rows, "\n") + "\n"
}

// generate renders the manifests of the cluster from a template. An empty flavour is the default one.
func (m *management) generate(ctx context.Context, flavour string) string {
	GinkgoHelper()
	return m.run(ctx, "generate", "cluster", clusterName, "--flavor="+flavour,
		"--target-namespace="+build.DefaultNamespace, "--kubernetes-version="+kubernetesVersion,
		"--control-plane-machine-count=3", "--worker-machine-count=1")
}

func (m *management) apply(ctx context.Context, manifests string, flags ...string) {
	GinkgoHelper()
	args := append([]string{"apply", "--filename=-"}, flags...)
	_, err := m.server.KubectlWithInput(ctx, strings.NewReader(manifests), args...)
	Expect(err).NotTo(HaveOccurred())
}

// managerVariable names a manager that was built before.
const managerVariable = "METAL3_MANAGER"

// buildManager builds the manager of this provider next to the repository, which all specs of a container share.
func (m *management) buildManager(ctx context.Context) string {
	GinkgoHelper()
	if path := os.Getenv(managerVariable); path != "" {
		return path
	}
	root := m.server.Root()
	_, err := os.Stat(filepath.Join(root, "main.go"))
	Expect(errors.Is(err, fs.ErrNotExist)).To(BeFalse(), "main.go does not exist")
	path := filepath.Join(filepath.Dir(m.clusterctl.Config), "manager")
	command := exec.CommandContext(ctx, "go", "build", "-tags=fieldsv1string", "-o", path, ".")
	command.Dir = root
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", output)
	return path
}

// controlPlaneMachine returns the only Metal3Machine of the control plane.
func (m *management) controlPlaneMachine(ctx context.Context, g Gomega) *infrav1.Metal3Machine {
	var machines infrav1.Metal3MachineList
	g.Expect(m.server.Client.List(ctx, &machines, client.InNamespace(build.DefaultNamespace),
		client.HasLabels{clusterv1.MachineControlPlaneLabel})).To(Succeed())
	g.Expect(machines.Items).To(HaveLen(1))
	return &machines.Items[0]
}

func (m *management) hostOf(ctx context.Context, g Gomega, machine *infrav1.Metal3Machine) *bmov1alpha1.BareMetalHost {
	g.Expect(machine.Annotations).To(HaveKey(infrav1.HostAnnotation))
	_, name, _ := strings.Cut(machine.Annotations[infrav1.HostAnnotation], "/")
	var host bmov1alpha1.BareMetalHost
	g.Expect(m.server.Client.Get(ctx, key(name), &host)).To(Succeed())
	return &host
}

// eventuallyHosts waits until the numbers of hosts in each state are as given, with no other hosts.
func (m *management) eventuallyHosts(ctx context.Context, want map[bmov1alpha1.ProvisioningState]int) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var hosts bmov1alpha1.BareMetalHostList
		g.Expect(m.server.Client.List(ctx, &hosts, client.InNamespace(build.DefaultNamespace))).To(Succeed())
		got := map[bmov1alpha1.ProvisioningState]int{}
		for _, host := range hosts.Items {
			got[host.Status.Provisioning.State]++
		}
		g.Expect(got).To(Equal(want))
	}).Should(Succeed())
}

func key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: build.DefaultNamespace, Name: name}
}
