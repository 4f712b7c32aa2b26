package controlplane_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/bootdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/controlplane"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/member"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/golden"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/verdict"
)

// network is one family of an endpoint. Nodes have the addresses with the numbers 10, 21 and 22.
type network struct{ prefix, cidr string }

var families = map[string][]network{
	"v4":   {{"172.22.0.", "172.22.0.0/24"}},
	"v6":   {{"fd00:172:22::", "fd00:172:22::/64"}},
	"dual": {{"172.22.0.", "172.22.0.0/24"}, {"fd00:172:22::", "fd00:172:22::/64"}},
}

// combined is the endpoint of each combination of families and modes, by its name.
func combined(tb testing.TB) map[string]controlplane.Endpoint {
	tb.Helper()
	all := map[string]controlplane.Endpoint{}
	for family, networks := range families {
		for mode, peers := range map[string][]int{"unicast": {10, 21, 22}, "multicast": nil} {
			endpoint := least(tb)
			described := &endpoint.Ironic
			described.VRRP.VirtualRouterID = 51
			described.DHCP = &infrav1.IronicDHCP{
				RangeBegin: networks[0].prefix + "100", RangeEnd: networks[0].prefix + "200",
				DNS: []string{networks[0].prefix + "1"},
			}
			described.Endpoint.VirtualIPs, described.Endpoint.CIDRs = nil, nil
			for _, network := range networks {
				described.Endpoint.VirtualIPs = append(described.Endpoint.VirtualIPs, network.prefix+"2")
				described.Endpoint.CIDRs = append(described.Endpoint.CIDRs, network.cidr)
				for _, number := range peers {
					described.VRRP.Peers = append(described.VRRP.Peers, fmt.Sprintf("%s%d", network.prefix, number))
				}
			}
			all[family+"-"+mode] = endpoint
		}
	}
	return all
}

// TestCombinations compares all rendered files of each combination and side with goldens. A file that does not depend
// on the mode has one golden for each family, without the hash of the configuration.
func TestCombinations(t *testing.T) {
	place := ironic.Management{Name: "metal3-ironic", Namespace: "metal3-ironic-system", Secret: "metal3-ironic"}
	for name, endpoint := range combined(t) {
		t.Run(name+"-controlplane", func(t *testing.T) {
			files, err := controlplane.Files(endpoint)
			if err != nil {
				t.Fatal(err)
			}
			side(t, name, "controlplane", func(file string) []byte {
				return content(t, files, ironic.NodeDirectory+"/"+file)
			})
			for _, file := range files {
				if path.Dir(file.Path) == infrav1.DefaultManifestsDirectory {
					ofFamily(t, name, path.Base(file.Path), file.Content)
				}
			}
		})
		t.Run(name+"-management", func(t *testing.T) {
			deployment, data, err := controlplane.Management(endpoint, place)
			if err != nil {
				t.Fatal(err)
			}
			side(t, name, "management", func(file string) []byte { return data[ironic.SecretKey(file)] })
			rendered, err := yaml.Marshal(deployment)
			if err != nil {
				t.Fatal(err)
			}
			ofFamily(t, name, "deployment.yaml", rendered)
		})
	}
}

// side compares the files that both sides have, and checks them with the real programs. keepalived.conf of a node of
// the side must equal the golden of package keepalived.
func side(t *testing.T, name, role string, read func(file string) []byte) {
	t.Helper()
	dnsmasq, guard := read(ironic.DHCPFile), read(ironic.SettingsFile)
	golden.Equal(t, filepath.Join("combinations", name+"-"+role, ironic.SettingsFile), guard)
	ofFamily(t, name, ironic.DHCPFile, dnsmasq)
	verdict.DNSMasq(t, dnsmasq)
	settings, err := vip.Decode(guard)
	if err != nil {
		t.Fatal(err)
	}
	number := map[vip.Role]int{vip.Management: 10, vip.ControlPlane: 21}[settings.Role]
	config := keepalivedOf(t, settings, number)
	rendered, err := keepalived.Render(config)
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, filepath.Join("../../keepalived/testdata", name+"-"+role, "keepalived.conf"), rendered)
	verdict.Keepalived(t, func(network string) ([]byte, error) {
		config.Interface = network
		return keepalived.Render(config)
	})
}

