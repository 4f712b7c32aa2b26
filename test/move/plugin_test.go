package move_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/plugin"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// byPlugin are the stories of moves that the plugin runs or completes.
func byPlugin(c *clusters) []story {
	return []story{
		{"completes a move whose clusterctl is killed while it deletes, and refuses to abort it", func(ctx context.Context) {
			w := c.world(ctx)
			before := w.readyFleet(ctx)
			w.loseWhileDeleting(ctx)
			w.here.mend()
			Expect(w.pivot(ctx, "abort")).To(Equal(refused))
			Expect(w.pivot(ctx, "resume")).To(Equal(done))
			w.vacated(ctx, w.here)
			w.goOnThere(ctx)
			w.unharmed(ctx, before)
			w.settled(ctx)
		}},
		{"runs a move from the preflight to the end", func(ctx context.Context) {
			w := c.world(ctx)
			before := w.readyFleet(ctx)
			for _, side := range []*side{w.here, w.there} {
				w.deployManager(ctx, side)
			}
			Expect(w.pivot(ctx, "run")).To(Equal(done))
			w.vacated(ctx, w.here)
			w.goOnThere(ctx)
			w.unharmed(ctx, before)
			w.settled(ctx)

			By("refreshing the firmware settings")
			Expect(w.stale(ctx, Default)).NotTo(BeEmpty(), "BMO has no event about them")
			Expect(w.runPlugin(ctx, "refresh")).To(Equal(done))
			// No controller restarts the Pods of the Deployment here.
			w.here.restartBMO(ctx)
			Eventually(func(g Gomega) { g.Expect(w.stale(ctx, g)).To(BeEmpty()) }).Should(Succeed())
			w.unharmed(ctx, before)
		}},
	}
}

// stale returns the names of HostFirmwareSettings and HostFirmwareComponents without a status.
func (w *world) stale(ctx context.Context, g Gomega) (names []string) {
	var settings bmov1alpha1.HostFirmwareSettingsList
	var components bmov1alpha1.HostFirmwareComponentsList
	for _, list := range []client.ObjectList{&settings, &components} {
		g.Expect(w.here.client.List(ctx, list, client.InNamespace(w.namespace))).To(Succeed())
	}
	for _, each := range settings.Items {
		if each.Status.LastUpdated == nil && len(each.Status.Conditions) == 0 {
			names = append(names, each.Name)
		}
	}
	for _, each := range components.Items {
		if each.Status.LastUpdated == nil && len(each.Status.Conditions) == 0 {
			names = append(names, each.Name)
		}
	}
	return names
}

// Exit codes of the plugin.
const done, refused = 0, 1

// pivot runs a command of the plugin that changes both sides, and returns its exit code.
func (w *world) pivot(ctx context.Context, command string) int {
	GinkgoHelper()
	flags := []string{"--to-kubeconfig=" + w.there.kubeconfig, "--timeout=5m"}
	if command == "run" || command == "resume" {
		// The Deployment that represents BMO does not name the Ironic that another story has as its endpoint.
		flags = append(flags, "--ignore=IronicDiffers")
	}
	return w.runPlugin(ctx, command, flags...)
}

// keep runs pivot keep for a held host.
func (w *world) keep(ctx context.Context, host string) {
	GinkgoHelper()
	backup := filepath.Join(GinkgoT().TempDir(), host+".yaml")
	Expect(w.runPlugin(ctx, "keep", "--host="+host, "--backup="+backup, "--timeout=5m")).To(Equal(done))
}

func (w *world) runPlugin(ctx context.Context, command string, flags ...string) int {
	GinkgoHelper()
	var output, errors bytes.Buffer
	code := plugin.Main(ctx, append([]string{
		"clusterctl-metal3", "pivot", command, "--yes", "--namespace=" + w.namespace, "--kubeconfig=" + w.here.kubeconfig,
	}, flags...), plugin.Environment{Output: &output, Errors: &errors})
	report := io.Writer(GinkgoWriter)
	if code != done {
		// Ginkgo omits the output of a spec that passes, and the spec with these stories passes.
		report = os.Stdout
	}
	fmt.Fprintf(report, "pivot %s ends with %d:\n%s%s", command, code, output.String(), errors.String())
	return code
}

// deployManager creates Deployments for a manager and a BMO that run as processes here. The preflight reads these
// Deployments, and compares the Ironic of BMO on both sides.
func (w *world) deployManager(ctx context.Context, at *side) {
	GinkgoHelper()
	w.deploy(ctx, at, w.namespace, map[string]string{clusterv1.ProviderNameLabel: "infrastructure-metal3"})
	w.deploy(ctx, at, w.namespace+"-bmo", map[string]string{"webhook": "metal3-io-v1alpha1-baremetalhost"},
		corev1.EnvVar{Name: "IRONIC_ENDPOINT", Value: w.ironicURL(ctx)})
}

// ironicURL returns the Ironic of a BMO with a Deployment: the VIP of the cluster, or an Ironic outside of the
// provider.
func (w *world) ironicURL(ctx context.Context) string {
	GinkgoHelper()
	var infras infrav1.Metal3ClusterList
	Expect(w.here.client.List(ctx, &infras, client.InNamespace(w.namespace))).To(Succeed())
	for _, infra := range infras.Items {
		if ironic := infra.Spec.Ironic; ironic != nil {
			return fmt.Sprintf("https://%s/v1/", net.JoinHostPort(ironic.Endpoint.VirtualIPs[0],
				strconv.Itoa(int(ironic.Endpoint.Port))))
		}
	}
	return "https://ironic.example.com:6385/v1/"
}

func (w *world) deploy(ctx context.Context, at *side, name string, labels map[string]string, settings ...corev1.EnvVar) {
	GinkgoHelper()
	container := corev1.Container{Name: "manager", Image: "image.example/manager", Env: settings}
	Expect(build.CreateWithStatus(ctx, at.client, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{container}},
			},
		},
		Status: appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1},
	})).To(Succeed())
}

// vacated requires that a side has none of the kinds that a move deletes.
func (w *world) vacated(ctx context.Context, at *side) {
	GinkgoHelper()
	for _, list := range leftovers() {
		Expect(at.client.List(ctx, list, client.InNamespace(w.namespace))).To(Succeed())
		Expect(objectsOf(list)).To(BeEmpty())
	}
}
