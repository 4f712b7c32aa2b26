package guard

import (
	"log/slog"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/process"
)

// TestResumedKeepalived replaces a keepalived that died. The next one starts with a configuration with which it
// claims the VIP after one missed advertisement, and then reads its usual one.
func TestResumedKeepalived(t *testing.T) {
	reaper := process.NewReaper()
	defer reaper.Close()
	s := newSupervisor(reaper, "/bin/true", t.TempDir(), newFacts(), slog.New(slog.DiscardHandler))
	s.resuming = true
	s.Want(target{page: page{config: []byte("usual"), resume: []byte("resume"), span: 1}, incarnation: "first"})
	wait := s.settle()
	if read, err := os.ReadFile(s.path()); err != nil || string(read) != "resume" {
		t.Fatalf("keepalived starts with %q, %v", read, err)
	}
	if wait == nil {
		t.Fatal("nothing makes keepalived read its usual configuration")
	}
	<-wait
	s.settle()
	if read, err := os.ReadFile(s.path()); err != nil || string(read) != "usual" {
		t.Errorf("keepalived continues with %q, %v", read, err)
	}
}

// TestNodeLosesItsOwnAddress requires that keepalived keeps its whole configuration, also the one with which the next
// keepalived claims the VIP.
func TestNodeLosesItsOwnAddress(t *testing.T) {
	own, other := netip.MustParseAddr("172.22.0.21"), netip.MustParseAddr("172.22.0.22")
	settings := vip.NodeSettings{
		ClusterID: "cluster", Role: vip.ControlPlane, Interface: "eth0", VirtualRouterID: 51, Mode: vip.Unicast,
		VirtualIPs: []vip.Address{
			{Address: netip.MustParseAddr("172.22.0.2"), Prefix: 24, Network: netip.MustParsePrefix("172.22.0.0/24")},
		},
		Peers: []netip.Addr{own, other}, AdvertisementInterval: vip.Duration(300 * time.Millisecond),
	}
	settings.Files.State = t.TempDir()
	g := &guard{
		options: Options{Node: "n"}, log: newLogger(slog.New(slog.DiscardHandler)), facts: newFacts(),
	}
	g.keeper = newSupervisor(nil, "/bin/true", t.TempDir(), g.facts, g.log.Logger)
	seen := address.Interface{Index: 1, Up: true}
	g.direct(settings, seen, true)
	if g.keeper.wanted.config != nil {
		t.Fatalf("a node without an own address has the configuration %q", g.keeper.wanted.config)
	}
	addressed := seen
	addressed.Addresses = []netip.Prefix{netip.PrefixFrom(own, 24)}
	g.direct(settings, addressed, true)
	before := g.keeper.wanted.page
	g.direct(settings, seen, true)
	after := g.keeper.wanted.page
	if len(before.config) == 0 || len(before.resume) == 0 {
		t.Fatalf("keepalived has no configuration: %+v", before)
	}
	if string(after.config) != string(before.config) || string(after.resume) != string(before.resume) ||
		after.span != before.span {
		t.Errorf("keepalived has %q and %q for %s, want %q and %q for %s", after.config, after.resume, after.span,
			before.config, before.resume, before.span)
	}
}
