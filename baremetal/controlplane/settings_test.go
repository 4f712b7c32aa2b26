package controlplane_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/controlplane"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
)

// TestOperatorSettingsReachTheFiles expects each setting in the files of a node, and no setting by default.
func TestOperatorSettingsReachTheFiles(t *testing.T) {
	const pod, dnsmasq = "/etc/kubernetes/manifests/metal3-ironic.yaml", "/etc/kubernetes/metal3-ironic/dnsmasq.conf"
	const guard = "/etc/kubernetes/metal3-ironic/guard.json"
	on := true
	for name, c := range map[string]struct {
		change func(*infrav1.Ironic)
		file   string
		want   []string
	}{
		"extra configuration": {
			change: func(i *infrav1.Ironic) {
				i.ExtraConfig = []infrav1.IronicOption{{Name: "debug", Value: "false"}, {Group: "agent", Name: "x", Value: "$(y)"}}
			},
			file: pod, want: []string{"name: OS_DEFAULT__DEBUG\n      value: \"false\"", "name: OS_AGENT__X\n      value: $$(y)"},
		},
		"external address": {
			change: func(i *infrav1.Ironic) { i.Endpoint.ExternalIP = "203.0.113.7" },
			file:   pod, want: []string{"name: IRONIC_EXTERNAL_IP\n      value: 203.0.113.7"},
		},
		"external IPv6 address": {
			change: func(i *infrav1.Ironic) { i.Endpoint.ExternalIP = "fd00::5" },
			file:   pod, want: []string{"name: IRONIC_EXTERNAL_IP\n      value: '[fd00::5]'"},
		},
		"external URLs": {
			change: func(i *infrav1.Ironic) {
				i.Endpoint.ExternalCallbackURL, i.Endpoint.ImageServerExternalURL = "https://a.example", "https://b.example"
			},
			file: pod, want: []string{
				"name: IRONIC_EXTERNAL_CALLBACK_URL\n      value: https://a.example",
				"name: IRONIC_EXTERNAL_HTTP_URL\n      value: https://b.example",
			},
		},
		"proxy": {
			change: func(i *infrav1.Ironic) {
				i.Proxy = infrav1.IronicProxy{HTTPSProxy: "http://proxy.example", NoProxy: []string{"10.0.0.0/8"}}
			},
			file: pod, want: []string{
				"name: https_proxy\n      value: http://proxy.example", "name: HTTPS_PROXY\n      value: http://proxy.example",
				"name: no_proxy\n      value: localhost,127.0.0.1,::1,172.22.0.2,172.22.0.0/24,10.0.0.0/8",
			},
		},
		"proxy and hosts behind a relay": {
			change: func(i *infrav1.Ironic) {
				i.Proxy = infrav1.IronicProxy{HTTPProxy: "http://proxy.example", NoProxy: []string{"10.0.0.0/8"}}
				i.DHCP = &infrav1.IronicDHCP{
					RangeBegin: "172.22.0.100", RangeEnd: "172.22.0.200", ExtraRanges: []infrav1.IronicDHCPRange{
						{NetworkCIDR: "172.30.0.5/24", RangeBegin: "172.30.0.10", RangeEnd: "172.30.0.20", GatewayAddress: "172.30.0.1"},
					},
				}
			},
			file: pod, want: []string{
				"name: no_proxy\n      value: localhost,127.0.0.1,::1,172.22.0.2,172.30.0.0/24,172.22.0.0/24,10.0.0.0/8\n",
			},
		},
		"CA of BMCs": {
			change: func(i *infrav1.Ironic) { i.TLS.BMCCABundle = " CA of BMCs " },
			file:   "/etc/kubernetes/metal3-ironic/tls/bmc-ca.crt", want: []string{"CA of BMCs\n"},
		},
		"copy of the CA of BMCs": {
			change: func(i *infrav1.Ironic) { i.TLS.BMCCABundle = "CA of BMCs" },
			file:   pod, want: []string{
				"--copy=/etc/kubernetes/metal3-ironic/tls/bmc-ca.crt:/private/certs/ca/bmc/ca.crt",
			},
		},
		"CA of image servers": {
			change: func(i *infrav1.Ironic) { i.TLS.TrustedCABundle = "CA of image servers" },
			file:   "/etc/kubernetes/metal3-ironic/tls/trusted-ca.crt", want: []string{"CA of image servers\n"},
		},
		"copy of the CA of image servers": {
			change: func(i *infrav1.Ironic) { i.TLS.TrustedCABundle = "CA of image servers" },
			file:   pod, want: []string{
				"--copy=/etc/kubernetes/metal3-ironic/tls/trusted-ca.crt:/private/certs/ca/trusted/tls.crt",
				"name: WEBSERVER_CACERT_FILE\n      value: /certs/ca/trusted/tls.crt",
				"name: CURL_CA_BUNDLE\n      value: /certs/ca/trusted/tls.crt",
			},
		},
		"inspection": {
			change: func(i *infrav1.Ironic) {
				i.Inspection = infrav1.IronicInspection{Collectors: []string{"default", "pci-devices"}, VLANInterfaces: []string{"eth0.7"}}
			},
			file: pod, want: []string{
				"name: IRONIC_IPA_COLLECTORS\n      value: default,pci-devices",
				"name: IRONIC_ENABLE_VLAN_INTERFACES\n      value: eth0.7",
			},
		},
		"exporter": {
			change: func(i *infrav1.Ironic) {
				i.PrometheusExporter = infrav1.IronicPrometheusExporter{
					Enabled: &on, BindAddress: "::", SensorCollectionInterval: &metav1.Duration{Duration: 5 * time.Minute},
				}
			},
			file: pod, want: []string{
				"- /bin/runironic-exporter", "name: SEND_SENSOR_DATA\n      value: \"true\"",
				"name: OS_SENSOR_DATA__INTERVAL\n      value: \"300\"", "name: FLASK_RUN_HOST\n      value: '[::]'",
				"name: FLASK_RUN_PORT\n      value: \"9608\"",
			},
		},
		"metrics of the guard": {
			change: func(i *infrav1.Ironic) { i.GuardMetrics.BindAddress = "::" },
			file:   "/etc/kubernetes/manifests/metal3-vip.yaml", want: []string{"- --listen=[::]:9650\n"},
		},
		"ramdisk": {
			change: func(i *infrav1.Ironic) {
				i.Ramdisk = infrav1.IronicRamdisk{
					Branch: "stable-2026.1", ExtraKernelParams: "quiet", SSHKey: "ssh-ed25519 AAAA", Checksums: &infrav1.IronicRamdiskChecksums{
						Kernel: strings.Repeat("0a", 32), Initramfs: strings.Repeat("0b", 32),
					},
				}
			},
			file: pod, want: []string{
				"name: IPA_BRANCH\n      value: stable-2026.1", "name: IRONIC_KERNEL_PARAMS\n      value: quiet",
				"name: IRONIC_RAMDISK_SSH_KEY\n      value: ssh-ed25519 AAAA",
				"- --sha256=" + strings.Repeat("0a", 32) + "\n    - --sha256=" + strings.Repeat("0b", 32) + "\n",
			},
		},
		"ramdisk of another architecture": {
			change: func(i *infrav1.Ironic) {
				i.Ramdisk = infrav1.IronicRamdisk{BaseURL: "https://images.example", Architectures: []infrav1.IronicRamdiskArchitecture{{
					Architecture: "aarch64", Flavor: "debian-arm64", Checksums: &infrav1.IronicRamdiskChecksums{
						Kernel: strings.Repeat("0a", 32), Initramfs: strings.Repeat("0b", 32),
					},
				}}}
			},
			file: pod, want: []string{
				"- --image=/shared/html/images/ironic-python-agent_aarch64.kernel\n",
				"- --sha256=" + strings.Repeat("0a", 32) + "\n    - --sha256=" + strings.Repeat("0b", 32) + "\n",
				"name: IPA_BASEURI\n      value: https://images.example\n    - name: IPA_ARCH\n      value: aarch64\n" +
					"    - name: IPA_FLAVOR\n      value: debian-arm64\n",
				"name: download-aarch64\n",
			},
		},
		"MAC addresses": {
			change: func(i *infrav1.Ironic) {
				i.Endpoint.Interface, i.Endpoint.MACAddresses = "", []string{"52:54:00:00:00:0B", "52:54:00:00:00:0a", "52:54:00:00:00:0b"}
			},
			file: guard, want: []string{"\"macAddresses\": [\n    \"52:54:00:00:00:0a\",\n    \"52:54:00:00:00:0b\"\n  ],\n"},
		},
		"CIDR": {
			change: func(i *infrav1.Ironic) { i.Endpoint.Interface, i.Endpoint.InterfaceCIDR = "", "10.1.2.3/8" },
			file:   guard, want: []string{"\"interfaceCIDR\": \"10.0.0.0/8\",\n"},
		},
		"interface that the guard chooses": {
			change: func(i *infrav1.Ironic) { i.Endpoint.Interface, i.Endpoint.InterfaceCIDR = "", "10.1.2.3/8" },
			file:   pod, want: []string{"- --interface-file=/run/metal3-ironic/interface\n"},
		},
		"DHCP": {
			change: func(i *infrav1.Ironic) {
				i.DHCP = &infrav1.IronicDHCP{
					RangeBegin: "172.22.0.100", RangeEnd: "172.22.0.200", Hosts: []string{"52:54:00:00:00:01,172.22.0.150"},
					Ignore: []string{"tag:!known"}, ExtraRanges: []infrav1.IronicDHCPRange{
						{NetworkCIDR: "172.30.0.5/24", RangeBegin: "172.30.0.10", RangeEnd: "172.30.0.20", GatewayAddress: "172.30.0.1"},
						{NetworkCIDR: "172.22.0.0/24", RangeBegin: "172.22.0.210", RangeEnd: "172.22.0.220"},
					},
				}
			},
			file: dnsmasq, want: []string{
				"\ndhcp-host=52:54:00:00:00:01,172.22.0.150\n", "\ndhcp-ignore=tag:!known\n",
				"\ndhcp-range=set:range1,172.30.0.10,172.30.0.20,255.255.255.0,900\ndhcp-option=tag:range1,option:router,172.30.0.1\n",
				"\ndhcp-range=set:range2,172.22.0.210,172.22.0.220,255.255.255.0,900\ndhcp-option=tag:range2,option:router\n",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			plain, tuned := least(t), least(t)
			c.change(&tuned.Ironic)
			before, after := contentOf(t, plain, c.file), contentOf(t, tuned, c.file)
			for _, want := range c.want {
				if !strings.Contains(after, want) {
					t.Errorf("%s lacks %q:\n%s", c.file, want, after)
				}
				if strings.Contains(before, want) {
					t.Errorf("%s has %q without the setting", c.file, want)
				}
			}
		})
	}
}

