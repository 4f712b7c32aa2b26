package manifests_test

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

const ironicNamespace = "metal3-ironic-system"

// otherValues differ from all values in the checkout.
const otherValues = `PROVISIONING_IP=10.9.0.7
PROVISIONING_CIDR=10.9.0.0/22
PROVISIONING_INTERFACE=br-bmc
CLUSTER_ID=a-b
VIRTUAL_ROUTER_ID=42
DHCP_RANGE=10.9.1.1,10.9.1.200,255.255.252.0
DHCP_ROUTER=option:router,10.9.0.1
DHCP_DNS=option:dns-server,10.9.0.1
SECOND_IP=fd00:9::7
SECOND_CIDR=fd00:9::/64
ADVERTISEMENT_INTERVAL=2s
`

// swappedValues are otherValues with the IP families swapped.
var swappedValues = strings.NewReplacer(
	"PROVISIONING_IP=10.9.0.7", "PROVISIONING_IP=fd00:9::7", "SECOND_IP=fd00:9::7", "SECOND_IP=10.9.0.7",
	"PROVISIONING_CIDR=10.9.0.0/22", "PROVISIONING_CIDR=fd00:9::/64", "SECOND_CIDR=fd00:9::/64", "SECOND_CIDR=10.9.0.0/22",
).Replace(otherValues)

// otherPeers are two nodes with an address of each family.
var otherPeers = []netip.Addr{
	netip.MustParseAddr("10.9.0.10"), netip.MustParseAddr("10.9.0.11"),
	netip.MustParseAddr("fd00:9::10"), netip.MustParseAddr("fd00:9::11"),
}

func overlay(t *testing.T, folder string) []unstructured.Unstructured {
	t.Helper()
	command := exec.CommandContext(t.Context(), program(t, binaries.Tools(), "kustomize"), "build", folder)
	command.Dir = checkout(t)
	return split(t, output(t, command))
}

// withValues builds config/ironic/ironic-keepalived with other values and additional components.
func withValues(t *testing.T, values string, components ...string) []unstructured.Unstructured {
	t.Helper()
	return overlay(t, ownOverlay(t, values, "../ironic-keepalived", components...))
}

