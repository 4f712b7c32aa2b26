package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// flavourCluster is the cluster of the flavours. The API server may have the address of the host addressed.
const flavourCluster, addressed = "flavour", "host-0"

// Other stories boot the flavours ubuntu and ironic, and the specs of Cluster API boot the ClusterClass of topology.
var _ = Describe("A flavour of the release", func() {
	DescribeTable("boots a node of the control plane and a worker",
		func(ctx SpecContext, flavour string, boots flavourCase) {
			w := &world{Client: bed.proxy.GetClient()}
			began := time.Now()
			objects := generate(ctx, flavour, boots.pinned)
			for i := range objects {
				adapt(&objects[i], boots.pinned)
			}
			if boots.pinned {
				Expect(w.label(ctx, addressed, map[string]string{"api-server": "here"})).To(Succeed())
				DeferCleanup(func(ctx SpecContext) { Expect(w.label(ctx, addressed, nil)).To(Succeed()) })
			}
			DeferCleanup(w.removeFlavour, NodeTimeout(storyLimit))
			manifest, err := yaml.FromUnstructured(objects)
			Expect(err).NotTo(HaveOccurred())
			_, err = bed.lab.Management().KubectlWithInput(ctx, strings.NewReader(string(manifest)), "apply", "-f", "-")
			Expect(err).NotTo(HaveOccurred())

			if boots.network {
				w.bringNetwork(ctx)
			}
			Expect(bed.lab.WaitForMachines(ctx, flavourCluster, 2, storyLimit)).To(Succeed())
			fmt.Printf("flavour %q: two machines are available after %s\n", flavour, time.Since(began).Round(time.Second))
		},
		Entry("with kubeadm only", NodeTimeout(storyLimit), "", flavourCase{pinned: true}),
		Entry("for development", NodeTimeout(storyLimit), "development", flavourCase{pinned: true}),
		Entry("for CentOS", NodeTimeout(storyLimit), "centos", flavourCase{
			// It removes the pod network of an image.
			network: true,
		}),
	)
})

// flavourCase are the prerequisites of a flavour.
type flavourCase struct {
	// pinned is true if the API server has the address of a host, because the nodes have no program for a VIP.
	pinned bool
	// network is true if the user installs a pod network.
	network bool
}

// generate returns the objects of a flavour from clusterctl. Pinned sets the address of a host for the API server.
func generate(ctx context.Context, flavour string, pinned bool) []unstructured.Unstructured {
	GinkgoHelper()
	maker := bed.lab.Management().Clusterctl()
	if pinned {
		address := network.Address4(bed.lab.Machine(addressed).Port().Number)
		maker.Variables = append(slices.Clone(maker.Variables), "CLUSTER_APIENDPOINT_HOST="+address.String())
	}
	arguments := []string{
		"generate", "cluster", flavourCluster, "--target-namespace=" + lab.Namespace,
		"--kubernetes-version=" + binaries.KubernetesVersion, "--control-plane-machine-count=1", "--worker-machine-count=1",
	}
	if flavour != "" {
		arguments = append(arguments, "--flavor="+flavour)
	}
	manifest, err := maker.Run(ctx, arguments...)
	Expect(err).NotTo(HaveOccurred())
	objects, err := yaml.ToUnstructured([]byte(manifest))
	Expect(err).NotTo(HaveOccurred())
	return objects
}

// adapt changes an object for the machines of the lab, like test/lab/templates/nodes. Pinned places the control plane
// on one host.
func adapt(object *unstructured.Unstructured, pinned bool) {
	GinkgoHelper()
	ignored := []any{
		"FileContent--proc-sys-net-bridge-bridge-nf-call-iptables", "Hostname", "Swap", "SystemVerification",
	}
	set := func(value any, path ...string) {
		Expect(unstructured.SetNestedField(object.Object, value, path...)).To(Succeed())
	}
	register := func(path ...string) {
		set("IfNotPresent", append(slices.Clone(path), "nodeRegistration", "imagePullPolicy")...)
		set(ignored, append(slices.Clone(path), "nodeRegistration", "ignorePreflightErrors")...)
	}
	isControlPlane := strings.HasSuffix(object.GetName(), "-control-plane")
	switch object.GetKind() {
	case "KubeadmControlPlane":
		const kubeadm = "kubeadmConfigSpec"
		register("spec", kubeadm, "initConfiguration")
		register("spec", kubeadm, "joinConfiguration")
		commands, _, err := unstructured.NestedSlice(object.Object, "spec", kubeadm, "preKubeadmCommands")
		Expect(err).NotTo(HaveOccurred())
		const proxy = "[ ! -f /run/kubeadm/kubeadm.yaml ] || cat /etc/lab/kube-proxy.yaml >> /run/kubeadm/kubeadm.yaml"
		set(append([]any{proxy}, commands...), "spec", kubeadm, "preKubeadmCommands")
	case "KubeadmConfigTemplate":
		register("spec", "template", "spec", "joinConfiguration")
	case "Metal3MachineTemplate":
		if pinned && isControlPlane {
			set("here", "spec", "template", "spec", "hostSelector", "matchLabels", "api-server")
		}
	}
}

// label replaces the labels of a host.
func (w *world) label(ctx context.Context, name string, labels map[string]string) error {
	found := w.host(ctx, Default, name)
	before := found.DeepCopy()
	found.Labels = labels
	return w.Patch(ctx, found, client.MergeFrom(before))
}

// bringNetwork waits until both nodes have joined, and installs a pod network.
func (w *world) bringNetwork(ctx context.Context) {
	GinkgoHelper()
	var nodes []string
	Eventually(func(g Gomega) {
		var machines clusterv1.MachineList
		g.Expect(w.List(ctx, &machines, client.InNamespace(lab.Namespace),
			client.MatchingLabels{clusterv1.ClusterNameLabel: flavourCluster})).To(Succeed())
		nodes = nil
		for _, machine := range machines.Items {
			if machine.Status.NodeRef.Name != "" {
				nodes = append(nodes, machine.Status.NodeRef.Name)
			}
		}
		g.Expect(nodes).To(HaveLen(2))
	}, patiently()...).Should(Succeed())
	for _, node := range nodes {
		run(ctx, node, "systemctl", "restart", "lab-network")
	}
}

// removeFlavour deletes the cluster and waits until all hosts are available.
func (w *world) removeFlavour(ctx SpecContext) {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: lab.Namespace, Name: flavourCluster}}
	Expect(client.IgnoreNotFound(w.Delete(ctx, cluster))).To(Succeed())
	Eventually(func(g Gomega) {
		err := w.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the Cluster still exists")
	}, patiently()...).Should(Succeed())
	for _, host := range w.hosts(ctx, Default) {
		w.untilFree(ctx, host.Name)
	}
}
