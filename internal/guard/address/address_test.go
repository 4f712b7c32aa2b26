package address_test

import (
	"net/netip"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
)

func addresses(texts ...string) []netip.Addr {
	var parsed []netip.Addr
	for _, text := range texts {
		parsed = append(parsed, netip.MustParseAddr(text))
	}
	return parsed
}

func prefixes(texts ...string) []netip.Prefix {
	var parsed []netip.Prefix
	for _, text := range texts {
		parsed = append(parsed, netip.MustParsePrefix(text))
	}
	return parsed
}

func TestSource(t *testing.T) {
	t.Parallel()
	virtual4, virtual6 := netip.MustParsePrefix("172.22.0.2/24"), netip.MustParsePrefix("fd00:22::2/64")
	for name, test := range map[string]struct {
		reason  string
		in      address.Interface
		peers   []netip.Addr
		virtual netip.Prefix
		want    string
	}{
		"none":        {reason: "the interface has no addresses yet", virtual: virtual4},
		"only itself": {reason: "the VIP is no address of its own", in: address.Interface{Addresses: prefixes("172.22.0.2/24")}, virtual: virtual4},
		"other family": {
			reason: "the address is of the other IP family", in: address.Interface{Addresses: prefixes("fd00:22::11/64")}, virtual: virtual4},
		"the only one": {
			reason: "no other address exists", in: address.Interface{Addresses: prefixes("10.0.0.1/8")}, virtual: virtual4, want: "10.0.0.1"},
		"in the network": {
			reason: "the peers are in this network", virtual: virtual4, want: "172.22.0.11",
			in: address.Interface{Addresses: prefixes("10.0.0.1/8", "172.22.0.2/24", "172.22.0.11/24")}},
		"in the network, alone on the interface": {
			reason: "an address with prefix length 32 counts", virtual: virtual4, want: "172.22.0.11",
			in: address.Interface{Addresses: prefixes("10.0.0.1/8", "172.22.0.11/32")}},
		"known to the peers": {
			reason: "peers accept no other address", virtual: virtual4, want: "172.22.0.12", peers: addresses("172.22.0.12"),
			in: address.Interface{Addresses: prefixes("172.22.0.11/24", "172.22.0.12/24")}},
		"known to the peers, but a VIP": {
			reason: "a VIP in the list of peers is ignored", virtual: virtual4, want: "172.22.0.11", peers: addresses("172.22.0.2"),
			in: address.Interface{Addresses: prefixes("172.22.0.2/24", "172.22.0.11/24")}},
		"IPv6": {
			reason: "link-local and deprecated addresses are no sources", virtual: virtual6, want: "fd00:22::11",
			in: address.Interface{
				Addresses: prefixes("fe80::1/64", "fd00:22::9/64", "fd00:22::11/64"), Unusable: addresses("fe80::1", "fd00:22::9")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, found := test.in.Source(test.virtual, []netip.Addr{virtual4.Addr(), virtual6.Addr()}, test.peers)
			if found != (test.want != "") || (found && got.String() != test.want) {
				t.Errorf("%s: got %s, %t", test.reason, got, found)
			}
		})
	}
}

func TestHas(t *testing.T) {
	t.Parallel()
	seen := address.Interface{Addresses: prefixes("172.22.0.2/24", "fd00:22::11/64")}
	for want, asked := range map[bool][][]netip.Addr{
		true:  {addresses("172.22.0.2"), addresses("172.22.0.2", "fd00:22::11")},
		false: {nil, addresses("172.22.0.3"), addresses("172.22.0.2", "fd00:22::2")},
	} {
		for _, one := range asked {
			if seen.Has(one) != want {
				t.Errorf("%v: not %t", one, want)
			}
		}
	}
	if !seen.HasAny(addresses("10.0.0.1", "172.22.0.2")) || seen.HasAny(addresses("10.0.0.1")) || seen.HasAny(nil) {
		t.Error("HasAny is wrong for one address or for none")
	}
}

func TestKept(t *testing.T) {
	t.Parallel()
	seen := func(index int, added map[string]uint32) address.Interface {
		made := address.Interface{Index: index, Added: map[netip.Prefix]uint32{}}
		for text, when := range added {
			made.Added[netip.MustParsePrefix(text)] = when
		}
		return made
	}
	const four, six = "172.22.0.2/24", "fd00:22::2/128"
	before := seen(7, map[string]uint32{four: 5, six: 6, "172.22.0.11/24": 1})
	for name, test := range map[string]struct {
		reason string
		now    address.Interface
		want   bool
	}{
		"as before":         {reason: "nothing happened", now: before, want: true},
		"one is left":       {reason: "one address is enough", now: seen(7, map[string]uint32{six: 6}), want: true},
		"one came back":     {reason: "the other address stayed", now: seen(7, map[string]uint32{four: 9, six: 6}), want: true},
		"both came back":    {reason: "for a moment no address was there", now: seen(7, map[string]uint32{four: 9, six: 9})},
		"gone":              {reason: "only other addresses remain", now: seen(7, map[string]uint32{"172.22.0.11/24": 1})},
		"another interface": {reason: "another interface had the addresses", now: seen(8, map[string]uint32{four: 5, six: 6})},
		"no interface":      {reason: "an interface that does not exist has no address", now: address.Interface{}},
	} {
		if got := test.now.Kept(before, addresses("172.22.0.2", "fd00:22::2")); got != test.want {
			t.Errorf("%s: %s: got %t", name, test.reason, got)
		}
	}
}