// ownOverlay writes an overlay of a copy of a folder of config/ironic with other values, and returns its folder.
func ownOverlay(t *testing.T, values, resource string, components ...string) string {
	t.Helper()
	config := t.TempDir()
	if err := os.CopyFS(config, os.DirFS(filepath.Join(checkout(t), "config"))); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(config, "ironic")
	peers, err := os.ReadFile(filepath.Join(folder, "values", "peers.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, "own"), 0o755); err != nil {
		t.Fatal(err)
	}
	content := "resources: [" + resource + "]\ncomponents:\n"
	for _, component := range components {
		content += "- ../components/" + component + "\n"
	}
	for name, content := range map[string]string{
		"values/values.env":      values,
		"values/peers.yaml":      strings.Replace(string(peers), "\npeers: []", "\npeers:\n- "+listed(otherPeers), 1),
		"own/kustomization.yaml": content,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(folder, "own")
}

// listed returns addresses as elements of a list, without the start of the first one.
func listed(addresses []netip.Addr) string {
	words := make([]string, len(addresses))
	for i, address := range addresses {
		words[i] = address.String()
	}
	return strings.Join(words, "\n- ")
}

// named returns the object of a kind and a name, and false if there is none.
func named(objects []unstructured.Unstructured, kind, name string) (unstructured.Unstructured, bool) {
	index := slices.IndexFunc(objects, func(o unstructured.Unstructured) bool {
		return o.GetKind() == kind && strings.HasPrefix(o.GetName(), name)
	})
	if index < 0 {
		return unstructured.Unstructured{}, false
	}
	return objects[index], true
}

// find returns an object with its type.
func find[T any](t *testing.T, objects []unstructured.Unstructured, kind, name string) *T {
	t.Helper()
	object, found := named(objects, kind, name)
	if !found {
		t.Fatalf("%s %s is missing", kind, name)
	}
	typed := new(T)
	decode(t, object, typed)
	return typed
}

func containerNames(containers []corev1.Container) []string {
	var names []string
	for _, container := range containers {
		names = append(names, container.Name)
	}
	return names
}

func TestIronicOverlays(t *testing.T) {
	plain := []string{"ironic", "httpd", "ramdisk-logs"}
	cases := map[string]struct {
		reason     string
		containers []string
		// terms is the flag of the gate of Ironic. Only a guard writes terms.
		terms    string
		endpoint bool
	}{
		"default": {reason: "Ironic is external"},
		"with-ironic": {
			reason: "Ironic on an address of the node", containers: plain, terms: "--until-lost=false", endpoint: true,
		},
		"with-ironic-keepalived": {
			reason: "Ironic on a VIP", containers: append(slices.Clone(plain), "guard"), terms: "--until-lost", endpoint: true,
		},
		"target": {reason: "Ironic is in static pods, with the same VIP", endpoint: true},
	}
	provider := components(t)
	scheme := newScheme(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects := overlay(t, "config/ironic/overlays/"+name)
			for _, object := range objects {
				decodeKnown(t, scheme, object)
				checkFilledIn(t, object)
			}
			for _, object := range provider {
				if same, found := named(objects, object.GetKind(), object.GetName()); !found || !cmp.Equal(object, same) {
					t.Errorf("%s: %s of the provider is missing or changed", tc.reason, title(object))
				}
			}
			if _, found := named(objects, "ConfigMap", "ironic"); found != tc.endpoint {
				t.Errorf("%s: got an endpoint for BMO: %v", tc.reason, found)
			}
			_, found := named(objects, "Deployment", "metal3-ironic")
			if found != (tc.containers != nil) {
				t.Fatalf("%s: got a Deployment of Ironic: %v", tc.reason, found)
			}
			if !found {
				return
			}
			pod := find[appsv1.Deployment](t, objects, "Deployment", "metal3-ironic").Spec.Template.Spec
			if diff := cmp.Diff(tc.containers, containerNames(pod.Containers)); diff != "" {
				t.Errorf("%s: containers: -want, +got:\n%s", tc.reason, diff)
			}
			if command := pod.Containers[0].Command; !slices.Contains(command, tc.terms) {
				t.Errorf("%s: the command of Ironic is %q, want %s", tc.reason, command, tc.terms)
			}
			checkMounts(t, pod)
		})
	}
}

// checkMounts requires that each mount of a pod names a volume of the pod. The API server refuses others.
func checkMounts(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, mount := range container.VolumeMounts {
			if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) {
				t.Errorf("container %s mounts %s, and the pod has no volume of this name", container.Name, mount.Name)
			}
		}
	}
}

// checkFilledIn requires that an object has no placeholders, and no secrets that all clusters would share.
func checkFilledIn(t *testing.T, object unstructured.Unstructured) {
	t.Helper()
	text, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, rest := range []string{"placeholder", "192.0.2.", "2001:db8:", "[\"PROVISIONING_IP\"", "SECOND_IP", "DHCP_RANGE\":"} {
		if strings.Contains(string(text), rest) {
			t.Errorf("%s still has %q", title(object), rest)
		}
	}
	if object.GetKind() == "Secret" || object.GetName() == "ironic-values" || object.GetKind() == "Peers" {
		t.Errorf("%s must not be installed", title(object))
	}
}

// TestIronicComponentsFit combines every component with the overlays that support it, in every order that does not
// put ipv6 or dual-stack-ipv6 before others.
func TestIronicComponentsFit(t *testing.T) {
	scheme := newScheme(t)
	for _, resource := range []string{"../ironic", "../ironic-keepalived", "../endpoint", "../overlays/target"} {
		for _, components := range [][]string{
			{"ipv6"}, {"unicast", "advertisement-interval", "dual-stack-ipv6"},
			{"dual-stack", "advertisement-interval", "unicast", "dhcp"}, {"dhcp", "unicast", "dual-stack"},
			{"trusted-ca", "dhcp", "bmc-ca"},
		} {
			t.Run(resource+" "+strings.Join(components, " "), func(t *testing.T) {
				for _, object := range overlay(t, ownOverlay(t, otherValues, resource, components...)) {
					decodeKnown(t, scheme, object)
					checkFilledIn(t, object)
				}
			})
		}
	}
}

