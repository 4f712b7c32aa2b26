package guard_test

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// onlyFamily returns an edit of settings in mode Unicast that leaves the VIP and the peers of one IP family.
func onlyFamily(isIPv4 bool) func(*vip.NodeSettings) {
	return func(settings *vip.NodeSettings) {
		settings.VirtualIPs = slices.DeleteFunc(settings.VirtualIPs, func(virtual vip.Address) bool {
			return virtual.Address.Is4() != isIPv4
		})
		settings.Peers = slices.DeleteFunc(settings.Peers, func(peer netip.Addr) bool { return peer.Is4() != isIPv4 })
	}
}

// changeOwn adds or removes the own addresses of the node.
func (n *node) changeOwn(change func(*netlink.Handle, netlink.Link, *netlink.Addr) error) {
	t := n.lab.t
	t.Helper()
	link, err := n.links.LinkByName("eth0")
	must(t, err)
	for _, address := range n.own() {
		must(t, change(n.links, link, address))
	}
}

// startedOnce returns nothing while the program of the gate runs and was started once.
func (g *gated) startedOnce() string {
	return differs("1", strconv.Itoa(strings.Count(g.said.String(), "started"))) + g.runs()
}

// TestStandbyLosesItsAddress removes the own address of a standby in mode Unicast, as at the end of a DHCP lease. The
// standby does not hear the holder any more. It does not take the VIP, also if it has the higher priority.
func TestStandbyLosesItsAddress(t *testing.T) {
	t.Parallel()
	for name, rank := range map[string]int{"lower priority": 1, "higher priority": 0} {
		t.Run(name, func(t *testing.T) {
			both := newLab(t).pair(func(settings *vip.NodeSettings) {
				onlyFamily(true)(settings)
				// The gate freezes Ironic if its node stalls for longer than the standby tolerates: 2 s with this interval.
				settings.AdvertisementInterval = vip.Duration(time.Second)
			})
			holder, standby := both[1-rank], both[rank]
			kept := startInTerm(t, holder, standby)
			keeps := func() string { return heldBy(holder, both...)() + kept.startedOnce() }
			standby.changeOwn((*netlink.Handle).AddrDel)
			throughout(t, 6*time.Second, "the standby does not hear the holder", keeps)
			if code, body := standby.get("/readyz"); code != http.StatusServiceUnavailable ||
				!strings.Contains(body, "no other address of the IP family of VIP 172.22.0.2") {
				t.Errorf("readyz of the standby says %d %s", code, body)
			}
			standby.changeOwn((*netlink.Handle).AddrAdd)
			eventually(t, generous, "the address is back", standby.ready)
			// keepalived begins after two seconds, and would claim the VIP from a silent holder after four more.
			throughout(t, 8*time.Second, "the standby hears the holder again", keeps)
			holder.write("etc/armed", "0\n")
			eventually(t, generous, "demotion", heldBy(standby, both...))
		})
	}
}

// TestHolderLosesItsAddress removes the own IPv6 address of the holder of an IPv6 VIP in mode Unicast. The holder cannot
// send advertisements. It keeps the VIP over a moment, and otherwise releases it before another node takes it.
func TestHolderLosesItsAddress(t *testing.T) {
	t.Parallel()
	both := newLab(t).pair(func(settings *vip.NodeSettings) {
		onlyFamily(false)(settings)
		settings.AdvertisementInterval = vip.Duration(time.Second)
	})
	holder, next := both[0], both[1]
	kept := startInTerm(t, holder, next)
	holder.changeOwn((*netlink.Handle).AddrDel)
	holder.changeOwn((*netlink.Handle).AddrAdd)
	throughout(t, 6*time.Second, "the address was missing for a moment", func() string {
		return heldBy(holder, both...)() + kept.startedOnce()
	})
	holder.changeOwn((*netlink.Handle).AddrDel)
	eventually(t, generous, "takeover", oneAtMost(heldBy(next, both...), both...))
	kept.isKilled(time.Now())
	throughout(t, 4*time.Second, "the next holder keeps the VIP", heldBy(next, both...))
	holder.changeOwn((*netlink.Handle).AddrAdd)
	eventually(t, generous, "the address is back", holder.ready)
	throughout(t, 4*time.Second, "the previous holder is a standby", heldBy(next, both...))
}
