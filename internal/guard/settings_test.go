package guard

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
	for name, test := range map[string]struct {
		reason, text string
		want         []netip.Addr
		failed       bool
	}{
		"nothing":   {reason: "no annotation", want: before},
		"one":       {reason: "a further node", text: "172.22.0.22", want: parse("172.22.0.10", "172.22.0.21", "172.22.0.22")},
		"both":      {reason: "of two families", text: "fd00::22, 172.22.0.9", want: parse("172.22.0.9", "172.22.0.10", "172.22.0.21", "fd00::22")},
		"known":     {reason: "keepalived refuses a duplicate peer", text: "172.22.0.21", want: before},
		"name":      {reason: "a partly invalid list is ignored", text: "172.22.0.22,node-23", want: before, failed: true},
		"network":   {reason: "a network is no node", text: "172.22.0.0/24", want: before, failed: true},
		"multicast": {reason: "a multicast address is no node", text: "224.0.0.18", want: before, failed: true},
		"zone":      {reason: "keepalived has no zones", text: "fd00::22%eth0", want: before, failed: true},
	} {
		got, err := withPeers(before, test.text)
		if (err != nil) != test.failed {
			t.Errorf("%s: %v", name, err)
		}
		same := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
		if diff := cmp.Diff(test.want, got, same); diff != "" {
			t.Errorf("%s, %s (-want +got):\n%s", name, test.reason, diff)
		}
	}
}
