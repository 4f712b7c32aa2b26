package vip_test

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

func settings(t *testing.T) vip.NodeSettings {
	t.Helper()
	return vip.NodeSettings{
		ClusterID: "3f9c1a7e", Role: vip.ControlPlane, Interface: "provisioning",
		VirtualIPs:      addresses(t, "172.22.0.2", "172.22.0.0/24", "fd00::2", "fd00::/64"),
		VirtualRouterID: 51, Mode: vip.Unicast, Peers: parsed("172.22.0.10", "172.22.0.21", "fd00::10", "fd00::21"),
		AdvertisementInterval: vip.Duration(200 * time.Millisecond), Takeover: vip.AfterMove,
		TakeoverAfterSilence: vip.Duration(15 * time.Minute), Standby: vip.Warm,
		Ports: vip.Ports{API: 6385, Image: 6180, ImageTLS: 6183},
		Files: vip.Files{
			Socket: "/files/ironic.sock", Authority: "/files/ca.crt", State: "/run/state", Kubeconfig: "/etc/kubernetes/kubelet.conf",
		},
		Images:          []string{"kernel", "ramdisk"},
		ArmedAnnotation: vip.Annotation{Name: "armed", Value: "true"},
	}
}

func TestSettings(t *testing.T) {
	want := settings(t)
	content, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := vip.Decode(content)
	if err != nil {
		t.Fatal(err)
	}
	same := cmp.Options{
		cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	}
	if diff := cmp.Diff(want, got, same); diff != "" {
		t.Errorf("settings after writing and reading (-want +got):\n%s", diff)
	}
	for _, words := range []string{`"advertisementInterval": "200ms"`, `"network": "fd00::/64"`, `"prefix": 128`} {
		if !strings.Contains(string(content), words) {
			t.Errorf("settings do not contain %s:\n%s", words, content)
		}
	}
	if name := got.Conductor("node-1"); name != "3f9c1a7e-node-1" {
		t.Errorf("conductor is %s", name)
	}
}

func TestDecodeRefuses(t *testing.T) {
	content, err := settings(t).Encode()
	if err != nil {
		t.Fatal(err)
	}
	change := func(old, instead string) string {
		changed := strings.Replace(string(content), old, instead, 1)
		if changed == string(content) {
			t.Fatalf("settings do not contain %s", old)
		}
		return changed
	}
	cases := map[string]struct{ reason, content, want string }{
		"nothing":         {"an empty file is no settings", "", "EOF"},
		"half":            {"the disk was full", string(content[:len(content)/2]), "unexpected EOF"},
		"two":             {"the settings are ambiguous", string(content) + "{}", "more than one JSON object"},
		"unknown field":   {"the writer requires its effect", change(`"interface"`, `"nic"`), `unknown field "nic"`},
		"duration":        {"the unit is missing", change(`"200ms"`, `"200"`), `"200" is not a duration`},
		"address":         {"a typing mistake", change(`"172.22.0.2"`, `"172.22.0"`), "172.22.0"},
		"outside":         {"a typing mistake", change(`"172.22.0.2"`, `"172.23.0.2"`), "is not in its network"},
		"role":            {"the role is unknown", change(`"ControlPlane"`, `"Worker"`), `role is "Worker"`},
		"mode":            {"values are case-sensitive", change(`"Unicast"`, `"unicast"`), `mode is "unicast"`},
		"takeover":        {"the value is unknown", change(`"AfterMove"`, `"Never"`), `takeover is "Never"`},
		"standby":         {"the value is unknown", change(`"Warm"`, `"Hot"`), `standby is "Hot"`},
		"cluster":         {"the clusterID identifies conductors", change(`"3f9c1a7e"`, `""`), "clusterID is empty"},
		"interface":       {"keepalived requires an interface", change(`"provisioning"`, `""`), "set exactly one of them"},
		"two ways":        {"the interface is ambiguous", change(`"interface"`, `"interfaceCIDR": "172.22.0.0/24", "interface"`), "set exactly one of them"},
		"MAC":             {"the kernel writes another form", change(`"interface": "provisioning"`, `"macAddresses": ["52-54-00-00-00-0A"]`), "write addresses like"},
		"CIDR":            {"two spellings", change(`"interface": "provisioning"`, `"interfaceCIDR": "172.22.0.1/24"`), "interfaceCIDR is 172.22.0.1/24"},
		"router ID":       {"1 and 2 are reserved", change(`"virtualRouterID": 51`, `"virtualRouterID": 2`), "virtualRouterID is 2"},
		"interval":        {"VRRP counts hundredths of a second", change(`"200ms"`, `"15ms"`), "advertisementInterval is 15ms"},
		"silence":         {"a duration is positive", change(`"15m0s"`, `"-1s"`), "takeoverAfterSilence is -1s"},
		"ports":           {"two services have one port", change(`6183`, `6180`), "use three different ones"},
		"relative file":   {"the path is relative", change(`"/files/ironic.sock"`, `"password"`), `file "password" is not an absolute path`},
		"no kubeconfig":   {"no controller could arm it", change(`"/etc/kubernetes/kubelet.conf"`, `""`), "set a kubeconfig and the annotation"},
		"kubeconfig":      {"the path is relative", change(`"/etc/kubernetes/kubelet.conf"`, `"kubelet.conf"`), `kubeconfig "kubelet.conf" is not`},
		"alone":           {"keepalived would use multicast", change(`"172.22.0.10",`, ``), "at least two, and there are 1"},
		"virtual as peer": {"the VIP would never move", change(`"172.22.0.10",`, `"172.22.0.2",`), "cannot be the own address of a node"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := vip.Decode([]byte(c.content))
			wanted(t, c.reason, c.want, err)
		})
	}
}

