package integration_test

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// nextImage is the image of the rollout of the ClusterClass, as the variable of the class names it.
const nextImage = build.ImageURL + "-{version}"

// topology are the current objects of the topology controller.
type topology struct {
	infra                  *infrav1.Metal3Cluster
	controlPlane, workers  *infrav1.Metal3MachineTemplate
	controlPlaneGeneration int64
}

// describeTopology has the specs of the ClusterClass of the release with the real topology controller.
func describeTopology(m *management) {
	var before topology

	It("creates a Cluster of the ClusterClass", func(ctx context.Context) {
		m.clusterctl.Variables = append(m.clusterctl.Variables,
			"CONTROL_PLANE_HEALTH_CHECK=true", "WORKER_HEALTH_CHECK=true")
		m.apply(ctx, m.generate(ctx, "topology"))
		Eventually(func(g Gomega) {
			before = m.topology(ctx, g)
			g.Expect(before.infra.Spec.ControlPlaneEndpoint.Host).To(Equal(build.EndpointHost))
			g.Expect(before.infra.Spec.Ironic).To(BeNil())
			for _, template := range []*infrav1.Metal3MachineTemplate{before.controlPlane, before.workers} {
				g.Expect(template.Spec.Template.Spec.Image.URL).To(Equal(build.ImageURL))
				g.Expect(template.Spec.Template.Spec.HostSelector).To(BeZero())
				g.Expect(template.Spec.Template.Spec.FailureDomainPolicy).NotTo(Equal(infrav1.FailureDomainStrict))
			}
			g.Expect(m.hostOf(ctx, g, m.controlPlaneMachine(ctx, g)).Status.Provisioning.State).To(
				Equal(bmov1alpha1.StateProvisioned))
		}).Should(Succeed())
	})

	It("has health checks that request a reboot", func(ctx context.Context) {
		var checks clusterv1.MachineHealthCheckList
		Expect(m.server.Client.List(ctx, &checks, client.InNamespace(build.DefaultNamespace))).To(Succeed())
		Expect(checks.Items).To(HaveLen(2))
		for _, check := range checks.Items {
			reference := check.Spec.Remediation.TemplateRef
			Expect(reference.Kind).To(Equal("Metal3RemediationTemplate"))
			Expect(m.server.Client.Get(ctx, key(reference.Name), &infrav1.Metal3RemediationTemplate{})).To(Succeed())
		}
	})

	It("refuses invalid values of variables", func(ctx context.Context) {
		for name, value := range map[string]string{
			"automatedCleaningMode": `"never"`,
			"failureDomainPolicy":   `"Always"`,
			"hostSelector":          `{"matchLabel":{"rack":"a"}}`,
			"ironic": `{"endpoint":{"virtualIPs":["192.0.2.20"],"cidrs":["192.0.2.0/24"]},` +
				`"vrrp":{"virtualRouterID":2}}`,
		} {
			Expect(m.setVariable(ctx, name, value)).To(MatchError(ContainSubstring(name)))
		}
	})

	It("rolls out templates for another image and other hosts", func(ctx context.Context) {
		Expect(m.setVariable(ctx, "image", `{"url":"`+nextImage+`","checksum":"`+nextImage+`.sha256sum"}`)).To(Succeed())
		Expect(m.setVariable(ctx, "hostSelector", `{"matchLabels":{"rack":"a"}}`)).To(Succeed())
		Expect(m.setVariable(ctx, "failureDomainPolicy", `"Strict"`)).To(Succeed())
		var after topology
		Eventually(func(g Gomega) {
			after = m.topology(ctx, g)
			for _, template := range []*infrav1.Metal3MachineTemplate{after.controlPlane, after.workers} {
				g.Expect(template.Spec.Template.Spec.Image.URL).To(Equal(build.ImageURL + "-" + kubernetesVersion))
				g.Expect(template.Spec.Template.Spec.Image.Checksum).To(Equal(template.Spec.Template.Spec.Image.URL + ".sha256sum"))
				g.Expect(template.Spec.Template.Spec.HostSelector.MatchLabels).To(Equal(map[string]string{"rack": "a"}))
				g.Expect(template.Spec.Template.Spec.FailureDomainPolicy).To(Equal(infrav1.FailureDomainStrict))
			}
		}).Should(Succeed())
		Expect(after.controlPlane.Name).NotTo(Equal(before.controlPlane.Name))
		Expect(after.workers.Name).NotTo(Equal(before.workers.Name))
		Expect(after.infra.Generation).To(Equal(before.infra.Generation), "the Metal3Cluster is unchanged")
		before = after
	})

	It("takes an image of a registry, which has no checksum", func(ctx context.Context) {
		Expect(m.setVariable(ctx, "image", `{"url":"oci://registry.example/node:{version}"}`)).To(Succeed())
		Eventually(func(g Gomega) {
			after := m.topology(ctx, g)
			for _, template := range []*infrav1.Metal3MachineTemplate{after.controlPlane, after.workers} {
				g.Expect(template.Spec.Template.Spec.Image).To(HaveValue(Equal(infrav1.Image{
					URL: "oci://registry.example/node:" + kubernetesVersion, DiskFormat: "qcow2",
				})))
			}
			before = after
		}).Should(Succeed())
	})

	It("changes the Metal3Cluster in place", func(ctx context.Context) {
		Expect(m.setVariable(ctx, "failureDomains", `[{"name":"a","controlPlane":true},{"name":"b"}]`)).To(Succeed())
		Expect(m.setVariable(ctx, "ironic",
			`{"endpoint":{"virtualIPs":["192.0.2.20"],"cidrs":["192.0.2.0/24"]}}`)).To(Succeed())
		Eventually(func(g Gomega) {
			infra := m.topology(ctx, g).infra
			g.Expect(infra.Spec.FailureDomains).To(ConsistOf(HaveField("Name", "a"), HaveField("Name", "b")))
			g.Expect(infra.Spec.Ironic).To(HaveValue(And(
				HaveField("Endpoint.Interface", "provisioning"),
				HaveField("Takeover", infrav1.TakeoverAfterMove),
				HaveField("ClusterID", Not(BeEmpty())),
				HaveField("VRRP.VirtualRouterID", Not(BeZero())),
			)))
			g.Expect(infra.UID).To(Equal(before.infra.UID))
			before = m.topology(ctx, g)
		}).Should(Succeed())
	})

	It("lets nodes choose the interface", func(ctx context.Context) {
		const endpoint = `{"endpoint":{"virtualIPs":["192.0.2.20"],"cidrs":["192.0.2.0/24"],"interfaceCIDR":"192.0.2.0/24"`
		Expect(m.setVariable(ctx, "ironic", endpoint+`,"interface":"provisioning"}}`)).To(
			MatchError(ContainSubstring("set at most one of interface, macAddresses and interfaceCIDR")))
		Expect(m.setVariable(ctx, "ironic", endpoint+`}}`)).To(Succeed())
		Eventually(func(g Gomega) {
			before = m.topology(ctx, g)
			g.Expect(before.infra.Spec.Ironic.Endpoint).To(And(
				HaveField("InterfaceCIDR", "192.0.2.0/24"), HaveField("Interface", BeEmpty())))
		}).Should(Succeed())
	})

	It("finds nothing to change in dry runs while no variable changes", func(ctx context.Context) {
		Expect(m.changeTopology(ctx, func(topology *clusterv1.Topology) {
			topology.ControlPlane.Metadata.Annotations = map[string]string{"example.com/later": "true"}
		})).To(Succeed())
		Eventually(func(g Gomega) {
			after := m.topology(ctx, g)
			g.Expect(after.controlPlaneGeneration).To(BeNumerically(">", before.controlPlaneGeneration))
			g.Expect(after.controlPlane.Name).To(Equal(before.controlPlane.Name))
			g.Expect(after.workers.Name).To(Equal(before.workers.Name))
			g.Expect(after.infra.Generation).To(Equal(before.infra.Generation))
		}).Should(Succeed())
	})

	It("gives the control plane and the workers their data templates", func(ctx context.Context) {
		names := map[string]string{"controlPlaneDataTemplate": "data-control-plane", "workerDataTemplate": "data-workers"}
		for variable, name := range names {
			Expect(m.server.Client.Create(ctx, &infrav1.Metal3DataTemplate{
				ObjectMeta: metav1.ObjectMeta{Namespace: build.DefaultNamespace, Name: name},
				Spec:       infrav1.Metal3DataTemplateSpec{ClusterName: clusterName},
			})).To(Succeed())
			Expect(m.setVariable(ctx, variable, strconv.Quote(name))).To(Succeed())
		}
		var after topology
		Eventually(func(g Gomega) {
			after = m.topology(ctx, g)
			for variable, template := range map[string]*infrav1.Metal3MachineTemplate{
				"controlPlaneDataTemplate": after.controlPlane, "workerDataTemplate": after.workers,
			} {
				g.Expect(template.Spec.Template.Spec.DataTemplate).To(
					HaveValue(Equal(infrav1.Metal3ObjectRef{Name: names[variable]})), variable)
			}
		}).Should(Succeed())
		Expect(after.controlPlane.Name).NotTo(Equal(before.controlPlane.Name))
		Expect(after.workers.Name).NotTo(Equal(before.workers.Name))
	})

	It("is deleted with its Cluster, and leaves the ClusterClass", func(ctx context.Context) {
		m.kubectl(ctx, "delete", "cluster", clusterName, "--namespace="+build.DefaultNamespace, "--wait=false")
		Eventually(func() string {
			return strings.TrimSpace(m.kubectl(ctx, "get", "clusters,machines,metal3clusters,metal3machines",
				"--namespace="+build.DefaultNamespace, "-o", "name"))
		}).Should(BeEmpty())
		m.eventuallyHosts(ctx, map[bmov1alpha1.ProvisioningState]int{bmov1alpha1.StateAvailable: hostCount})
		Expect(m.server.Client.Get(ctx, key("metal3"), &clusterv1.ClusterClass{})).To(Succeed())
	})
}

