package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/bcrypt"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// documentName is the document about the values and components.
const documentName = "docs/ironic-endpoint.md"

func root(t *testing.T) string {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestGeneratedFilesAreCurrent(t *testing.T) {
	files, err := generated()
	if err != nil {
		t.Fatal(err)
	}
	again, err := generated()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root(t), name))
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is stale: run go run ./hack/ironicmanifests: -want, +got:\n%s", name, diff)
		}
		if !bytes.Equal(want, again[name]) {
			t.Errorf("%s differs each time", name)
		}
	}
}

func TestLocate(t *testing.T) {
	cases := map[string]struct {
		reason  string
		text    string
		want    spot
		is      bool
		wantErr string
	}{
		"Whole":   {reason: "a whole value", text: placeholderIP, want: spot{origin: origin{name: "PROVISIONING_IP"}}, is: true},
		"Flag":    {reason: "a value of a flag", text: "--interface=" + placeholderInterface, want: spot{origin{name: "PROVISIONING_INTERFACE"}, part{"=", 1}}, is: true},
		"Name":    {reason: "a name that begins with a value", text: placeholderID + "-$(NODE_NAME)", want: spot{origin{name: "CLUSTER_ID"}, part{"-$", 0}}, is: true},
		"Prefix":  {reason: "the length of the prefix", text: "27", want: spot{origin: origin{"PROVISIONING_CIDR", true}}, is: true},
		"Second":  {reason: "an address after another", text: "--addresses=" + placeholderIP + "," + placeholderSecondIP, want: spot{origin{name: "SECOND_IP"}, part{",", 1}}, is: true},
		"Nothing": {reason: "a text without a value", text: "node"},
		"URL":     {reason: "a value within a text cannot be replaced", text: "http://" + placeholderIP + ":6180", wantErr: "no replacement reaches PROVISIONING_IP"},
		"List":    {reason: "the second of two values cannot be replaced", text: "--addresses=" + placeholderIP + ",fd00::2", wantErr: "no replacement reaches PROVISIONING_IP"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, is, err := locate(tc.text)
			if got != tc.want || is != tc.is {
				t.Errorf("%s: got %v %v, want %v %v", tc.reason, got, is, tc.want, tc.is)
			}
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("%s: got error %v, want %q", tc.reason, err, tc.wantErr)
			}
		})
	}
}