// TestChoices expects that Encode writes only the given choice of the interface, and that Decode reads it.
func TestChoices(t *testing.T) {
	for want, change := range map[string]func(*vip.NodeSettings){
		`"interface": "provisioning",`:                   func(s *vip.NodeSettings) { s.Interface = "provisioning" },
		`"interfaceCIDR": "172.22.0.0/24",`:              func(s *vip.NodeSettings) { s.InterfaceCIDR = netip.MustParsePrefix("172.22.0.0/24") },
		"\"macAddresses\": [\n    \"52:54:00:00:00:0a\"": func(s *vip.NodeSettings) { s.MACAddresses = []string{"52:54:00:00:00:0a"} },
	} {
		made := settings(t)
		made.Interface = ""
		change(&made)
		content, err := made.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := vip.Decode(content)
		if err != nil || got.Interface != made.Interface || got.InterfaceCIDR != made.InterfaceCIDR ||
			!slices.Equal(got.MACAddresses, made.MACAddresses) {
			t.Errorf("%s was read as %+v, %v", content, got, err)
		}
		words := []string{`"interface":`, `"interfaceCIDR":`, `"macAddresses":`}
		given := slices.DeleteFunc(words, func(word string) bool { return !strings.Contains(string(content), word) })
		if len(given) != 1 || !strings.Contains(string(content), want) {
			t.Errorf("the settings have %q, want only %s", given, want)
		}
	}
}

// TestMACAddress expects an error for addresses that a single interface cannot have.
func TestMACAddress(t *testing.T) {
	for _, text := range []string{"52:54:00:00:00:0A", "52-54-00-00-00-0a", "5254.0000.000a"} {
		if got, err := vip.MACAddress(text); err != nil || got != "52:54:00:00:00:0a" {
			t.Errorf("%s: got %q, %v", text, got, err)
		}
	}
	for text, reason := range map[string]string{
		"": "nothing", "eth0": "a name", "00:00:00:00:00:00": "the loopback interface", "01:00:5e:00:00:12": "a multicast group",
		"ff:ff:ff:ff:ff:ff": "all machines", "00:11:22:33:44:55:66:77": "Infiniband",
	} {
		if got, err := vip.MACAddress(text); err == nil {
			t.Errorf("%s, %s: got %q", text, reason, got)
		}
	}
}

// TestEncodeRefuses has an empty VIP.
func TestEncodeRefuses(t *testing.T) {
	broken := settings(t)
	broken.VirtualIPs = append(broken.VirtualIPs, vip.Address{})
	content, err := broken.Encode()
	wanted(t, "an empty address", "both are required", err)
	if content != nil {
		t.Errorf("broken settings are written as %s", content)
	}
}

// FuzzDecode expects that Encode and Decode reproduce settings that Decode accepts.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"clusterID":"a","virtualIPs":[{"address":"::1","prefix":-1,"network":"::/0"}]}`))
	f.Add([]byte(`{"advertisementInterval":"1h"}`))
	if content, err := settings(&testing.T{}).Encode(); err == nil {
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		decoded, err := vip.Decode(content)
		if err != nil {
			return
		}
		first, err := decoded.Encode()
		if err != nil {
			t.Fatalf("encoding decoded settings: %v", err)
		}
		again, err := vip.Decode(first)
		if err != nil {
			t.Fatalf("decoding encoded settings: %v", err)
		}
		second, err := again.Encode()
		if err != nil || !bytes.Equal(first, second) || !json.Valid(second) {
			t.Fatalf("written twice: %v\n%s\n%s", err, first, second)
		}
	})
}
