package manifests_test

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// ironicPod returns the pod with all components.
func ironicPod(t *testing.T, values string) corev1.PodSpec {
	t.Helper()
	return find[appsv1.Deployment](t, withValues(t, values, "dhcp"), "Deployment", "metal3-ironic").Spec.Template.Spec
}

// TestIronicDHCPIsThatOfNodes compares the options of dnsmasq with the file of a control-plane node.
func TestIronicDHCPIsThatOfNodes(t *testing.T) {
	pod := ironicPod(t, otherValues)
	index := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == "dnsmasq" })
	if index < 0 {
		t.Fatal("container dnsmasq is missing")
	}
	container := pod.Containers[index]
	var pairs []string
	for _, variable := range container.Env {
		pairs = append(pairs, "$("+variable.Name+")", variable.Value)
	}
	fill := strings.NewReplacer(pairs...)
	var got []string
	for _, argument := range container.Command {
		got = append(got, fill.Replace(argument))
	}

	gateway := netip.MustParseAddr("10.9.0.1")
	content, err := ironic.DNSMasq(ironic.Config{
		ClusterID: "a-b", VirtualIPs: []netip.Addr{netip.MustParseAddr("10.9.0.7")}, Interface: "br-bmc",
		Ports:  ironic.Ports{API: 6385, Image: 6180, ImageTLS: 6183},
		Images: ironic.Images{Guard: "guard"},
		DHCP: &ironic.DHCP{
			Range: ironic.Range{
				Begin: netip.MustParseAddr("10.9.1.1"), End: netip.MustParseAddr("10.9.1.200"),
				Network: netip.MustParsePrefix("10.9.0.0/22"), Gateway: gateway,
			},
			DNS: []netip.Addr{gateway},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"/tools/guard", "gate", "--while-vip", "--folder=/shared/custom_ipxe_firmware", "--folder=/tftpboot",
		"--interface=br-bmc", "--addresses=10.9.0.7", "--", "/usr/sbin/dnsmasq", "--no-daemon", "--tftp-root={folder}",
		"--conf-file=/dev/null",
	}
	for line := range strings.Lines(string(content)) {
		want = append(want, "--"+strings.TrimSpace(line))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("command of dnsmasq: -want, +got:\n%s", diff)
	}
	options := got[slices.Index(got, "--no-daemon")+1:]
	checkWithDNSMasq(t, options)
	for i, mount := range container.VolumeMounts {
		if mount.Name == "node" || mount.Name == "state" && mount.SubPath == "" {
			t.Errorf("volumeMounts[%d] shows credentials or the state of the guard to dnsmasq", i)
		}
	}
}

func checkWithDNSMasq(t *testing.T, options []string) {
	t.Helper()
	path, err := exec.LookPath("dnsmasq")
	if err != nil {
		t.Log("dnsmasq is not installed, so its options were not checked")
		return
	}
	command := exec.CommandContext(t.Context(), path, append([]string{"--test"}, options...)...)
	if printed, err := command.CombinedOutput(); err != nil {
		t.Errorf("dnsmasq refuses its options: %v\n%s", err, printed)
	}
}

// TestIronicPodSecurity requires that all containers are restricted, with the listed exceptions.
func TestIronicPodSecurity(t *testing.T) {
	exceptions := map[string][]corev1.Capability{
		"prepare": {"CHOWN", "DAC_OVERRIDE", "FOWNER"},
		"guard":   {"NET_ADMIN", "NET_BROADCAST", "NET_RAW"},
		"dnsmasq": {"NET_ADMIN", "NET_BIND_SERVICE", "NET_RAW"},
	}
	pod := ironicPod(t, otherValues)
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		limits := container.SecurityContext
		allowed, root := exceptions[container.Name]
		want := &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: allowed},
		}
		got := &corev1.SecurityContext{
			AllowPrivilegeEscalation: limits.AllowPrivilegeEscalation, Capabilities: limits.Capabilities,
			Privileged: limits.Privileged, ProcMount: limits.ProcMount, SeccompProfile: limits.SeccompProfile,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("container %s: -want, +got:\n%s", container.Name, diff)
		}
		if nonRoot := limits.RunAsNonRoot != nil && *limits.RunAsNonRoot && *limits.RunAsUser != 0; nonRoot == root {
			t.Errorf("container %s is not root: %v", container.Name, nonRoot)
		}
		delete(exceptions, container.Name)
	}
	if len(exceptions) > 0 {
		t.Errorf("unused exceptions: %v", exceptions)
	}
}

// TestIronicPodMountsLittleOfItsNode requires that the pod uses only the network and two folders of the node.
func TestIronicPodMountsLittleOfItsNode(t *testing.T) {
	pod := ironicPod(t, otherValues)
	profile := pod.SecurityContext.SeccompProfile
	if profile == nil || profile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("seccomp profile is %v, want RuntimeDefault", profile)
	}
	if pod.HostPID || pod.HostIPC || pod.ServiceAccountName != "" || *pod.AutomountServiceAccountToken {
		t.Error("the pod has access to processes of the node, or a service account")
	}
	var folders []string
	for _, volume := range pod.Volumes {
		if volume.HostPath != nil {
			folders = append(folders, volume.HostPath.Path)
		}
	}
	slices.Sort(folders)
	if diff := cmp.Diff([]string{ironic.DataDirectory, ironic.CacheDirectory, ironic.SharedDirectory}, folders); diff != "" {
		t.Errorf("folders of the node: -want, +got:\n%s", diff)
	}
}