// TestIronicUnicastRequiresPeers requires an error for an empty list of peers.
func TestIronicUnicastRequiresPeers(t *testing.T) {
	folder := ownOverlay(t, otherValues, "../ironic-keepalived", "unicast")
	source, err := os.ReadFile(filepath.Join(checkout(t), "config/ironic/values/peers.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "../values/peers.yaml"), source, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program(t, binaries.Tools(), "kustomize"), "build", folder)
	if printed, err := command.CombinedOutput(); err == nil || !strings.Contains(string(printed), "`peers` is missing") {
		t.Errorf("without peers kustomize returns %v:\n%s", err, printed)
	}
}

// TestIronicDeploymentIsRendered compares the output of kustomize with the output of the renderer of the static pods.
func TestIronicDeploymentIsRendered(t *testing.T) {
	four, six := netip.MustParseAddr("10.9.0.7"), netip.MustParseAddr("fd00:9::7")
	for name, tc := range map[string]struct {
		values, component, id, device string
		addresses                     []netip.Addr
		settings                      ironic.Settings
	}{
		"as in the checkout": {id: "metal3", device: "provisioning", addresses: []netip.Addr{netip.MustParseAddr("172.22.0.2")}},
		"changed":            {values: otherValues, component: "unicast", id: "a-b", device: "br-bmc", addresses: []netip.Addr{four}},
		"dual stack":         {values: otherValues, component: "dual-stack", id: "a-b", device: "br-bmc", addresses: []netip.Addr{four, six}},
		"metrics of the guard": {
			values: otherValues, component: "guard-metrics", id: "a-b", device: "br-bmc", addresses: []netip.Addr{four},
			settings: ironic.Settings{GuardAddress: netip.IPv4Unspecified()},
		},
		"CA of BMCs": {
			values: otherValues, component: "bmc-ca", id: "a-b", device: "br-bmc", addresses: []netip.Addr{four},
			settings: ironic.Settings{BMCAuthorities: true},
		},
		"CA of image servers": {
			values: otherValues, component: "trusted-ca", id: "a-b", device: "br-bmc", addresses: []netip.Addr{four},
			settings: ironic.Settings{TrustedAuthorities: true},
		},
		"IPv6 first": {values: swappedValues, component: "dual-stack-ipv6", id: "a-b", device: "br-bmc", addresses: []netip.Addr{six, four}},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []unstructured.Unstructured
			if tc.values == "" {
				objects = overlay(t, "config/ironic/overlays/with-ironic-keepalived")
			} else {
				objects = withValues(t, tc.values, tc.component)
			}
			got := find[appsv1.Deployment](t, objects, "Deployment", "metal3-ironic")
			want, err := ironic.Deployment(ironic.Config{
				ClusterID: tc.id, VirtualIPs: tc.addresses, Interface: tc.device,
				Ports:  ironic.Ports{API: 6385, Image: 6180, ImageTLS: 6183},
				Images: ironic.Images{Guard: "ghcr.io/metal3-pivot/keepalived-guard:dev"}, Settings: tc.settings,
			}, ironic.Management{Name: "metal3-ironic", Namespace: ironicNamespace, Secret: "files"})
			if err != nil {
				t.Fatal(err)
			}
			checkVolumes(t, got, want)
			for _, deployment := range []*appsv1.Deployment{got, want} {
				pod := &deployment.Spec.Template.Spec
				pod.Volumes = nil
				slices.SortFunc(pod.Containers, func(a, b corev1.Container) int { return strings.Compare(a.Name, b.Name) })
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Deployment: -want, +got:\n%s", diff)
			}
		})
	}
}