// topology reads the objects of the topology controller, once it has finished.
func (m *management) topology(ctx context.Context, g Gomega) topology {
	var cluster clusterv1.Cluster
	g.Expect(m.server.Client.Get(ctx, key(clusterName), &cluster)).To(Succeed())
	g.Expect(cluster.Status.Conditions).To(stage.HaveCondition(clusterv1.ClusterTopologyReconciledCondition, And(
		stage.IsTrue(), HaveField("ObservedGeneration", cluster.Generation))))
	found := topology{
		infra:        &infrav1.Metal3Cluster{},
		controlPlane: &infrav1.Metal3MachineTemplate{}, workers: &infrav1.Metal3MachineTemplate{},
	}
	g.Expect(m.server.Client.Get(ctx, key(cluster.Spec.InfrastructureRef.Name), found.infra)).To(Succeed())
	var controlPlane controlplanev1.KubeadmControlPlane
	g.Expect(m.server.Client.Get(ctx, key(cluster.Spec.ControlPlaneRef.Name), &controlPlane)).To(Succeed())
	found.controlPlaneGeneration = controlPlane.Generation
	reference := controlPlane.Spec.MachineTemplate.Spec.InfrastructureRef
	g.Expect(m.server.Client.Get(ctx, key(reference.Name), found.controlPlane)).To(Succeed())
	var deployments clusterv1.MachineDeploymentList
	g.Expect(m.server.Client.List(ctx, &deployments, client.InNamespace(build.DefaultNamespace))).To(Succeed())
	g.Expect(deployments.Items).To(HaveLen(1))
	reference = deployments.Items[0].Spec.Template.Spec.InfrastructureRef
	g.Expect(m.server.Client.Get(ctx, key(reference.Name), found.workers)).To(Succeed())
	return found
}