// TestIronicNamespaceAdmitsThePod requires the pod security level for the host network.
func TestIronicNamespaceAdmitsThePod(t *testing.T) {
	objects := overlay(t, "config/ironic/overlays/with-ironic-keepalived")
	space := find[corev1.Namespace](t, objects, "Namespace", ironicNamespace)
	if level := space.Labels["pod-security.kubernetes.io/enforce"]; level != "privileged" {
		t.Errorf("the namespace enforces %q", level)
	}
	deployment := find[appsv1.Deployment](t, objects, "Deployment", "metal3-ironic")
	if deployment.Namespace != space.Name || !deployment.Spec.Template.Spec.HostNetwork {
		t.Errorf("the Deployment is in %s", deployment.Namespace)
	}
}

// TestIronicImagesAreReplaced requires that the list of images in an overlay names all images, and replaces them.
func TestIronicImagesAreReplaced(t *testing.T) {
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(checkout(t), "config"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "ironic", "overlays", "with-ironic-keepalived", "kustomization.yaml")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, list, _ := strings.Cut(string(content), "\nimages:\n")
	var replaced strings.Builder
	for line := range strings.Lines(list) {
		if strings.HasPrefix(line, "  newTag:") {
			line = "  newName: registry.example/mirrored\n  newTag: mine\n"
		}
		replaced.WriteString(line)
	}
	if err := os.WriteFile(path, []byte(before+"\nimages:\n"+replaced.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	pod := find[appsv1.Deployment](t, overlay(t, filepath.Dir(path)), "Deployment", "metal3-ironic").Spec.Template.Spec
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		if container.Image != "registry.example/mirrored:mine" {
			t.Errorf("container %s still has image %s", container.Name, container.Image)
		}
	}
}

// TestTagsAreSetInListsOfImages requires that the list of images in a folder names all images of this project, which
// have a development tag in a checkout.
func TestTagsAreSetInListsOfImages(t *testing.T) {
	for _, name := range []string{
		"ironic", "ironic-keepalived", "overlays/default", "overlays/target", "overlays/with-ironic",
		"overlays/with-ironic-keepalived",
	} {
		t.Run(name, func(t *testing.T) {
			config := t.TempDir()
			if err := os.CopyFS(config, os.DirFS(filepath.Join(checkout(t), "config"))); err != nil {
				t.Fatal(err)
			}
			folder := filepath.Join(config, "ironic", name)
			path := filepath.Join(folder, "kustomization.yaml")
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			released := strings.ReplaceAll(string(content), "newTag: dev\n", "newTag: v9.9.9\n")
			if err := os.WriteFile(path, []byte(released), 0o600); err != nil {
				t.Fatal(err)
			}
			images := imagesOf(t, overlay(t, folder), "ghcr.io/metal3-pivot/")
			if len(images) == 0 {
				t.Error("the folder has no image of this project")
			}
			for _, image := range images {
				if !strings.HasSuffix(image, ":v9.9.9") {
					t.Errorf("the list does not name %s", image)
				}
			}
		})
	}
}

// imagesOf returns the images of all Deployments that begin with a registry.
func imagesOf(t *testing.T, objects []unstructured.Unstructured, registry string) []string {
	t.Helper()
	var found []string
	for _, object := range ofKind(objects, "Deployment") {
		deployment := &appsv1.Deployment{}
		decode(t, object, deployment)
		pod := deployment.Spec.Template.Spec
		for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
			if strings.HasPrefix(container.Image, registry) {
				found = append(found, container.Image)
			}
		}
	}
	return found
}

// TestIronicOverlayIsFilledInByClusterctl requires that clusterctl substitutes the variables of the provider and
// keeps those of Kubernetes.
func TestIronicOverlayIsFilledInByClusterctl(t *testing.T) {
	command := exec.CommandContext(t.Context(), program(t, binaries.Tools(), "kustomize"), "build",
		"config/ironic/overlays/with-ironic-keepalived")
	command.Dir = checkout(t)
	file := filepath.Join(t.TempDir(), "built.yaml")
	if err := os.WriteFile(file, output(t, command), 0o600); err != nil {
		t.Fatal(err)
	}
	fill := exec.CommandContext(t.Context(), program(t, binaries.ClusterAPI(), "clusterctl"), "generate", "yaml", "--from", file)
	home := t.TempDir()
	fill.Env = []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "CLUSTERCTL_DISABLE_VERSIONCHECK=1"}
	filled := output(t, fill)
	if strings.Contains(string(filled), "${") {
		t.Error("variables remain")
	}
	objects := split(t, filled)
	provider := find[appsv1.Deployment](t, objects, "Deployment", "capm3-controller-manager").Spec.Template.Spec
	if arguments := provider.Containers[0].Args; !slices.Contains(arguments, "--diagnostics-address=:8443") {
		t.Errorf("arguments of the manager are %q", arguments)
	}
	pod := find[appsv1.Deployment](t, objects, "Deployment", "metal3-ironic").Spec.Template.Spec
	if value := pod.Containers[0].Env[1].Value; value != "metal3-$(NODE_NAME)" {
		t.Errorf("name of the conductor is %q", value)
	}
}
