package guard

import (
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/process"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/term"
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

// TestGateReplacesAHungProgram has a program on a standby that runs and does not answer the guard.
func TestGateReplacesAHungProgram(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason           string
		running, failing time.Duration
		want             bool
	}{
		"Hung":    {"it neither works nor ends", term.HungAfter, term.HungAfter, true},
		"Young":   {"its predecessor hung", term.HungAfter - time.Minute, term.HungAfter, false},
		"Slow":    {"it may answer yet", term.HungAfter, term.HungAfter - time.Minute, false},
		"Answers": {"it works", 2 * term.HungAfter, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "term")
			noError(t, os.WriteFile(file, []byte(term.Record{Failing: test.failing}.String()), 0o600))
			p := &passage{
				Gate: Gate{UntilLost: true, Virtual: []netip.Addr{netip.MustParseAddr("172.22.0.2")},
					Command: []string{"/bin/sleep", "3600"}, Term: file},
				log: slog.New(slog.DiscardHandler), reaper: process.NewReaper(),
			}
			t.Cleanup(p.reaper.Close)
			noError(t, p.change(address.Interface{}))
			p.life.started = p.life.started.Add(-test.running)
			if p.life.again() == nil {
				t.Error("the gate does not read the record again")
			}
			err := p.follow()
			if errors.Is(err, errHung) != test.want {
				t.Errorf("%s: %v", test.reason, err)
			}
			if err == nil {
				p.end()
			}
			<-p.child.Done()
		})
	}
}