// setVariable sets a variable of the Cluster to a value in JSON.
func (m *management) setVariable(ctx context.Context, name, value string) error {
	GinkgoHelper()
	Expect(json.Valid([]byte(value))).To(BeTrue(), value)
	return m.changeTopology(ctx, func(topology *clusterv1.Topology) {
		variables := slices.DeleteFunc(topology.Variables, func(variable clusterv1.ClusterVariable) bool {
			return variable.Name == name
		})
		topology.Variables = append(variables, clusterv1.ClusterVariable{
			Name: name, Value: apiextensionsv1.JSON{Raw: []byte(value)},
		})
	})
}

// changeTopology changes the topology of the Cluster. Cluster API writes the status all the time while it rolls out.
// Without a lock the API server would repeat the patch and its webhooks itself, and give up after half a minute.
func (m *management) changeTopology(ctx context.Context, edit func(*clusterv1.Topology)) error {
	GinkgoHelper()
	for {
		var cluster clusterv1.Cluster
		Expect(m.server.Client.Get(ctx, key(clusterName), &cluster)).To(Succeed())
		patch := client.MergeFromWithOptions(cluster.DeepCopy(), client.MergeFromWithOptimisticLock{})
		edit(&cluster.Spec.Topology)
		if err := m.server.Client.Patch(ctx, &cluster, patch); !apierrors.IsConflict(err) {
			return err
		}
	}
}
