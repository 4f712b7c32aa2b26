package guard_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/vishvananda/netlink"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// TestAccidents causes common faults in a control plane with the real programs of TestPivot. A node that recovers
// does not claim the VIP. It runs before the parallel tests: beside the Ironics of other tests, a crashed Ironic may
// take longer to start again than health.Patience, and its node would rightly lose the VIP.
func TestAccidents(t *testing.T) {
	c := newCluster(t, func(n *node) {
		settings := n.settings
		settings.Takeover = vip.Always
		n.use(settings)
	}, "a", "b")
	machines := c.client.bootMachines(t)
	stopSearching := machines.search()
	for _, n := range c.all {
		eventually(t, patient, "the guard takes part", n.ready)
	}

	c.killHolder()
	c.crashIronic()
	next := c.pullCable()
	eventually(t, generous, "the next holder offers leases", machines.offered(next.address4))
	// While the network is divided, both sides have a DHCP server. After that both may answer until one of them
	// releases the VIP.
	stopSearching()
	if servers := machines.judge(); len(servers) < len(c.all) {
		t.Errorf("only %v made offers, so the test saw no failover", servers)
	}
	c.divide()
	c.loseOneFamily()
}

func (c *cluster) killHolder() {
	t := c.t
	holder := c.holder("before", c.all...)
	next := c.without(holder)[0]
	eventually(t, patient, "the guard renews the lease", leased(holder))
	killAll(t, holder)
	eventually(t, generous, "takeover after a kill", heldBy(next, c.without(holder)...))
	eventually(t, generous, "the kernel removes the VIP of the killed node", heldBy(next, c.all...))
	<-holder.ended
	holder.start()
	holder.serveDHCP(c.dnsmasq)
	eventually(t, generous, "clients reach the next", c.serves(next))
	c.comesBack(holder, next)
}

// crashIronic kills Ironic of the VIP holder. Ironic restarts in the same term and keeps its nodes.
func (c *cluster) crashIronic() {
	t := c.t
	holder := c.holder("before", c.all...)
	containers := holder.kubelet.count()
	eventually(t, generous, "Ironic answers", c.registered(c.api))
	_, err := nodes.Create(t.Context(), c.api, nodes.CreateOpts{Driver: "fake-hardware", Name: "before-the-crash"}).Extract()
	must(t, err)
	before := holder.kubelet.running()
	holder.kubelet.crash()
	eventually(t, generous, "Ironic answers again", func() string {
		if slices.Contains(holder.kubelet.ironics(), before[0]) {
			return "the previous Ironic still answers"
		}
		return c.registered(c.api, "before-the-crash")()
	})
	if count := holder.kubelet.count(); count != containers {
		t.Errorf("there were %d containers of Ironic before the crash, and %d after it", containers, count)
	}
	must(t, nodes.Delete(t.Context(), c.api, "before-the-crash").ExtractErr())
	throughout(t, time.Second, "the holder keeps the VIP", heldBy(holder, c.all...))
}

// comesBack waits until the former holder is a standby, and requires that the VIP stays on its current holder.
func (c *cluster) comesBack(n, holder *node) {
	eventually(c.t, patient, "the node is back", n.ready)
	throughout(c.t, 3*time.Second, "the former holder does not claim the VIP", heldBy(holder, c.all...))
}

// pullCable unplugs the cable of the holder, and plugs it in. It returns the next holder.
func (c *cluster) pullCable() *node {
	t := c.t
	holder := c.holder("before", c.all...)
	before := holder.kubelet.count()
	holder.turnPort(false)
	eventually(t, generous, "the cable is unplugged", noHolder(holder))
	next := c.holder("the cable is unplugged", c.all...)
	holder.kubelet.killed(before)
	lost := transitions(next, "backup")
	holder.turnPort(true)
	c.comesBack(holder, next)
	if again := transitions(next, "backup"); again != lost {
		t.Errorf("the next holder released the VIP when the cable was plugged in: %s", again)
	}
	eventually(t, patient, "its Ironic is empty", c.registered(holder.api(everyAddress)))
	return next
}

// TestCableReturns plugs the cable of the former holder in. Without a carrier, the kernel queues packets until it has
// the hardware addresses of the peers. The next holder must not receive these old packets.
func TestCableReturns(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.addNode("a"), l.addNode("b")
	both := []*node{a, b}
	for _, n := range both {
		n.configure(vip.ControlPlane, both...)
		settings := n.settings
		settings.Takeover = vip.Always
		n.use(settings)
		n.startAPIServer()
		n.startIronic()
		n.start()
		if n == a {
			eventually(t, generous, "the first node holds the VIP", heldBy(a, both...))
		}
	}
	eventually(t, generous, "the second node takes part", b.ready)
	a.turnPort(false)
	eventually(t, generous, "takeover", heldBy(b, both...))
	lost := transitions(b, "backup")
	a.turnPort(true)
	throughout(t, 4*time.Second, "the cable is back", heldBy(b, both...))
	if again := transitions(b, "backup"); again != lost {
		t.Errorf("the next holder released the VIP when the cable was plugged in: %s", again)
	}
}

