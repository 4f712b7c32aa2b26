package main

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/bootdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/controlplane"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/member"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// same compares addresses by their values.
var same = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

// family is a combination of IP families: its component, its values, and the peers of two nodes.
type family struct {
	component, peers string
	changed          []string
}

func families() []family {
	const four, six = "172.22.0.21, 172.22.0.10", "'fd00:172:22::10', 'fd00:172:22::21'"
	return []family{
		{peers: "[" + four + "]"},
		{component: onlyIPv6, peers: "[" + six + "]", changed: swapped},
		{component: ipv6Next, peers: "[" + six + ", " + four + "]"},
		{component: ipv6First, peers: "[" + four + ", " + six + "]", changed: swapped},
	}
}

// TestOneGroup compares the settings of kustomize for the management cluster with the settings of a control-plane node
// for the spec.ironic that check prints, for every combination of components. Both must be in one VRRP group.
func TestOneGroup(t *testing.T) {
	for _, family := range families() {
		for _, others := range [][]string{
			nil, {"unicast"}, {"advertisement-interval"}, {"unicast", "advertisement-interval"}, {"dhcp", "unicast"},
		} {
			components := others
			if family.component != "" {
				components = append(slices.Clone(others), family.component)
			}
			if slices.Contains(components, "dhcp") && len(family.changed) > 0 {
				continue
			}
			t.Run(strings.Join(append([]string{"with"}, components...), " "), func(t *testing.T) {
				checkout := folderWith(t, family.peers, append(family.changed, "ADVERTISEMENT_INTERVAL=2s")...)
				management := built(t, checkout, components)
				read, err := readValues(checkout)
				if err != nil {
					t.Fatal(err)
				}
				node := onNode(t, read, components)
				checkSettings(t, management, node, components)
				checkConfiguration(t, management, node)
			})
		}
	}
}

// TestPeersRestartNoPod expects that an additional peer changes the settings of the guard, which reads them again, and not
// the pod: a restart would empty the database of Ironic.
func TestPeersRestartNoPod(t *testing.T) {
	peers := families()[0].peers
	var settings []vip.NodeSettings
	var pods []corev1.PodTemplateSpec
	for _, list := range []string{peers, strings.Replace(peers, "]", ", 172.22.0.22]", 1)} {
		checkout := folderWith(t, list)
		objects := kustomized(t, checkout, []string{"unicast"})
		settings = append(settings, settingsIn(t, objects))
		pods = append(pods, deploymentIn(t, objects).Spec.Template)
	}
	if len(settings[1].Peers) != len(settings[0].Peers)+1 {
		t.Errorf("the peers are %v and %v", settings[0].Peers, settings[1].Peers)
	}
	if diff := cmp.Diff(pods[0], pods[1]); diff != "" || len(pods[0].Spec.Containers) == 0 {
		t.Errorf("the pods differ:\n%s", diff)
	}
}

// built returns the settings of the guard from kustomize, parsed by the guard.
func built(t *testing.T, checkout string, components []string) vip.NodeSettings {
	t.Helper()
	return settingsIn(t, kustomized(t, checkout, components))
}