// folderWith returns a copy of config/ironic with other values.
func folderWith(t *testing.T, peers string, changed ...string) string {
	t.Helper()
	target := t.TempDir()
	if err := os.CopyFS(filepath.Join(target, folder), os.DirFS(filepath.Join(root(t), folder))); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(target, valuesFile))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(content), "\n")
	for _, line := range changed {
		name, _, _ := strings.Cut(line, "=")
		index := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, name+"=") })
		if index < 0 {
			t.Fatalf("%s has no %s", valuesFile, name)
		}
		lines[index] = line
	}
	file, err := os.ReadFile(filepath.Join(target, peersFile))
	if err != nil {
		t.Fatal(err)
	}
	if peers != "" {
		file = bytes.Replace(file, []byte("\npeers: []"), []byte("\npeers: "+peers), 1)
	}
	for name, content := range map[string][]byte{valuesFile: []byte(strings.Join(lines, "\n")), peersFile: file} {
		if err := os.WriteFile(filepath.Join(target, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return target
}

// swapped are the values of a cluster with an IPv6 address as its first VIP.
var swapped = []string{
	"PROVISIONING_IP=fd00:172:22::2", "PROVISIONING_CIDR=fd00:172:22::/64",
	"SECOND_IP=172.22.0.2", "SECOND_CIDR=172.22.0.0/24",
}

func TestCheck(t *testing.T) {
	const four, both = "[172.22.0.10, 172.22.0.21]", "[172.22.0.10, 172.22.0.21, 'fd00:172:22::10', 'fd00:172:22::21']"
	cases := map[string]struct {
		reason     string
		components []string
		peers      string
		changed    []string
		want       string
	}{
		"AsItIs":   {reason: "the values in the checkout are valid", want: "virtualRouterID: 193"},
		"IPv6":     {reason: "one address of IPv6", components: []string{"ipv6"}, changed: swapped, want: "virtualIPs:\n    - fd00:172:22::2\n  vrrp"},
		"Unicast":  {reason: "peers of the other file", components: []string{"unicast"}, peers: four, want: "peers:\n    - 172.22.0.10\n    - 172.22.0.21\n"},
		"Both":     {reason: "both families with peers", components: []string{"dual-stack", "unicast"}, peers: both, want: "- 172.22.0.2\n    - fd00:172:22::2\n"},
		"Swapped":  {reason: "the IPv6 address is in URLs", components: []string{"dual-stack-ipv6"}, changed: swapped, want: "- fd00:172:22::2\n    - 172.22.0.2\n"},
		"Interval": {reason: "both sides have the same interval", components: []string{"advertisement-interval"}, changed: []string{"ADVERTISEMENT_INTERVAL=2s"}, want: "advertisementInterval: 2s"},
		"DHCP": {
			reason: "options of dnsmasq as fields of the API", components: []string{"dhcp", "dual-stack"},
			changed: []string{"DHCP_DNS=option:dns-server,172.22.0.1,172.22.0.3", "DHCP_ROUTER=option:router,172.22.0.1"},
			want:    "dns:\n    - 172.22.0.1\n    - 172.22.0.3\n    gateway: 172.22.0.1\n    rangeBegin: 172.22.0.100\n    rangeEnd: 172.22.0.200\n",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var printed bytes.Buffer
			if err := check(folderWith(t, tc.peers, tc.changed...), tc.components, &printed); err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if !strings.Contains(printed.String(), tc.want) {
				t.Errorf("%s: want %q, printed\n%s", tc.reason, tc.want, printed.String())
			}
			described := struct{ Ironic infrav1.Ironic }{}
			if err := yaml.UnmarshalStrict(printed.Bytes(), &described); err != nil {
				t.Errorf("%s: the output is not a part of a Metal3Cluster: %v", tc.reason, err)
			}
		})
	}
}

// TestDocumentNamesEverything requires that the document explains each value and each component, and that check
// supports the components.
func TestDocumentNamesEverything(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root(t), documentName))
	if err != nil {
		t.Fatal(err)
	}
	read, err := readValues(root(t))
	if err != nil {
		t.Fatal(err)
	}
	words := slices.Collect(maps.Keys(read.variables))
	folders, err := os.ReadDir(filepath.Join(root(t), folder, "components"))
	if err != nil {
		t.Fatal(err)
	}
	always := []string{"basic-auth", "endpoint", "keepalived", "tls"}
	for _, folder := range folders {
		if _, known := additions()[folder.Name()]; known == slices.Contains(always, folder.Name()) {
			t.Errorf("check supports component %s: %v", folder.Name(), known)
		}
		if !slices.Contains(always, folder.Name()) {
			words = append(words, folder.Name())
		}
	}
	for _, word := range words {
		if !bytes.Contains(content, []byte("`"+word+"`")) {
			t.Errorf("%s does not explain %s", documentName, word)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	cases := map[string]struct {
		reason     string
		components string
		peers      string
		changed    []string
		want       string
	}{
		"Outside":   {reason: "an address outside of its network", changed: []string{"PROVISIONING_IP=10.0.0.2"}, want: "is not in its network"},
		"RouterID":  {reason: "a reserved router ID", changed: []string{"VIRTUAL_ROUTER_ID=1"}, want: "use 3 to 255"},
		"NoNumber":  {reason: "an empty router ID", changed: []string{"VIRTUAL_ROUTER_ID="}, want: "use a number"},
		"Component": {reason: "an unknown component", components: "unicasts", want: `"unicasts" is not a component`},
		"NoPeers":   {reason: "an empty list", components: "unicast", want: "there are 0; list them"},
		"NoList":    {reason: "commas without a list", components: "unicast", peers: "172.22.0.10,172.22.0.21", want: "reading peers"},
		"OneFamily": {reason: "the second address has no peers", components: "unicast dual-stack", peers: "[172.22.0.10, 172.22.0.21]", want: "that may hold fd00:172:22::2"},
		"Alike":     {reason: "two addresses of one family", components: "dual-stack", changed: []string{"SECOND_IP=172.22.0.3", "SECOND_CIDR=172.22.0.0/24"}, want: "are of one family"},
		"Forgotten": {reason: "the prefix length must be 128", changed: swapped, want: "add component ipv6"},
		"Needless":  {reason: "the prefix length must not be 128", components: "ipv6", want: "no IPv6 address"},
		"Order":     {reason: "the component does not match the order", components: "dual-stack-ipv6", want: "use dual-stack"},
		"Excluding": {reason: "the components contradict each other", components: "dual-stack ipv6", changed: swapped, want: "exclude one another"},
		"DHCPOverSix": {
			reason: "dnsmasq would send an IPv6 address to hosts", components: "dhcp dual-stack-ipv6", changed: swapped,
			want: "component dhcp serves IPv4",
		},
		"Mask":     {reason: "the netmask is too short", components: "dhcp", changed: []string{"DHCP_RANGE=172.22.0.100,172.22.0.200,255.255.0.0"}, want: "netmask"},
		"NoRange":  {reason: "a range without an end", components: "dhcp", changed: []string{"DHCP_RANGE=172.22.0.100"}, want: "DHCP_RANGE is"},
		"NoOption": {reason: "an address without an option", components: "dhcp", changed: []string{"DHCP_ROUTER=172.22.0.1"}, want: "write option:router"},
		"Unit":     {reason: "a number without a unit", components: "advertisement-interval", changed: []string{"ADVERTISEMENT_INTERVAL=200"}, want: "write it like 200ms"},
		"Step":     {reason: "VRRP does not support the interval", components: "advertisement-interval", changed: []string{"ADVERTISEMENT_INTERVAL=15ms"}, want: "multiple of 10ms"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var printed bytes.Buffer
			err := check(folderWith(t, tc.peers, tc.changed...), strings.Fields(tc.components), &printed)
			if err == nil || !strings.Contains(err.Error(), tc.want) || printed.Len() > 0 {
				t.Errorf("%s: got error %v and %q, want %q", tc.reason, err, printed.String(), tc.want)
			}
		})
	}
}

