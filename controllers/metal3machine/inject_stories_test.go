package metal3machine_test

import (
	"context"
	"crypto/rand"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/bootdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeInjection are the stories about control-plane machines with the Ironic endpoint of their cluster.
func describeInjection(s *suite) {
	for format, data := range map[string]string{
		build.CloudConfig: "#cloud-config\nruncmd:\n- kubeadm join\n",
		"ignition":        `{"ignition":{"version":"3.4.0"}}`,
	} {
		It("injects the Ironic endpoint into the bootstrap data of the control plane only: "+format, func(ctx context.Context) {
			w := s.world(ctx, withIronic())
			w.keepSecret(ctx)
			for _, host := range []string{"host-0", "host-1"} {
				w.host(ctx, host)
			}
			w.start()
			w.controlPlaneMachine(ctx, "first", format, data)
			w.machine(ctx, "worker")
			host := w.getHost(ctx, Default, w.associated(ctx, "first"))
			Expect(host.Spec.UserData).To(Equal(w.reference("first-ironic-userdata")))
			Expect(host.Spec.Image).To(HaveField("URL", build.ImageURL))
			made := &corev1.Secret{}
			Expect(w.client.Get(ctx, w.key("first-ironic-userdata"), made)).To(Succeed())
			Expect(metav1.IsControlledBy(made, w.getMachine(ctx, Default, "first"))).To(BeTrue())
			Expect(made.Data).To(HaveKeyWithValue("format", BeEquivalentTo(format)))
			Expect(made.Data).To(HaveKeyWithValue("value", ContainSubstring("/etc/kubernetes/manifests/metal3-vip.yaml")))
			plain, err := bootdata.Add(made.Data["value"], format, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(plain).NotTo(ContainSubstring("metal3-vip"))

			worker := w.getHost(ctx, Default, w.associated(ctx, "worker"))
			Expect(worker.Spec.UserData).To(Equal(w.reference("worker-bootstrap")))
			Expect(client.IgnoreNotFound(w.client.Get(ctx, w.key("worker-ironic-userdata"), &corev1.Secret{}))).To(Succeed())

			stage.Change(ctx, w.client, w.key("first-bootstrap"), &corev1.Secret{}, func(secret *corev1.Secret) {
				secret.Data["value"] = append(secret.Data["value"], '\n')
			})
			w.untouched(ctx, "first", host.Name)
			again := &corev1.Secret{}
			Expect(w.client.Get(ctx, w.key("first-ironic-userdata"), again)).To(Succeed())
			Expect(again.ResourceVersion).To(Equal(made.ResourceVersion), "a host that runs gets no new data")
		})
	}

	It("waits for the Secret of the endpoint", func(ctx context.Context) {
		w := s.world(ctx, withIronic())
		w.host(ctx, "host")
		w.start()
		w.controlPlaneMachine(ctx, "first", build.CloudConfig, "#cloud-config\n{}\n")
		w.eventually(ctx, "first", infrav1.HostAssociatedCondition, stage.IsFalseBecause(infrav1.WaitingForIronicSecretReason,
			"Waiting for Secret cluster-ironic of the Ironic endpoint; see the condition IronicEndpointReady of Metal3Cluster cluster"))
		w.untouched(ctx, "first", "host")
		w.keepSecret(ctx)
		Expect(w.associated(ctx, "first")).To(Equal("host"))
	})

	It("blocks until the bootstrap data contains none of the injected files", func(ctx context.Context) {
		w := s.world(ctx, withIronic())
		w.keepSecret(ctx)
		w.host(ctx, "host")
		w.start()
		w.controlPlaneMachine(ctx, "first", build.CloudConfig,
			"#cloud-config\nwrite_files:\n- path: /etc/kubernetes/manifests/metal3-ironic.yaml\n  content: mine\n")
		w.eventually(ctx, "first", infrav1.HostAssociatedCondition, stage.IsFalseBecause(infrav1.BootstrapDataInvalidReason,
			"bootstrap data writes /etc/kubernetes/manifests/metal3-ironic.yaml already"))
		Expect(w.hostsOf(ctx, Default, "first")).To(BeEmpty(), "a machine that cannot start requires no host")
		stage.Change(ctx, w.client, w.key("first-bootstrap"), &corev1.Secret{}, func(secret *corev1.Secret) {
			secret.Data["value"] = []byte("#cloud-config\nruncmd: []\n")
		})
		w.associated(ctx, "first")
	})

	It("writes no Secret without an Ironic endpoint", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host")
		w.start()
		w.controlPlaneMachine(ctx, "first", build.CloudConfig, "#cloud-config\n{}\n")
		host := w.getHost(ctx, Default, w.associated(ctx, "first"))
		Expect(host.Spec.UserData).To(Equal(w.reference("first-bootstrap")))
		var list corev1.SecretList
		Expect(w.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
		Expect(list.Items).To(ConsistOf(HaveField("Name", "first-bootstrap"), HaveField("Name", host.Spec.BMC.CredentialsName)))
	})
}

// withIronic returns a Metal3Cluster with an Ironic endpoint.
func withIronic() build.ObjectOption {
	return stage.With(withEndpoint)
}

func withEndpoint(infra *infrav1.Metal3Cluster) {
	infra.Spec.Ironic = &infrav1.Ironic{
		ClusterID: "3f9c1a7e",
		Endpoint: infrav1.IronicEndpoint{
			VirtualIPs: []string{"192.0.2.2"}, CIDRs: []string{"192.0.2.0/24"}, Interface: "eth0",
		},
	}
}

// keepSecret creates the Secret of the endpoint in place of the Metal3Cluster controller.
func (w *world) keepSecret(ctx context.Context) {
	GinkgoHelper()
	keeper := secrets.Keeper{Client: w.client, Random: rand.Reader, Clock: clock.RealClock{}, Hash: secrets.HashPassword}
	_, kept, err := keeper.Ensure(ctx, w.infra, clusterName, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(kept.IsDone()).To(BeTrue(), kept.Message)
}

// controlPlaneMachine creates a control-plane Machine with bootstrap data and its Metal3Machine.
func (w *world) controlPlaneMachine(ctx context.Context, name, format, data string) {
	GinkgoHelper()
	owner := build.ControlPlaneMachine(name, clusterName, build.InNamespace(w.namespace), withBootstrapConfig())
	w.create(ctx, owner)
	w.create(ctx, build.BootstrapSecret(name, format, []byte(data), build.InNamespace(w.namespace), ofCluster(clusterName)))
	w.metal3Machine(ctx, owner)
}
