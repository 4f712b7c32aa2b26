package guard_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/vishvananda/netlink"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// TestAccidents tells of a control plane that is hit by what hits clusters, with everything real as in TestPivot. No
// program who comes back takes anything back.
func TestAccidents(t *testing.T) {
	t.Parallel()
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
	eventually(t, generous, "the next holder hands out addresses", machines.offered(next.address4))
	// Divided, each side has a server, and when they meet again both may answer until one of them gives in.
	stopSearching()
	if servers := machines.judge(); len(servers) < len(c.all) {
		t.Errorf("only %v made offers, so this shows nothing about failing over", servers)
	}
	c.divide()
	c.loseOneFamily()
}

// killHolder kills all processes of the holder at once.
func (c *cluster) killHolder() {
	t := c.t
	holder := c.holder("before", c.all...)
	next := c.without(holder)[0]
	eventually(t, patient, "the guard gives leases", leased(holder))
	killAll(t, holder)
	eventually(t, generous, "takeover after a kill", heldBy(next, c.without(holder)...))
	eventually(t, generous, "the leftover goes by itself", heldBy(next, c.all...))
	<-holder.ended
	holder.start()
	holder.serveDHCP(c.dnsmasq)
	eventually(t, generous, "clients reach the next", c.serves(next))
	c.comesBack(holder, next)
}

// crashIronic kills the Ironic of the holder. It comes back in its term, and knows its hosts.
func (c *cluster) crashIronic() {
	t := c.t
	holder := c.holder("before", c.all...)
	containers := holder.kubelet.count()
	eventually(t, generous, "Ironic answers", c.knows(c.api))
	_, err := nodes.Create(t.Context(), c.api, nodes.CreateOpts{Driver: "fake-hardware", Name: "before-the-crash"}).Extract()
	must(t, err)
	before := holder.kubelet.running()
	holder.kubelet.crash()
	eventually(t, generous, "Ironic answers again", func() string {
		if slices.Contains(holder.kubelet.ironics(), before[0]) {
			return "the Ironic of before is left"
		}
		return c.knows(c.api, "before-the-crash")()
	})
	if count := holder.kubelet.count(); count != containers {
		t.Errorf("there were %d containers of Ironic before the crash, and %d after it", containers, count)
	}
	must(t, nodes.Delete(t.Context(), c.api, "before-the-crash").ExtractErr())
	throughout(t, time.Second, "the holder keeps the VIP", heldBy(holder, c.all...))
}

// comesBack waits for the one that lost the address to be a standby, and demands that it leaves it where it is.
func (c *cluster) comesBack(n, holder *node) {
	eventually(c.t, patient, "the node is back", n.ready)
	throughout(c.t, 3*time.Second, "who comes back takes nothing", heldBy(holder, c.all...))
}

// pullCable unplugs the cable of the holder, and plugs it in. It returns the next holder.
func (c *cluster) pullCable() *node {
	t := c.t
	holder := c.holder("before", c.all...)
	before := holder.kubelet.count()
	holder.turnPort(false)
	eventually(t, generous, "the cable is out", noHolder(holder))
	next := c.holder("the cable is out", c.all...)
	holder.kubelet.killed(before)
	lost := transitions(next, "backup")
	holder.turnPort(true)
	c.comesBack(holder, next)
	if again := transitions(next, "backup"); again != lost {
		t.Errorf("the next holder gave the VIP up when the cable was back: %s", again)
	}
	eventually(t, patient, "its Ironic is empty", c.knows(holder.api(everyAddress)))
	return next
}

// TestCableReturns: the kernel keeps what a holder sends without a carrier, until it knows the hardware addresses of the
// peers again. The next holder must not hear that late.
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
			eventually(t, generous, "the first one holds the VIP", heldBy(a, both...))
		}
	}
	eventually(t, generous, "the second one takes part", b.ready)
	a.turnPort(false)
	eventually(t, generous, "takeover", heldBy(b, both...))
	lost := transitions(b, "backup")
	a.turnPort(true)
	throughout(t, 4*time.Second, "the cable is back", heldBy(b, both...))
	if again := transitions(b, "backup"); again != lost {
		t.Errorf("the next holder gave the VIP up when the cable was back: %s", again)
	}
}

// divide cuts the holder off from the others, while all have a carrier: both sides serve, until they are one again. No
// database of that time lasts, because it is unknown whose Ironic the controllers used.
func (c *cluster) divide() {
	t := c.t
	holder := c.holder("before", c.all...)
	eventually(t, generous, "Ironic answers", c.knows(c.api))
	_, err := nodes.Create(t.Context(), c.api, nodes.CreateOpts{Driver: "fake-hardware", Name: "before-the-cut"}).Extract()
	must(t, err)
	starts := map[*node]int{}
	for _, n := range c.all {
		starts[n] = n.kubelet.count()
	}
	holder.move("br1")
	second := c.holder("the other side has a holder", c.without(holder)...)
	throughout(t, time.Second, "each side has one", func() string {
		return heldBy(holder, holder)() + heldBy(second, c.without(holder)...)()
	})
	holder.move("br0")
	for _, n := range []*node{holder, second} {
		n.kubelet.killed(starts[n])
	}
	next := c.holder("one is left", c.all...)
	throughout(t, 2*time.Second, "one is left", heldBy(next, c.all...))
	eventually(t, patient, "its Ironic is empty", c.knows(next.api(everyAddress)))
}

// move plugs the node into another bridge of the switch, which has nothing else.
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

// loseOneFamily takes one of the two addresses from the holder: both stay together.
func (c *cluster) loseOneFamily() {
	t := c.t
	for _, n := range c.all {
		eventually(t, patient, "both may hold the addresses", n.ready)
	}
	holder := c.holder("before", c.all...)
	lost := transitions(holder, "backup")
	link, err := holder.links.LinkByName("eth0")
	must(t, err)
	address, err := netlink.ParseAddr(vip6.String() + "/128")
	must(t, err)
	must(t, holder.links.AddrDel(link, address))
	eventually(t, generous, "the holder notices", func() string { return greater(transitions(holder, "backup"), lost) })
	c.holder("both addresses are together again", c.all...)
	// A node that loses the VIPs loses its Ironic as well, so the first node that takes them may have to release them
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

// TestIPv6Only moves an address that has no other family beside it, with the real Ironic.
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
	eventually(t, generous, "one of them holds it", func() string {
		for i, n := range both {
			if held(n)() == "" {
				holder, other = n, both[1-i]
				return ""
			}
		}
		return fmt.Sprintf("held by %q", holders(vip6, both...))
	})
	eventually(t, generous, "a client reaches it", serves(holder))
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
