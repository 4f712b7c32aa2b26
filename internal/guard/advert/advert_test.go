package advert_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/advert"
)

var compareAddresses = cmpopts.EquateComparable(netip.Addr{})

func TestParse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason  string
		payload []byte
		isIPv4  bool
		want    advert.Advertisement
		refused bool
	}{
		"version 3": {
			reason: "what keepalived sends", isIPv4: true,
			payload: []byte{0x31, 51, 150, 1, 0, 20, 0xab, 0xcd, 172, 22, 0, 2},
			want:    advert.Advertisement{Version: 3, RouterID: 51, Priority: 150, Addresses: []netip.Addr{netip.MustParseAddr("172.22.0.2")}},
		},
		"version 2": {
			reason: "what other routers send, with a password at the end", isIPv4: true,
			payload: []byte{0x21, 1, 101, 1, 1, 1, 0, 0, 10, 0, 0, 1, 's', 'e', 'c', 'r', 'e', 't', 0, 0},
			want:    advert.Advertisement{Version: 2, RouterID: 1, Priority: 101, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}},
		},
		"IPv6": {
			reason:  "longer addresses",
			payload: append([]byte{0x31, 51, 0, 1, 0, 20, 0, 0}, netip.MustParseAddr("fd00:22::2").AsSlice()...),
			want:    advert.Advertisement{Version: 3, RouterID: 51, Addresses: []netip.Addr{netip.MustParseAddr("fd00:22::2")}},
		},
		"empty":                       {reason: "nothing", isIPv4: true, refused: true},
		"short":                       {reason: "less than a header", payload: []byte{0x31, 1, 1, 1}, isIPv4: true, refused: true},
		"version 4":                   {reason: "an unknown version", payload: []byte{0x41, 1, 1, 0, 0, 0, 0, 0}, isIPv4: true, refused: true},
		"another type":                {reason: "only advertisements are defined", payload: []byte{0x32, 1, 1, 0, 0, 0, 0, 0}, isIPv4: true, refused: true},
		"count of addresses too high": {reason: "the packet has fewer addresses", payload: []byte{0x31, 1, 1, 9, 0, 0, 0, 0, 1, 2, 3, 4}, isIPv4: true, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, is := advert.Parse(test.payload, test.isIPv4)
			if is == test.refused {
				t.Fatalf("%s: got %t", test.reason, is)
			}
			if diff := cmp.Diff(test.want, got, compareAddresses); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", test.reason, diff)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte{0x31, 51, 150, 1, 0, 20, 0, 0, 172, 22, 0, 2}, true)
	f.Add([]byte{0x31, 51, 150, 255, 0, 20, 0, 0, 172, 22, 0, 2}, false)
	f.Fuzz(func(t *testing.T, payload []byte, isIPv4 bool) {
		got, is := advert.Parse(payload, isIPv4)
		if !is {
			return
		}
		if len(got.Addresses) != int(payload[3]) {
			t.Errorf("%d addresses became %d", payload[3], len(got.Addresses))
		}
		for _, address := range got.Addresses {
			if address.Is4() != isIPv4 {
				t.Errorf("%s is of the other family", address)
			}
		}
	})
}

func group() advert.Group {
	return advert.Group{
		RouterID: 51,
		Virtual:  []netip.Addr{netip.MustParseAddr("172.22.0.2"), netip.MustParseAddr("fd00:22::2")},
		Own:      []netip.Addr{netip.MustParseAddr("172.22.0.11"), netip.MustParseAddr("fd00:22::11")},
		Peers:    []netip.Addr{netip.MustParseAddr("172.22.0.11"), netip.MustParseAddr("172.22.0.12")},
	}
}

func heard(routerID, priority uint8, addresses ...string) advert.Advertisement {
	said := advert.Advertisement{Version: 3, RouterID: routerID, Priority: priority, HopLimit: 255}
	for _, address := range addresses {
		said.Addresses = append(said.Addresses, netip.MustParseAddr(address))
	}
	return said
}

// older returns the advertisement in version 2.
func older(said advert.Advertisement) advert.Advertisement {
	said.Version = 2
	return said
}

// routed returns the advertisement after a router.
func routed(said advert.Advertisement) advert.Advertisement {
	said.HopLimit = 254
	return said
}