func TestCredentials(t *testing.T) {
	var printed bytes.Buffer
	arguments := []string{"--namespace", "one", "--namespace", "two", "--username", "ironic-2"}
	if err := credentials(arguments, bytes.NewReader(make([]byte, passwordBytes)), &printed); err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(strings.TrimPrefix(printed.String(), "---\n"), "---\n")
	var found []corev1.Secret
	for _, document := range documents {
		secret := corev1.Secret{}
		if err := yaml.UnmarshalStrict([]byte(document), &secret); err != nil {
			t.Fatal(err)
		}
		found = append(found, secret)
	}
	if len(found) != 2 || found[0].Namespace != "one" || found[1].Namespace != "two" || found[0].Name != credentialName {
		t.Fatalf("got %d Secrets: %s", len(found), documents)
	}
	if diff := cmp.Diff(found[0].Data, found[1].Data); diff != "" {
		t.Errorf("the Secrets differ:\n%s", diff)
	}
	data := found[0].Data
	user, hash, _ := bytes.Cut(bytes.TrimSpace(data["htpasswd"]), []byte(":"))
	if string(user) != "ironic-2" || !bytes.Equal(user, data["username"]) || bcrypt.CompareHashAndPassword(hash, data["password"]) != nil {
		t.Error("htpasswd does not admit the user with the password")
	}
}

func TestCredentialsThatCannotBeUsed(t *testing.T) {
	for want, arguments := range map[string][]string{
		"namespace":      nil,
		"without colons": {"--namespace", "one", "--username", "a:b"},
	} {
		err := credentials(arguments, bytes.NewReader(make([]byte, passwordBytes)), &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("credentials %v: got error %v, want %q", arguments, err, want)
		}
	}
}
