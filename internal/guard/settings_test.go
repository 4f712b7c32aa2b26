package guard

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// TestSettingsThatChangeWhileTheGuardRestarts replaces the file after the guard has read it, and before the guard awaits
// the next change.
func TestSettingsThatChangeWhileTheGuardRestarts(t *testing.T) {
	t.Parallel()
	settings := vip.NodeSettings{
		ClusterID: "cluster", Role: vip.Management, Interface: "eth0", VirtualRouterID: 51, Mode: vip.Multicast,
		VirtualIPs: []vip.Address{
			{Address: netip.MustParseAddr("172.22.0.2"), Prefix: 24, Network: netip.MustParsePrefix("172.22.0.0/24")},
		},
		AdvertisementInterval: vip.Duration(time.Second), Takeover: vip.AfterMove, Standby: vip.Warm,
		Ports: vip.Ports{API: 6385, Image: 6180, ImageTLS: 6183}, Files: vip.Files{Socket: "/socket", Authority: "/ca.crt", State: t.TempDir()},
	}
	path := filepath.Join(t.TempDir(), "guard.json")
	write := func(name string) {
		settings.Interface = name
		content, err := settings.Encode()
		if err == nil {
			err = errors.Join(os.WriteFile(path+".new", content, 0o600), os.Rename(path+".new", path))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	g := &guard{
		options: Options{Settings: path, Getenv: os.Getenv}, log: newLogger(slog.New(slog.DiscardHandler)), facts: newFacts(),
	}
	write("eth0")
	var err error
	if g.settings, err = g.load(); err != nil {
		t.Fatal(err)
	}
	write("eth1")
	ctx, cancel := context.WithTimeout(t.Context(), 10*settingsInterval)
	defer cancel()
	if got, isChanged := g.awaitSettings(ctx); !isChanged || got.Interface != "eth1" {
		t.Errorf("the guard continues with interface %s", got.Interface)
	}
}

// TestInvalidEnvironment has variables instead of a settings file.
func TestInvalidEnvironment(t *testing.T) {
	t.Parallel()
	load := func(variables map[string]string) error {
		_, err := loadSettings(Options{
			Settings: "/no/such", Getenv: func(name string) string { return variables[name] },
		})
		return err
	}
	for text, variables := range map[string]map[string]string{
		"set PROVISIONING_IP":  {},
		"PROVISIONING_IP is":   {"PROVISIONING_IP": "here"},
		"PROVISIONING_CIDR is": {"PROVISIONING_IP": "172.22.0.2", "PROVISIONING_CIDR": "10.0.0.0/8"},
		`"33"`:                 {"PROVISIONING_IP": "172.22.0.2", "PROVISIONING_CIDR": "33"},
		`"x"`:                  {"PROVISIONING_IP": "fd00::2", "PROVISIONING_CIDR": "x"},
	} {
		if err := load(variables); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: %v", variables, err)
		}
	}
	good := map[string]string{"PROVISIONING_IP": "172.22.0.2", "PROVISIONING_CIDR": "172.22.0.0/24"}
	if err := load(good); err != nil {
		t.Error(err)
	}
}

// TestWithPeers requires that an annotation only adds peers.
func TestWithPeers(t *testing.T) {
	t.Parallel()
	parse := func(texts ...string) []netip.Addr {
		var addresses []netip.Addr
		for _, text := range texts {
			addresses = append(addresses, netip.MustParseAddr(text))
		}
		return addresses
	}
	before := parse("172.22.0.10", "172.22.0.21")
	var virtual []vip.Address
	for _, one := range parse("172.22.0.2", "fd00::2") {
		virtual = append(virtual, vip.Address{Address: one})
	}
	for name, test := range map[string]struct {
		reason, text string
		want         []netip.Addr
		failed       bool
		onlyIPv4     bool
	}{
		"VIP":       {reason: "a VIP is no node", text: "172.22.0.22,172.22.0.2", want: before, failed: true},
		"mapped":    {reason: "a node has a plain IPv4 address", text: "::ffff:172.22.0.22", want: before, failed: true},
		"family":    {reason: "no VIP has this family", text: "fd00::22", want: before, failed: true, onlyIPv4: true},
		"nothing":   {reason: "no annotation", want: before},
		"one":       {reason: "a further node", text: "172.22.0.22", want: parse("172.22.0.10", "172.22.0.21", "172.22.0.22")},
		"both":      {reason: "of two families", text: "fd00::22, 172.22.0.9", want: parse("172.22.0.9", "172.22.0.10", "172.22.0.21", "fd00::22")},
		"known":     {reason: "keepalived refuses a duplicate peer", text: "172.22.0.21", want: before},
		"name":      {reason: "a partly invalid list is ignored", text: "172.22.0.22,node-23", want: before, failed: true},
		"network":   {reason: "a network is no node", text: "172.22.0.0/24", want: before, failed: true},
		"multicast": {reason: "a multicast address is no node", text: "224.0.0.18", want: before, failed: true},
		"zone":      {reason: "keepalived has no zones", text: "fd00::22%eth0", want: before, failed: true},
	} {
		vips := virtual
		if test.onlyIPv4 {
			vips = virtual[:1]
		}
		got, err := withPeers(vip.NodeSettings{Peers: before, VirtualIPs: vips}, test.text)
		if (err != nil) != test.failed {
			t.Errorf("%s: %v", name, err)
		}
		same := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
		if diff := cmp.Diff(test.want, got, same); diff != "" {
			t.Errorf("%s, %s (-want +got):\n%s", name, test.reason, diff)
		}
	}
}