// TestOverridesReachEveryContainer expects that each container in the schema gets its own resources, on both sides, and
// that the schema has all containers except for prepare.
func TestOverridesReachEveryContainer(t *testing.T) {
	endpoint := full(t)
	endpoint.Ironic.PrometheusExporter.Enabled = new(true)
	endpoint.Ironic.Ramdisk.DisableDownloader = nil
	want := map[string]corev1.ResourceRequirements{}
	for i, name := range overridable(t) {
		cpu, memory := fmt.Sprint(i+1), fmt.Sprintf("%dGi", i+1)
		endpoint.Ironic.Overrides.Containers = append(endpoint.Ironic.Overrides.Containers, infrav1.IronicContainerOverride{
			Name: name, Resources: infrav1.IronicResources{
				Requests: infrav1.IronicResourceList{CPU: infrav1.Quantity(cpu)},
				Limits:   infrav1.IronicResourceList{Memory: infrav1.Quantity(memory)},
			},
		})
		want[name] = corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)},
		}
	}
	deployment, _, err := controlplane.Management(endpoint, ironic.Management{Name: "a", Namespace: "b", Secret: "c"})
	if err != nil {
		t.Fatal(err)
	}
	for side, specs := range map[string][]corev1.PodSpec{
		"nodes": podsOf(t, endpoint), "management": {deployment.Spec.Template.Spec},
	} {
		got := map[string]corev1.ResourceRequirements{}
		for _, spec := range specs {
			for _, container := range append(spec.InitContainers, spec.Containers...) {
				if container.Name == "prepare" {
					continue
				}
				// The provider requests memory that was not overridden.
				delete(container.Resources.Requests, corev1.ResourceMemory)
				got[container.Name] = container.Resources
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("resources of the %s (-want +got):\n%s", side, diff)
		}
	}
}