func TestClassify(t *testing.T) {
	t.Parallel()
	const unrelated, member, foreign = "unrelated", "member", "foreign"
	unknownPeers := group()
	unknownPeers.Peers = nil
	for name, test := range map[string]struct {
		reason string
		group  advert.Group
		source string
		heard  advert.Advertisement
		want   string
	}{
		"routed": {
			reason: "keepalived drops the packet", group: unknownPeers, source: "172.23.0.99",
			heard: routed(heard(51, 100, "172.22.0.2")), want: foreign},
		"routed, a goodbye": {
			reason: "keepalived drops the packet", group: unknownPeers, source: "172.23.0.99",
			heard: routed(heard(51, 0, "172.22.0.2")), want: foreign},
		"routed, link-local": {
			reason: "no list names it", group: group(), source: "fe80::1",
			heard: routed(heard(51, 100, "fd00:22::2")), want: foreign},
		"routed, a peer": {
			reason: "members are in one network", group: group(), source: "172.22.0.12",
			heard: routed(heard(51, 100, "172.22.0.2")), want: foreign},
		"version 2": {
			reason: "keepalived drops the packet", group: unknownPeers, source: "172.22.0.99",
			heard: older(heard(51, 100, "172.22.0.2")), want: foreign},
		"version 2, a peer": {
			reason: "members use version 3", group: group(), source: "172.22.0.12",
			heard: older(heard(51, 100, "172.22.0.2")), want: foreign},
		"version 2, another address": {
			reason: "a router with the same ID", group: group(), source: "172.22.0.99",
			heard: older(heard(51, 100, "172.22.0.3")), want: foreign},
		"peer":            {reason: "a member", group: group(), source: "172.22.0.12", heard: heard(51, 100, "172.22.0.2"), want: member},
		"ourselves":       {reason: "an echo", group: group(), source: "172.22.0.11", heard: heard(51, 100, "172.22.0.2"), want: unrelated},
		"other group":     {reason: "another group", group: group(), source: "172.22.0.99", heard: heard(1, 100, "172.22.0.3"), want: unrelated},
		"same ID":         {reason: "both groups drop the packets of the other", group: group(), source: "172.22.0.99", heard: heard(51, 100, "172.22.0.3"), want: foreign},
		"same address":    {reason: "two holders", group: group(), source: "172.22.0.99", heard: heard(1, 100, "172.22.0.2"), want: foreign},
		"both, no member": {reason: "it is not in the list of peers", group: group(), source: "172.22.0.99", heard: heard(51, 100, "172.22.0.2"), want: foreign},
		"member with another address": {
			reason: "older settings", group: group(), source: "172.22.0.12", heard: heard(51, 100, "172.22.0.3"), want: foreign},
		"unknown members": {
			reason: "multicast", group: unknownPeers, source: "172.22.0.99", heard: heard(51, 100, "172.22.0.2"), want: member},
		"a priority of no member": {
			reason: "it does not receive our packets, and keepalived keeps the VIP", group: unknownPeers,
			source: "172.22.0.99", heard: heard(51, 5, "172.22.0.2"), want: foreign},
		"a priority of no member, link-local": {
			reason: "no list names it", group: group(), source: "fe80::1", heard: heard(51, 5, "fd00:22::2"), want: foreign},
		"a new priority of a peer": {
			reason: "the list names it", group: group(), source: "172.22.0.12", heard: heard(51, 5, "172.22.0.2"), want: member},
		"a goodbye": {
			reason: "members use it too", group: unknownPeers, source: "172.22.0.99", heard: heard(51, 0, "172.22.0.2"), want: member},
		"no addresses": {
			reason: "keepalived drops the packet", group: unknownPeers, source: "172.22.0.99", heard: heard(51, 100), want: foreign},
		"link-local": {
			reason: "IPv6 multicast has this source", group: group(), source: "fe80::1", heard: heard(51, 100, "fd00:22::2"), want: member},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			isMember, collision := test.group.Classify(netip.MustParseAddr(test.source), test.heard)
			if isMember != (test.want == member) || (collision != "") != (test.want == foreign) {
				t.Errorf("%s: got %t, %q", test.reason, isMember, collision)
			}
		})
	}
}