// checkVolumes requires the volumes of the renderer, with the files of the node from several objects instead of one
// Secret.
func checkVolumes(t *testing.T, got, want *appsv1.Deployment) {
	t.Helper()
	volumes := func(deployment *appsv1.Deployment) map[string]corev1.VolumeSource {
		found := map[string]corev1.VolumeSource{}
		for _, volume := range deployment.Spec.Template.Spec.Volumes {
			found[volume.Name] = volume.VolumeSource
		}
		if len(found) != len(deployment.Spec.Template.Spec.Volumes) {
			t.Errorf("two volumes have the same name: %v", deployment.Spec.Template.Spec.Volumes)
		}
		return found
	}
	wanted, given := volumes(want), volumes(got)
	files := map[string]corev1.KeyToPath{}
	from := map[string]string{}
	for _, source := range given["node"].Projected.Sources {
		items, name := source.Secret.DeepCopy(), ""
		if source.ConfigMap != nil {
			items = &corev1.SecretProjection{Items: source.ConfigMap.Items}
			name = "ConfigMap"
		} else {
			name = items.Name
		}
		for _, item := range items.Items {
			files[item.Path], from[item.Path] = item, name
		}
	}
	wantFiles := map[string]corev1.KeyToPath{}
	for _, item := range wanted["node"].Secret.Items {
		wantFiles[item.Path] = item
	}
	if diff := cmp.Diff(wantFiles, files); diff != "" {
		t.Errorf("files of the node: -want, +got:\n%s", diff)
	}
	wantFrom := map[string]string{
		"guard.json": "ConfigMap", "auth/htpasswd": "ironic-credentials", "tls/tls.crt": "ironic-tls", "tls/tls.key": "ironic-tls", "tls/ca.crt": "ironic-tls",
	}
	for name := range wantFiles {
		if _, known := wantFrom[name]; !known {
			wantFrom[name] = "ConfigMap"
		}
	}
	if diff := cmp.Diff(wantFrom, from); diff != "" {
		t.Errorf("origin of the files: -want, +got:\n%s", diff)
	}
	delete(wanted, "node")
	delete(given, "node")
	if diff := cmp.Diff(wanted, given); diff != "" {
		t.Errorf("volumes: -want, +got:\n%s", diff)
	}
}

// wantSettings returns the settings of the guard of the management cluster with one address.
func wantSettings(id, device string, address netip.Prefix, network string, routerID int) vip.NodeSettings {
	const files = ironic.NodeDirectory + "/"
	return vip.NodeSettings{
		ClusterID: id, Role: vip.Management, Interface: device,
		VirtualIPs: []vip.Address{{
			Address: address.Addr(), Prefix: address.Bits(), Network: netip.MustParsePrefix(network),
		}},
		VirtualRouterID: routerID, Mode: vip.Multicast,
		AdvertisementInterval: vip.Duration(keepalived.DefaultAdvertisementInterval),
		TakeoverWithin:        vip.Duration(keepalived.DefaultTakeoverWithin),
		Takeover:              vip.AfterMove, Standby: vip.Warm,
		Ports: vip.Ports{API: 6385, Image: 6180, ImageTLS: 6183},
		Files: vip.Files{
			Socket:    ironic.SharedDirectory + "/" + ironic.SocketFile,
			Authority: files + "tls/ca.crt", State: ironic.StateDirectory,
		},
		Images:          []string{ironic.KernelFile, ironic.RamdiskFile},
		ArmedAnnotation: vip.Annotation{Name: ironic.ArmedAnnotation, Value: ironic.ArmedValue},
	}
}