// TestPortThatForwardsLate plugs the cable of a standby in. The switch forwards no packets at first, as with the
// spanning tree protocol. The standby does not take the VIP, so the database of the holder stays.
func TestPortThatForwardsLate(t *testing.T) {
	t.Parallel()
	both := newLab(t).pair(func(settings *vip.NodeSettings) { settings.AdvertisementInterval = vip.Duration(time.Second) })
	a, b := both[0], both[1]
	kept := startInTerm(t, a, b)
	b.turnPort(false)
	eventually(t, generous, "the cable is unplugged", func() string { return differs("0", b.file("ironic-ok")) })
	b.move("br1")
	b.turnPort(true)
	throughout(t, 10*time.Second, "the switch forwards no packets", noHolder(b))
	b.move("br0")
	eventually(t, generous, "the standby is back", b.ready)
	throughout(t, 4*time.Second, "the holder keeps the VIP", heldBy(a, both...))
	if said := kept.said.String(); strings.Count(said, "started") != 1 || kept.runs() != "" {
		t.Errorf("Ironic of the holder lost its database: %s", said)
	}
}

// divide separates the holder from the other nodes while all have a carrier. Both sides serve until the network is
// whole again. Then both databases end, because the controllers may have used either Ironic.
func (c *cluster) divide() {
	t := c.t
	holder := c.holder("before", c.all...)
	eventually(t, generous, "Ironic answers", c.registered(c.api))
	_, err := nodes.Create(t.Context(), c.api, nodes.CreateOpts{Driver: "fake-hardware", Name: "before-the-cut"}).Extract()
	must(t, err)
	starts := map[*node]int{}
	for _, n := range c.all {
		starts[n] = n.kubelet.count()
	}
	holder.move("br1")
	second := c.holder("the other side has a holder", c.without(holder)...)
	throughout(t, time.Second, "each side has a holder", func() string {
		return heldBy(holder, holder)() + heldBy(second, c.without(holder)...)()
	})
	holder.move("br0")
	for _, n := range []*node{holder, second} {
		n.kubelet.killed(starts[n])
	}
	next := c.settled("one holder remains", 2*time.Second)
	eventually(t, patient, "its Ironic is empty", c.registered(next.api(everyAddress)))
}

// move plugs the node into another, empty bridge of the switch.
func (n *node) move(bridge string) {
	t := n.lab.t
	link, err := n.lab.bridge.LinkByName(bridge)
	if err != nil {
		must(t, n.lab.bridge.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge}}))
		link, err = n.lab.bridge.LinkByName(bridge)
		must(t, err)
		must(t, n.lab.bridge.LinkSetUp(link))
	}
	port, err := n.lab.bridge.LinkByName("p-" + n.name + "-eth0")
	must(t, err)
	must(t, n.lab.bridge.LinkSetMaster(port, link))
}

// loseOneFamily removes one of the two VIPs from the holder. Both VIPs must stay on one node.
func (c *cluster) loseOneFamily() {
	t := c.t
	for _, n := range c.all {
		eventually(t, patient, "both nodes may hold the VIPs", n.ready)
	}
	holder := c.holder("before", c.all...)
	lost := transitions(holder, "backup")
	link, err := holder.links.LinkByName("eth0")
	must(t, err)
	address, err := netlink.ParseAddr(vip6.String() + "/128")
	must(t, err)
	must(t, holder.links.AddrDel(link, address))
	eventually(t, generous, "the holder notices", func() string { return greater(transitions(holder, "backup"), lost) })
	c.holder("one node holds both VIPs again", c.all...)
	// A node that loses the VIPs loses its Ironic too, so the first node that claims them may have to release them
	// again.
	eventually(t, patient, "clients reach both addresses on one node", func() string {
		for _, n := range c.all {
			if heldBy(n, c.all...)() == "" {
				return c.serves(n)()
			}
		}
		return "no node holds both"
	})
}

// TestIPv6Only moves an IPv6 VIP without an IPv4 VIP, with the real Ironic.
func TestIPv6Only(t *testing.T) {
	if testing.Short() {
		t.Skip("the nightly tests run one family alone, the short ones both together")
	}
	t.Parallel()
	root := realIronic(t)
	l := newLab(t)
	a, b := l.addNode("a"), l.addNode("b")
	l.issued = issue(t, []net.IP{net.ParseIP(vip6.String()), net.IPv4zero}, time.Now().Add(time.Hour))
	both := []*node{a, b}
	for _, n := range both {
		n.configure(vip.ControlPlane, both...)
		settings := n.settings
		settings.VirtualIPs, settings.Takeover = settings.VirtualIPs[1:], vip.Always
		settings.Peers = []netip.Addr{a.address6, b.address6}
		n.use(settings)
		n.startAPIServer()
		n.startKubelet(root)
		n.start()
	}
	client := l.addNode("client").client()
	client.Timeout = 5 * time.Second
	held := func(want *node) func() string {
		return func() string { return differs(want.name, holders(vip6, both...)) + holders(vip4, both...) }
	}
	serves := func(want *node) func() string {
		return func() string { return differs(want.name, answering(client, vip6)) }
	}
	for _, n := range both {
		eventually(t, patient, "the guard takes part", n.ready)
	}
	var holder, other *node
	eventually(t, generous, "one node holds the VIP", func() string {
		for i, n := range both {
			if held(n)() == "" {
				holder, other = n, both[1-i]
				return ""
			}
		}
		return fmt.Sprintf("held by %q", holders(vip6, both...))
	})
	eventually(t, generous, "a client reaches the holder", serves(holder))
	holder.write("etc/armed", "0\n")
	eventually(t, generous, "demotion", held(other))
	eventually(t, generous, "a client reaches the next", serves(other))
	must(t, os.Remove(holder.path("etc", "armed")))
	eventually(t, patient, "Ironic is back", holder.ready)
	throughout(t, 2*time.Second, "armed again", held(other))
	other.write("etc/armed", "0\n")
	eventually(t, generous, "demotion of the other", held(holder))
	eventually(t, generous, "a client reaches the first again", serves(holder))
}