func TestLedger(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	peer, foreign := netip.MustParseAddr("172.22.0.12"), netip.MustParseAddr("172.22.0.99")
	ledger := advert.NewLedger(start)
	silence := func(now int, want time.Duration) {
		t.Helper()
		if got := ledger.Silence(at(now)); got != want {
			t.Errorf("at %d: silent for %s, want %s", now, got, want)
		}
	}
	silence(10, 10*time.Second)
	ledger.Record(at(10), group(), peer, heard(51, 100, "172.22.0.2"))
	silence(11, 11*time.Second)
	ledger.Record(at(12), group(), peer, heard(51, 0, "172.22.0.2"))
	silence(12, 12*time.Second)
	if got := ledger.HolderHeard(); !got.Equal(at(10)) {
		t.Errorf("priority 0 counts as holding: at %s", got)
	}
	ledger.Record(at(13), group(), foreign, heard(51, 255, "172.22.0.2"))
	silence(13, 13*time.Second)
	ledger.Record(at(14), group(), peer, heard(51, 150, "172.22.0.2"))
	silence(14, 0)
	ledger.CannotHear(at(20), 0)
	silence(20, 0)
	ledger.CannotHear(at(29), 10*time.Second)
	silence(30, time.Second)
	ledger.CannotHear(at(40), 10*time.Second)
	silence(41, 12*time.Second)

	if diff := cmp.Diff(map[netip.Addr]time.Time{peer: at(14)}, ledger.Peers(), compareAddresses); diff != "" {
		t.Errorf("peers: -want, +got:\n%s", diff)
	}
	if got := ledger.ForeignSpeakers(at(43)); len(got) != 1 || got[0].Source != foreign {
		t.Errorf("foreign speakers: %v", got)
	}
	if got := ledger.ForeignSpeakers(at(44)); len(got) != 0 {
		t.Errorf("a foreign speaker is reported too long: %v", got)
	}
}

func TestLedgerIsBounded(t *testing.T) {
	t.Parallel()
	ledger := advert.NewLedger(time.Unix(0, 0))
	source := netip.MustParseAddr("10.0.0.1")
	for range 10000 {
		ledger.Record(time.Unix(1, 0), group(), source, heard(51, 100, "172.22.0.3"))
		source = source.Next()
	}
	if got := len(ledger.ForeignSpeakers(time.Unix(1, 0))); got > 128 {
		t.Errorf("the ledger holds %d sources after a flood", got)
	}
}

func TestContest(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	for name, test := range map[string]struct {
		reason   string
		interval time.Duration
		// lastHeard is when the other holder was last heard, as seen at a moment.
		lastHeard func(elapsed time.Duration) time.Duration
		// arrived is when this node got the VIP.
		arrived, want time.Duration
	}{
		"no peer": {
			reason: "a silent holder is no conflict", interval: 200 * time.Millisecond,
			lastHeard: func(time.Duration) time.Duration { return -time.Hour }, want: -1,
		},
		"last advertisement": {
			reason: "a holder that released the VIP is not heard again", interval: 200 * time.Millisecond,
			lastHeard: func(time.Duration) time.Duration { return 0 }, want: -1,
		},
		"last advertisement, long interval": {
			reason: "with long intervals an advertisement counts longer", interval: 10 * time.Second,
			lastHeard: func(time.Duration) time.Duration { return 0 }, want: -1,
		},
		"other holder releases the VIP": {
			reason: "joined networks elect one holder within some advertisements", interval: 200 * time.Millisecond,
			lastHeard: func(elapsed time.Duration) time.Duration { return min(elapsed, time.Second) }, want: -1,
		},
		"other holder stays": {
			reason: "the VIP on this node is a leftover", interval: 200 * time.Millisecond,
			lastHeard: func(elapsed time.Duration) time.Duration { return elapsed }, want: 1700 * time.Millisecond,
		},
		"other holder released the VIP before": {
			reason: "a replaced holder is no conflict", interval: time.Second,
			lastHeard: func(elapsed time.Duration) time.Duration { return min(elapsed, 10*time.Second) },
			arrived:   10 * time.Second, want: -1,
		},
		"replaced holder stays": {
			reason: "the holder continues although it was replaced", interval: time.Second, arrived: 10 * time.Second,
			lastHeard: func(elapsed time.Duration) time.Duration { return elapsed }, want: 14100 * time.Millisecond,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			contest, got := advert.Contest{Interval: test.interval}, time.Duration(-1)
			for elapsed := time.Duration(0); elapsed < time.Minute && got < 0; elapsed += 100 * time.Millisecond {
				if contest.Lost(start.Add(elapsed), start.Add(test.lastHeard(elapsed)), start.Add(test.arrived)) {
					got = elapsed
				}
			}
			if got != test.want {
				t.Errorf("%s: lost after %s, want %s", test.reason, got, test.want)
			}
		})
	}
}