func TestIronicGuardGetsItsSettings(t *testing.T) {
	routerID, err := vip.RouterID("metal3")
	if err != nil {
		t.Fatal(err)
	}
	four := wantSettings("a-b", "br-bmc", netip.MustParsePrefix("10.9.0.7/22"), "10.9.0.0/22", 42)
	six := wantSettings("a-b", "br-bmc", netip.MustParsePrefix("fd00:9::7/128"), "fd00:9::/64", 42)
	dual, swapped := four, six
	dual.VirtualIPs, swapped.VirtualIPs = slices.Concat(four.VirtualIPs, six.VirtualIPs), slices.Concat(six.VirtualIPs, four.VirtualIPs)
	dual.Mode, dual.Peers, dual.AdvertisementInterval = vip.Unicast, otherPeers, vip.Duration(2*time.Second)
	const endpoint4, endpoint6 = "https://10.9.0.7:6385/v1/", "https://[fd00:9::7]:6385/v1/"
	cases := map[string]struct {
		reason   string
		objects  []unstructured.Unstructured
		want     vip.NodeSettings
		endpoint string
	}{
		"Checkout": {
			reason:   "the router ID in the checkout is the default for the clusterID",
			objects:  overlay(t, "config/ironic/overlays/with-ironic-keepalived"),
			want:     wantSettings("metal3", "provisioning", netip.MustParsePrefix("172.22.0.2/24"), "172.22.0.0/24", routerID),
			endpoint: "https://172.22.0.2:6385/v1/",
		},
		"Changed": {
			reason: "all values are set", objects: withValues(t, otherValues), want: four, endpoint: endpoint4,
		},
		"IPv6": {
			reason:  "an IPv6 address has prefix length 128, and brackets in URLs",
			objects: withValues(t, swappedValues, "ipv6"), want: six, endpoint: endpoint6,
		},
		"DualStack": {
			reason:  "the first address stays in URLs, and the components set the guard",
			objects: withValues(t, otherValues, "unicast", "advertisement-interval", "dual-stack"), want: dual, endpoint: endpoint4,
		},
		"DualStackIPv6": {
			reason:  "a second IPv4 address keeps the prefix of its network",
			objects: withValues(t, swappedValues, "dual-stack-ipv6"), want: swapped, endpoint: endpoint6,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			settings := find[corev1.ConfigMap](t, tc.objects, "ConfigMap", "ironic-guard")
			got, err := vip.Decode([]byte(settings.Data["guard.json"]))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
				cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
				t.Errorf("%s: settings: -want, +got:\n%s", tc.reason, diff)
			}
			operator := find[corev1.ConfigMap](t, tc.objects, "ConfigMap", "ironic")
			images := strings.Replace(strings.TrimSuffix(tc.endpoint, "6385/v1/"), "https", "http", 1) + "6180/images/"
			want := map[string]string{
				"IRONIC_ENDPOINT":    tc.endpoint,
				"DEPLOY_KERNEL_URL":  images + ironic.KernelFile,
				"DEPLOY_RAMDISK_URL": images + ironic.RamdiskFile,
			}
			if diff := cmp.Diff(want, operator.Data); diff != "" {
				t.Errorf("%s: settings of BMO: -want, +got:\n%s", tc.reason, diff)
			}
			checkCertificate(t, tc.objects, tc.want.VirtualIPs)
		})
	}
}

func checkCertificate(t *testing.T, objects []unstructured.Unstructured, addresses []vip.Address) {
	t.Helper()
	certificate, _ := named(objects, "Certificate", "ironic-tls")
	got, _, err := unstructured.NestedStringSlice(certificate.Object, "spec", "ipAddresses")
	var want []string
	for _, address := range addresses {
		want = append(want, address.Address.String())
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the certificate is for %v, want %s: %v", got, want, err)
	}
}

// TestIronicGuardRefusesInvalidNumbers requires that the guard refuses settings with an invalid number.
func TestIronicGuardRefusesInvalidNumbers(t *testing.T) {
	for _, wrong := range []string{
		strings.Replace(otherValues, "VIRTUAL_ROUTER_ID=42", "VIRTUAL_ROUTER_ID=fifty", 1),
		strings.Replace(otherValues, "10.9.0.0/22", "10.9.0.0/x", 1),
	} {
		settings := find[corev1.ConfigMap](t, withValues(t, wrong), "ConfigMap", "ironic-guard").Data["guard.json"]
		if _, err := vip.Decode([]byte(settings)); err == nil {
			t.Errorf("the guard accepts %s", settings)
		}
	}
}
