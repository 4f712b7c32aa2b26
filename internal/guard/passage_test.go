package guard

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/process"
)

// TestGateStartsItsProgram observes the interface once. A DHCP server or a cold Ironic must not run on a
// standby.
func TestGateStartsItsProgram(t *testing.T) {
	t.Parallel()
	virtual := netip.MustParseAddr("172.22.0.2")
	without := address.Interface{Addresses: []netip.Prefix{netip.MustParsePrefix("172.22.0.11/24")}}
	prefix := netip.MustParsePrefix("172.22.0.2/24")
	with := address.Interface{Addresses: append(without.Addresses, prefix), Added: map[netip.Prefix]uint32{prefix: 1}}
	for name, test := range map[string]struct {
		gate Gate
		seen address.Interface
		want bool
	}{
		"WhileHereWithout": {Gate{WhileHere: true}, without, false},
		"WhileHereWith":    {Gate{WhileHere: true}, with, true},
		"UntilLostWithout": {Gate{UntilLost: true}, without, true},
		"UntilLostWith":    {Gate{UntilLost: true}, with, true},
		"BothWithout":      {Gate{WhileHere: true, UntilLost: true}, without, false},
		"BothWith":         {Gate{WhileHere: true, UntilLost: true}, with, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.gate.Virtual, test.gate.Command = []netip.Addr{virtual}, []string{"/bin/sleep", "3600"}
			p := &passage{Gate: test.gate, log: slog.New(slog.DiscardHandler), reaper: process.NewReaper()}
			t.Cleanup(p.reaper.Close)
			noError(t, p.change(test.seen))
			started := p.child != nil
			if started {
				p.end()
			}
			if started != test.want {
				t.Errorf("started is %t, want %t", started, test.want)
			}
		})
	}
}
