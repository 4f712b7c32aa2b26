package guard_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// TestHungKeepalived stops keepalived of the holder while its guard runs. Another node takes the VIP. The guard of the
// previous holder removes the VIP before the lease ends, and replaces keepalived.
func TestHungKeepalived(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.addNode("a"), l.addNode("b")
	both := []*node{a, b}
	for _, n := range both {
		n.configure(vip.ControlPlane, both...)
		settings := n.settings
		settings.Takeover = vip.Always
		settings.AdvertisementInterval = vip.Duration(keepalived.DefaultAdvertisementInterval)
		settings.TakeoverWithin = vip.Duration(keepalived.DefaultTakeoverWithin)
		n.use(settings)
		n.startAPIServer()
		n.startIronic()
	}
	kept := a.startTermGate(counting)
	a.start()
	eventually(t, generous, "the first node holds the VIP", heldBy(a, both...))
	eventually(t, generous, "the term of the VIP has begun", kept.says("The term of the VIP began"))
	b.start()
	eventually(t, generous, "the second node takes part", b.ready)
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