// kustomized returns the objects of kustomize for an overlay with components and patches.
func kustomized(t *testing.T, checkout string, components []string, patches ...string) [][]byte {
	t.Helper()
	own := filepath.Join(checkout, folder, "own")
	content := "resources: [../ironic-keepalived]\ncomponents:\n"
	for _, component := range components {
		content += "- ../components/" + component + "\n"
	}
	files := map[string]string{}
	for i, patch := range patches {
		name := fmt.Sprintf("patch-%d.yaml", i)
		content += "patches:\n- path: " + name + "\n"
		files[name] = patch
	}
	files["kustomization.yaml"] = content
	if err := os.Mkdir(own, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(own, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tools, err := binaries.Ensure(t.Context(), root(t), binaries.Tools(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), filepath.Join(tools, "kustomize"), "build", own).CombinedOutput()
	if err != nil {
		t.Fatalf("building %s: %v\n%s", components, err, output)
	}
	return bytes.Split(output, []byte("\n---\n"))
}

func settingsIn(t *testing.T, documents [][]byte) vip.NodeSettings {
	t.Helper()
	for _, document := range documents {
		object := corev1.ConfigMap{}
		if err := yaml.Unmarshal(document, &object); err != nil {
			t.Fatal(err)
		}
		if object.Kind == "ConfigMap" && object.Name == settingsName {
			return decoded(t, []byte(object.Data[ironic.SettingsFile]))
		}
	}
	t.Fatal("no object has the settings of the guard")
	return vip.NodeSettings{}
}

// onNode returns the settings of a control-plane node.
func onNode(t *testing.T, read values, components []string) vip.NodeSettings {
	t.Helper()
	described, err := describe(read, components...)
	if err != nil {
		t.Fatal(err)
	}
	certificates, err := throwaway(described.Endpoint.VirtualIPs...)
	if err != nil {
		t.Fatal(err)
	}
	files, err := controlplane.Files(endpointFor(described, certificates))
	if err != nil {
		t.Fatal(err)
	}
	name := ironic.NodeDirectory + "/" + ironic.SettingsFile
	index := slices.IndexFunc(files, func(f bootdata.File) bool { return f.Path == name })
	return decoded(t, files[index].Content)
}

func decoded(t *testing.T, content []byte) vip.NodeSettings {
	t.Helper()
	settings, err := vip.Decode(content)
	if err != nil {
		t.Fatalf("%v\n%s", err, content)
	}
	slices.SortFunc(settings.Peers, netip.Addr.Compare)
	return settings
}

// checkSettings requires the same settings on both sides, except for the role and the peers.
func checkSettings(t *testing.T, management, node vip.NodeSettings, components []string) {
	t.Helper()
	want := node
	want.Role, want.Files.Kubeconfig = vip.Management, ""
	if diff := cmp.Diff(want, management, same); diff != "" {
		t.Errorf("settings: -node, +management:\n%s", diff)
	}
	mode, interval := vip.Multicast, keepalived.DefaultAdvertisementInterval
	if slices.Contains(components, "unicast") {
		mode = vip.Unicast
	}
	if slices.Contains(components, "advertisement-interval") {
		interval = 2 * time.Second
	}
	if node.Mode != mode || (len(node.Peers) > 0) != (mode == vip.Unicast) ||
		time.Duration(node.AdvertisementInterval) != interval {
		t.Errorf("mode %s with peers %v every %s, want %s every %s",
			node.Mode, node.Peers, time.Duration(node.AdvertisementInterval), mode, interval)
	}
}

// checkConfiguration compares the files of keepalived of both sides without lines that differ between nodes, and checks
// them with keepalived.
func checkConfiguration(t *testing.T, management, node vip.NodeSettings) {
	t.Helper()
	var shared []string
	for number, settings := range []vip.NodeSettings{management, node} {
		config := configured(t, settings, number)
		content, err := keepalived.Render(config)
		if err != nil {
			t.Fatal(err)
		}
		acceptedByKeepalived(t, config)
		var lines []string
		for line := range strings.Lines(string(content)) {
			word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch address, err := netip.ParseAddr(word); {
			case slices.Contains([]string{"router_id", "priority", "preempt_delay", "nopreempt", "mcast_src_ip"}, word):
			case word == "unicast_src_ip":
				lines = append(lines, rest)
			case err == nil:
				// The only peer is the other node.
				lines = append(lines, address.String())
				if !strings.Contains(rest, "min_ttl 255") {
					t.Errorf("peer %s may be further away than the network: %q", address, line)
				}
			default:
				lines = append(lines, line)
			}
		}
		slices.Sort(lines)
		shared = append(shared, strings.Join(lines, "\n"))
	}
	if diff := cmp.Diff(shared[0], shared[1]); diff != "" {
		t.Errorf("keepalived.conf: -management, +node:\n%s", diff)
	}
}

// configured returns the keepalived.conf of the node with a number of peers of each family.
func configured(t *testing.T, settings vip.NodeSettings, number int) keepalived.Config {
	t.Helper()
	node := fmt.Sprintf("node-%d", number)
	config, err := member.Keepalived(settings, node, func(virtual vip.Address) (netip.Addr, bool) {
		if settings.Mode == vip.Multicast {
			return netip.AddrFrom4([4]byte{172, 22, 0, byte(10 + number)}), true
		}
		of := slices.DeleteFunc(slices.Clone(settings.Peers), func(p netip.Addr) bool {
			return p.Is4() != virtual.Address.Is4()
		})
		return of[number], true
	})
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// acceptedByKeepalived checks the file with the program, for an interface of this machine.
func acceptedByKeepalived(t *testing.T, config keepalived.Config) {
	t.Helper()
	program, err := exec.LookPath("keepalived")
	if err != nil {
		t.Log("keepalived is not installed, so it did not check the file")
		return
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	index := slices.IndexFunc(interfaces, func(i net.Interface) bool {
		return len(i.HardwareAddr) > 0 && i.Flags&net.FlagMulticast != 0
	})
	if index < 0 {
		t.Log("this machine has no Ethernet interface that keepalived could check the file with")
		return
	}
	config.Interface = interfaces[index].Name
	content, err := keepalived.Render(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "keepalived.conf")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), program, "--config-test", "--use-file", file).CombinedOutput()
	if err != nil || len(output) > 0 {
		t.Errorf("keepalived does not accept the file: %v\n%s\n%s", err, output, content)
	}
}