// hashes matches the hashes of files: of the configuration in a pod, and of a block of added files.
var hashes = regexp.MustCompile(`(config-hash: |sha256:)[0-9a-f]+`)

func withoutHashes(content []byte) []byte {
	return hashes.ReplaceAll(content, []byte("${1}HASH"))
}

func ofFamily(t *testing.T, name, file string, content []byte) {
	t.Helper()
	family, _, _ := strings.Cut(name, "-")
	golden.Equal(t, filepath.Join("combinations", family, file), withoutHashes(content))
}

// keepalivedOf returns the configuration of the node whose own addresses end in the number.
func keepalivedOf(t *testing.T, settings vip.NodeSettings, number int) keepalived.Config {
	t.Helper()
	node := fmt.Sprintf("node-%d", number)
	config, err := member.Keepalived(settings, node, func(virtual vip.Address) (netip.Addr, bool) {
		prefix := families["dual"][0].prefix
		if virtual.Address.Is6() {
			prefix = families["dual"][1].prefix
		}
		return netip.MustParseAddr(fmt.Sprintf("%s%d", prefix, number)), true
	})
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// shape is a form of bootstrap data.
type shape struct {
	// golden is the golden of the unpacked data. Several shapes may have the same one.
	golden string

	format string
	data   []byte
	unpack func([]byte) []byte
}

// shapes returns all forms that package bootdata supports, with the data of its samples.
func shapes(t *testing.T) map[string]shape {
	t.Helper()
	same := func(data []byte) []byte { return data }
	all := map[string]shape{}
	for name, from := range map[string]string{
		"cloud-config": "indented-list", "jinja": "kubeadm-init", "multipart": "multipart",
	} {
		data := sample(t, from)
		all[name] = shape{name, bootdata.CloudConfig, data, same}
		all[name+"-base64"] = shape{name, bootdata.CloudConfig, encoded(data), func(data []byte) []byte {
			return decoded(t, data)
		}}
		all[name+"-gzip"] = shape{name, bootdata.CloudConfig, zipped(t, data), func(data []byte) []byte {
			return unzipped(t, data)
		}}
		all[name+"-gzip-base64"] = shape{name, bootdata.CloudConfig, encoded(zipped(t, data)), func(data []byte) []byte {
			return unzipped(t, decoded(t, data))
		}}
	}
	for major, minors := range map[int][]int{2: {3}, 3: {0, 1, 2, 3, 4, 5, 6}} {
		name := fmt.Sprintf("ignition-%d", major)
		data := sample(t, name)
		version := regexp.MustCompile(`"\d\.\d\.0"`).Find(data)
		for _, minor := range minors {
			other := fmt.Appendf(nil, `"%d.%d.0"`, major, minor)
			all[fmt.Sprintf("%s.%d", name, minor)] = shape{name, bootdata.Ignition, bytes.Replace(data, version, other, 1),
				func(data []byte) []byte { return bytes.Replace(data, other, version, 1) }}
		}
	}
	return all
}

func sample(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../bootdata/testdata", name, "input"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func encoded(data []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(data)) }

func decoded(t *testing.T, data []byte) []byte {
	t.Helper()
	plain, err := base64.StdEncoding.DecodeString(string(data))
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func zipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

func unzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// injected is the bootstrap data of a control-plane machine, with the files in it.
type injected struct {
	shape
	files []bootdata.File
	data  []byte
}

func allInjected(t *testing.T) map[string]injected {
	t.Helper()
	all := map[string]injected{}
	for name, endpoint := range combined(t) {
		files, err := controlplane.Files(endpoint)
		if err != nil {
			t.Fatal(err)
		}
		for kind, shape := range shapes(t) {
			data, err := bootdata.Add(shape.data, shape.format, files)
			if err != nil {
				t.Fatalf("%s in %s: %v", name, kind, err)
			}
			all[name+"/"+kind] = injected{shape, files, data}
		}
	}
	return all
}

// TestBootstrapData compares the bootstrap data of each combination and shape with the golden of the shape. The golden
// has the name of each file instead of its content, so it is the same for all combinations. TestCombinations compares
// the content. The log has the sizes, because a Secret is limited to 1 MiB.
func TestBootstrapData(t *testing.T) {
	for name, handed := range allInjected(t) {
		t.Run(name, func(t *testing.T) {
			got := handed.unpack(handed.data)
			for _, file := range handed.files {
				inQuotes := append(encoded(file.Content), '"')
				if found := bytes.Count(got, inQuotes); found != 1 {
					t.Errorf("the content of %s occurs %d times", file.Path, found)
				}
				got = bytes.Replace(got, inQuotes, []byte("<"+path.Base(file.Path)+`>"`), 1)
			}
			golden.Equal(t, filepath.Join("combinations", "bootstrap-data", handed.golden), withoutHashes(got))
			again, err := bootdata.Add(handed.data, handed.format, handed.files)
			if err != nil || !bytes.Equal(handed.data, again) {
				t.Errorf("adding the files again changes something: %v", err)
			}
			t.Logf("%d bytes grow by %d", len(handed.shape.data), len(handed.data)-len(handed.shape.data))
		})
	}
}

// TestBootstrapDataInCloudInit checks the files that cloud-init writes, its warnings and its schema. It omits data in
// base64, which cloud-init does not decode.
func TestBootstrapDataInCloudInit(t *testing.T) {
	var names []string
	var all [][]byte
	everything := allInjected(t)
	for name, handed := range everything {
		if handed.format == bootdata.CloudConfig && !strings.HasSuffix(name, "-base64") {
			names, all = append(names, name), append(all, handed.shape.data, handed.data)
		}
	}
	said := verdict.CloudInit(t, all...)
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			before, after := said[2*i], said[2*i+1]
			want := before.Files
			for _, file := range everything[name].files {
				want[file.Path] = verdict.File{Mode: file.Mode, Content: string(file.Content)}
			}
			if diff := cmp.Diff(want, after.Files); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if after.Schema != "" {
				t.Errorf("the schema of cloud-init %s refuses the data: %s", after.Version, after.Schema)
			}
			if diff := cmp.Diff(before.Warnings, after.Warnings); diff != "" {
				t.Errorf("warnings (-before +after):\n%s", diff)
			}
		})
	}
}

// TestBootstrapDataInIgnition checks the files that Ignition would write, and the warnings of its validator.
func TestBootstrapDataInIgnition(t *testing.T) {
	ignition := verdict.NewIgnition(t)
	accepted := map[string]verdict.Accepted{}
	for kind, shape := range shapes(t) {
		if shape.format == bootdata.Ignition {
			accepted[kind] = ignition.Validate(t, shape.data)
		}
	}
	for name, handed := range allInjected(t) {
		if handed.format != bootdata.Ignition {
			continue
		}
		t.Run(name, func(t *testing.T) {
			before, after := accepted[path.Base(name)], ignition.Validate(t, handed.data)
			want := make([]verdict.IgnitionFile, 0, len(handed.files)+len(before.Files))
			for _, file := range handed.files {
				want = append(want, verdict.IgnitionFile{
					Path: file.Path, Mode: uint32(file.Mode), Content: file.Content, Overwrite: true,
				})
			}
			if diff := cmp.Diff(append(want, before.Files...), after.Files); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before.Warnings, after.Warnings); diff != "" {
				t.Errorf("warnings (-before +after):\n%s", diff)
			}
		})
	}
}
