package guard_test

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/term"
)

// TestHungKeepalived stops keepalived of the holder while its guard runs. Another node takes the VIP. The guard of the
// previous holder removes the VIP before the lease ends, and replaces keepalived.
func TestHungKeepalived(t *testing.T) {
	t.Parallel()
	both := newLab(t).pair(func(settings *vip.NodeSettings) {
		settings.AdvertisementInterval = vip.Duration(keepalived.DefaultAdvertisementInterval)
		settings.TakeoverWithin = vip.Duration(keepalived.DefaultTakeoverWithin)
	})
	a, b := both[0], both[1]
	kept := startInTerm(t, a, b)
	hung := a.keepalivedProcesses()
	send(t, syscall.SIGSTOP, hung)
	eventually(t, generous, "takeover", heldBy(b, b))
	kept.isKilled(time.Now())
	eventually(t, atOnce, "the guard removes the VIP", noHolder(a))
	eventually(t, generous, "the guard kills keepalived", func() string {
		left := a.keepalivedProcesses()
		if slices.ContainsFunc(hung, func(pid int) bool { return slices.Contains(left, pid) }) {
			return fmt.Sprintf("processes %v, of which %v hang", left, hung)
		}
		return ""
	})
	eventually(t, generous, "the node is a standby", a.ready)
	b.write("etc/armed", "0\n")
	eventually(t, generous, "the standby takes the VIP", heldBy(a, both...))
}

// TestIronicThatFails requires that the guard records for how long Ironic has failed.
func TestIronicThatFails(t *testing.T) {
	t.Parallel()
	_, n := alone(t)
	failing := func(want bool) func() string {
		return func() string {
			record, err := os.ReadFile(n.path("run", "term"))
			if err != nil || (term.Parse(string(record)).Failing > 0) != want {
				return fmt.Sprintf("the record is %q, %v", record, err)
			}
			return ""
		}
	}
	eventually(t, generous, "Ironic answers", failing(false))
	n.stopIronic()
	eventually(t, generous, "Ironic is gone", failing(true))
	n.startIronic()
	eventually(t, generous, "Ironic is back", failing(false))
}