// podsOf returns the static pods of a node.
func podsOf(t *testing.T, endpoint controlplane.Endpoint) []corev1.PodSpec {
	t.Helper()
	files, err := controlplane.Files(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	var specs []corev1.PodSpec
	for _, file := range files {
		if filepath.Ext(file.Path) == ".yaml" {
			var pod corev1.Pod
			if err := yaml.UnmarshalStrict(file.Content, &pod); err != nil {
				t.Fatal(err)
			}
			specs = append(specs, pod.Spec)
		}
	}
	return specs
}

// overridable returns the containers that users can override.
func overridable(t *testing.T) []string {
	t.Helper()
	source, err := os.ReadFile("../../api/v1beta2/ironic_settings_types.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`Enum=(guard;\S+)`).FindSubmatch(source)
	if found == nil {
		t.Fatal("the API has no list of containers")
	}
	return strings.Split(string(found[1]), ";")
}

// TestVirtualMediaWithoutTLS expects no certificate for virtual media, so that the image serves HTTP.
func TestVirtualMediaWithoutTLS(t *testing.T) {
	off := true
	plain := least(t)
	plain.Ironic.TLS.DisableVirtualMediaTLS = &off
	for want, endpoint := range map[bool]controlplane.Endpoint{true: least(t), false: plain} {
		content := contentOf(t, endpoint, "/etc/kubernetes/manifests/metal3-ironic.yaml")
		if got := strings.Contains(content, "/certs/vmedia/tls.crt"); got != want {
			t.Errorf("certificate for virtual media: got %t, want %t", got, want)
		}
	}
}

// contentOf returns the content of a file of a node. Empty if the node has no such file.
func contentOf(t *testing.T, endpoint controlplane.Endpoint, path string) string {
	t.Helper()
	files, err := controlplane.Files(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file.Path == path {
			return string(file.Content)
		}
	}
	return ""
}
