package guard

import (
	"log/slog"
	"net/netip"
	"os"
	"reflect"
	"testing"
	"time"
	"unsafe"

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

// TestKeepalivedWaits requires that keepalived is not started without its source address, and is started with it.
func TestKeepalivedWaits(t *testing.T) {
	reaper := process.NewReaper()
	defer reaper.Close()
	s := newSupervisor(reaper, "/bin/true", t.TempDir(), newFacts(), slog.New(slog.DiscardHandler))
	wanted := target{page: page{config: []byte("usual")}, incarnation: "first", waits: true}
	s.Want(wanted)
	<-s.changed
	s.settle()
	if s.child != nil {
		t.Fatal("keepalived was started without its source address")
	}
	wanted.waits = false
	s.Want(wanted)
	select {
	case <-s.changed:
	default:
		t.Fatal("nothing starts keepalived when the address returns")
	}
	s.settle()
	if s.child == nil {
		t.Error("keepalived was not started")
	}
}

// TestHungKeepalivedAndTheClock sets the clock back after the last line of keepalived, which hangs since then.
func TestHungKeepalivedAndTheClock(t *testing.T) {
	reaper := process.NewReaper()
	defer reaper.Close()
	s := newSupervisor(reaper, "/bin/true", t.TempDir(), newFacts(), slog.New(slog.DiscardHandler))
	s.startedAt = time.Now()
	var err error
	if s.child, err = reaper.Start(process.Program{Path: "/bin/sleep", Arguments: []string{"1000"}}); err != nil {
		t.Fatal(err)
	}
	defer s.child.Kill()
	s.spoke.Store(new(time.Now()))
	s.killHung(setBack(time.Now(), time.Hour))
	select {
	case <-s.child.Done():
	case <-time.After(10 * time.Second):
		t.Error("keepalived was not killed")
	}
}

// setBack returns a time as if the clock had been set back in whole seconds before it was read. Only the wall clock
// changes: its seconds are in the bits of the first word above the nanoseconds.
func setBack(read time.Time, by time.Duration) time.Time {
	const nanosecondBits = 30
	*(*uint64)(unsafe.Pointer(&read)) -= uint64(by/time.Second) << nanosecondBits
	return read
}

// TestNodeLosesItsOwnAddress requires that keepalived keeps its whole configuration, also the one with which the next
// keepalived claims the VIP. A standby that receives no advertisement would take the VIP, so it has no keepalived.
func TestNodeLosesItsOwnAddress(t *testing.T) {
	const own4, own6, vip4, vip6 = "172.22.0.21", "fd00:22::21", "172.22.0.2", "fd00:22::2"
	both, state := []string{vip4, vip6}, t.TempDir()
	for name, test := range map[string]struct {
		reason  string
		mode    vip.Mode
		virtual []string
		// left are the addresses that the interface still has.
		left, deprecated []string
		keeps, waits     bool
		mute             bool
	}{
		"holder": {
			"it sends advertisements, and a takeover costs its database", vip.Unicast, both[:1], both[:1], nil, true, true, false,
		},
		"holder, both":         {"it sends advertisements in IPv4", vip.Unicast, both, both, nil, true, true, false},
		"holder, IPv6":         {"the kernel refuses its advertisements", vip.Unicast, both[1:], both[1:], nil, true, true, true},
		"standby":              {"it would not hear the holder", vip.Unicast, both[:1], nil, nil, false, false, false},
		"standby, both":        {"it would not hear the holder", vip.Unicast, both, nil, nil, false, false, false},
		"standby, one family":  {"it hears the holder in the other family", vip.Unicast, both, []string{own6}, nil, true, true, false},
		"standby, deprecated":  {"it still receives packets", vip.Unicast, both[1:], []string{own6}, []string{own6}, true, false, false},
		"standby in multicast": {"it receives multicast without an own address", vip.Multicast, both, nil, nil, true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			settings := vip.NodeSettings{
				ClusterID: "cluster", Role: vip.ControlPlane, Interface: "eth0", VirtualRouterID: 51, Mode: test.mode,
				Peers:                 parse(own4, "172.22.0.22", own6, "fd00:22::22"),
				AdvertisementInterval: vip.Duration(300 * time.Millisecond),
			}
			for _, virtual := range parse(test.virtual...) {
				settings.VirtualIPs = append(settings.VirtualIPs, vip.Address{
					Address: virtual, Prefix: virtual.BitLen(), Network: netip.PrefixFrom(virtual, virtual.BitLen()),
				})
			}
			settings.Files.State = state
			g := &guard{
				options: Options{Node: "n"}, log: newLogger(slog.New(slog.DiscardHandler)), facts: newFacts(),
			}
			g.keeper = newSupervisor(nil, "/bin/true", t.TempDir(), g.facts, g.log.Logger)
			lost := having(test.left...)
			lost.Unusable = parse(test.deprecated...)
			now := time.Unix(1000, 0)
			g.direct(settings, lost, true, now)
			if g.keeper.wanted.config != nil {
				t.Fatalf("a node without an own address has the configuration %q", g.keeper.wanted.config)
			}
			g.direct(settings, having(own4, own6), true, now)
			before := g.keeper.wanted.page
			if len(before.config) == 0 || len(before.resume) == 0 {
				t.Fatalf("keepalived has no configuration: %v", g.facts.snapshot().refusal)
			}
			g.direct(settings, lost, true, now)
			want := page{}
			if test.keeps {
				want = before
			}
			if got := g.keeper.wanted; !reflect.DeepEqual(got.page, want) || got.waits != test.waits {
				t.Errorf("%s: got %q, waits %v; want %q, %v", test.reason, got.config, got.waits, want.config, test.waits)
			}
			if since := g.facts.snapshot().muteSince; since.Equal(now) != test.mute {
				t.Errorf("%s: mute since %s", test.reason, since)
			}
		})
	}
}

// having returns an interface with addresses.
func having(texts ...string) address.Interface {
	seen := address.Interface{Index: 1, Up: true}
	for _, one := range parse(texts...) {
		seen.Addresses = append(seen.Addresses, netip.PrefixFrom(one, one.BitLen()))
	}
	return seen
}

func parse(texts ...string) (addresses []netip.Addr) {
	for _, text := range texts {
		addresses = append(addresses, netip.MustParseAddr(text))
	}
	return addresses
}
