package guard_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/vishvananda/netlink"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// cluster is a management side and two control-plane nodes with the real Ironic and dnsmasq, and a client.
type cluster struct {
	*lab
	m, a, b *node
	all     []*node
	kubelet map[*node]*kubelet
	client  *node
	api     *gophercloud.ServiceClient
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	root, dnsmasq := realIronic(t), requireDNSMasq(t)
	c := &cluster{lab: newLab(t), kubelet: map[*node]*kubelet{}}
	c.m, c.a, c.b, c.client = c.addNode("m"), c.addNode("a"), c.addNode("b"), c.addNode("client")
	c.all = []*node{c.m, c.a, c.b}
	for _, n := range c.all {
		role := vip.ControlPlane
		if n == c.m {
			role = vip.Management
		}
		n.configure(role, c.all...)
		n.startAPIServer()
		c.kubelet[n] = n.startKubelet(root)
		n.start()
		n.serveDHCP(dnsmasq)
	}
	c.api = c.client.api(vip4)
	return c
}

// known returns the names of the nodes that the Ironic of an address knows.
func (c *cluster) known(client *gophercloud.ServiceClient) ([]string, error) {
	pages, err := nodes.List(client, nodes.ListOpts{Fields: []string{"uuid", "name"}}).AllPages(c.t.Context())
	if err != nil {
		return nil, err
	}
	found, err := nodes.ExtractNodes(pages)
	names := []string{}
	for i := range found {
		names = append(names, found[i].Name)
	}
	return names, err
}

// knows returns nothing when the Ironic of an address answers and knows just these nodes.
func (c *cluster) knows(client *gophercloud.ServiceClient, want ...string) func() string {
	return func() string {
		names, err := c.known(client)
		if err != nil {
			return err.Error()
		}
		return differs(strings.Join(want, ","), strings.Join(names, ","))
	}
}

// TestRealIronic tells of a cluster that is moved, handed over and hit, with everything real that a host or an operator
// would notice: keepalived, dnsmasq and Ironic.
func TestRealIronic(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	machines := c.client.bootMachines(t)
	stopSearching := machines.search()
	board := c.client.startBoard(firstBoard)
	eventually(t, 2*time.Minute, "management holds the address", heldBy(c.m, c.all...))

	first, second := machines.lease(1), machines.lease(2)
	deployed := c.deploy(board)
	c.distrust(c.b)
	for _, n := range []*node{c.a, c.b} {
		n.annotate("true")
		eventually(t, generous, "the standby is armed", func() string { return differs("1", n.file("armed")) })
	}
	throughout(t, 2*time.Second, "all are armed", heldBy(c.m, c.all...))

	c.handOver(machines, first, second)
	c.adopt(board, deployed)
	// A server that has just started looks for three seconds whether the address is free that it is about to offer.
	next := c.holder("after the hand-over", c.all...)
	eventually(t, generous, "the next holder hands out addresses", machines.offered(next.address4))
	c.pullCable()
	// Divided, each side has a server, and when they meet again both may answer until one of them gives in.
	stopSearching()
	if servers := machines.judge(); !slices.Contains(servers, fmt.Sprint(c.m.address4)) || len(servers) < 2 {
		t.Errorf("only %v made offers, so this shows nothing about failing over", servers)
	}
	c.divide()
	c.loseOneFamily()
	c.takeBack()
}

// holder waits until one of the nodes has both addresses, and the others have none. Ranks lie so few milliseconds apart
// that a busy machine may turn them around.
func (c *cluster) holder(what string, among ...*node) *node {
	c.t.Helper()
	var found *node
	eventually(c.t, generous, what, oneAtMost(func() string {
		for _, n := range among {
			if found = n; heldBy(n, among...)() == "" {
				return ""
			}
		}
		return fmt.Sprintf("held by %q", holders(vip4, among...))
	}, among...))
	return found
}

// without are the others.
func (c *cluster) without(one *node) []*node {
	return slices.DeleteFunc(slices.Clone(c.all), func(n *node) bool { return n == one })
}

// The machines, by their names, and the ports of their boards.
const (
	firstMachine, firstBoard   = "metal3~host-0", 8000
	secondMachine, secondBoard = "metal3~host-1", 8001
)

// enrol makes a machine known to the holder.
func (c *cluster) enrol(name string, board int) *nodes.Node {
	c.t.Helper()
	node, err := nodes.Create(c.t.Context(), c.api, nodes.CreateOpts{
		Driver: "lab", Name: name, DriverInfo: map[string]any{
			"lab_address":  fmt.Sprintf("http://%s:%d", c.client.address4, board),
			"lab_username": "operator", "lab_password": "secret",
		},
	}).Extract()
	must(c.t, err)
	c.change(name, nodes.TargetManage, nodes.Manageable)
	return node
}

// beginDeploy has the holder bring a machine to work, which takes deploySeconds at least.
func (c *cluster) beginDeploy(name string, board int) *nodes.Node {
	c.t.Helper()
	sum := sha256.Sum256([]byte(imageContent))
	node := c.enrol(name, board)
	c.change(name, nodes.TargetProvide, nodes.Available)
	_, err := nodes.Update(c.t.Context(), c.api, node.UUID, nodes.UpdateOpts{nodes.UpdateOperation{
		Op: nodes.AddOp, Path: "/instance_info", Value: map[string]any{
			"image_source":       fmt.Sprintf("http://%s:%d/image", c.client.address4, board),
			"image_os_hash_algo": "sha256", "image_os_hash_value": hex.EncodeToString(sum[:]),
		},
	}}).Extract()
	must(c.t, err)
	c.change(name, nodes.TargetActive, nodes.Deploying)
	return node
}

// deploy brings a machine to work, through the holder.
func (c *cluster) deploy(board *board) *nodes.Node {
	c.t.Helper()
	eventually(c.t, generous, "Ironic answers on the address", c.knows(c.api))
	node := c.beginDeploy(firstMachine, firstBoard)
	c.reaches(firstMachine, nodes.Active)
	if sent := board.sent(); !slices.Contains(sent, "PUT /disk") || sent[len(sent)-1] != "power on" {
		c.t.Errorf("the deployment was %q", sent)
	}
	return node
}

// change asks for a provision state of a node and waits for it.
func (c *cluster) change(name string, target nodes.TargetProvisionState, want nodes.ProvisionState) {
	c.t.Helper()
	must(c.t, nodes.ChangeProvisionState(c.t.Context(), c.api, name, nodes.ProvisionStateOpts{Target: target}).ExtractErr())
	c.reaches(name, want)
}

// reaches waits for a provision state of a node.
func (c *cluster) reaches(name string, want nodes.ProvisionState) {
	c.t.Helper()
	eventually(c.t, time.Minute, string(want), func() string {
		node, err := nodes.Get(c.t.Context(), c.api, name).Extract()
		switch {
		case err != nil:
			return err.Error()
		case node.ProvisionState == string(want):
			return ""
		default:
			return fmt.Sprintf("%s: %s", node.ProvisionState, node.LastError)
		}
	})
}

// distrust gives the guard of a standby credentials, an authority and a cluster that its Ironic does not have.
func (c *cluster) distrust(n *node) {
	t := c.t
	eventually(t, 2*time.Minute, "the standby is well", n.ready)
	settings := n.settings
	stranger := issue(t, nil, time.Now().Add(time.Hour))
	for _, wrong := range []struct {
		reason       string
		damage, mend func()
	}{
		{"APIStatus", func() { n.write("etc/password", "guess\n") }, func() { n.write("etc/password", "secret\n") }},
		{
			"CertificateWrong", func() { n.write("etc/ca.crt", string(stranger.authority)) },
			func() { n.write("etc/ca.crt", string(c.issued.authority)) },
		},
		{
			"ForeignConductor", func() {
				foreign := settings
				foreign.ClusterID = "another"
				n.use(foreign)
			}, func() { n.use(settings) },
		},
	} {
		wrong.damage()
		eventually(t, generous, wrong.reason, func() string {
			if !strings.Contains(n.metric("probe_failures_total"), `"`+wrong.reason+`"`) {
				return n.metric("probe_failures_total")
			}
			return differs("0", n.file("ironic-ok"))
		})
		wrong.mend()
	}
	eventually(t, generous, "all is right again", n.ready)
}

// handOver demotes the management side in the middle of a deployment. Leases survive, what Ironic knew does not, and
// what the Ironic of before was about to do it does no more.
func (c *cluster) handOver(machines *machines, first, second answer) {
	t := c.t
	board := c.client.startBoard(secondBoard)
	before := c.kubelet[c.m].count()
	c.beginDeploy(secondMachine, secondBoard)
	board.sent()
	began := time.Now()
	c.m.write("etc/armed", "0\n")
	eventually(t, generous, "demotion", nobody(c.m))
	holder := c.holder("demotion", c.all...)
	c.kubelet[c.m].killed(before)
	throughout(t, time.Until(began.Add((deploySeconds+2)*time.Second)), "nobody goes on with the deployment", func() string {
		return strings.Join(board.sent(), ",")
	})

	rebooted := machines.initReboot(2, second.address)
	link, err := c.client.links.LinkByName("eth0")
	must(t, err)
	leased, err := netlink.ParseAddr(first.address.String() + "/24")
	must(t, err)
	must(t, c.client.links.AddrAdd(link, leased))
	rebound := machines.rebind(1, first.address)
	for what, said := range map[string][2]answer{"REBIND": {first, rebound}, "INIT-REBOOT": {second, rebooted}} {
		if said[1].kind != ackKind || said[1].address != said[0].address || said[1].server != holder.address4 {
			t.Errorf("%s of a lease of %s: the answer is %+v, want an ACK of %s", what, said[0].server, said[1], holder.address4)
		}
	}
	eventually(t, 2*time.Minute, "the demoted Ironic is empty", c.knows(c.m.api(everyAddress)))
}

// adopt is what an operator does when it finds its nodes gone. Nothing of it touches the machine.
func (c *cluster) adopt(board *board, before *nodes.Node) {
	t := c.t
	eventually(t, generous, "the next Ironic answers and knows nothing", c.knows(c.api))
	_, err := nodes.Get(t.Context(), c.api, before.UUID).Extract()
	if !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("the node of before: %v, want 404", err)
	}
	board.sent()
	c.enrol(before.Name, firstBoard)
	c.change(before.Name, nodes.TargetAdopt, nodes.Active)
	if sent := board.sent(); len(sent) > 0 {
		t.Errorf("adopting changed the machine: %q", sent)
	}
}

// pullCable takes the carrier from the holder, and gives it back.
func (c *cluster) pullCable() {
	t := c.t
	holder := c.holder("before", c.all...)
	before := c.kubelet[holder].count()
	holder.turnPort(false)
	eventually(t, generous, "the cable is out", nobody(holder))
	next := c.holder("the cable is out", c.all...)
	c.kubelet[holder].killed(before)
	holder.turnPort(true)
	eventually(t, 2*time.Minute, "the node is back", holder.ready)
	throughout(t, 2*time.Second, "it takes nothing back", heldBy(next, c.all...))
	eventually(t, generous, "its Ironic is empty", c.knows(holder.api(everyAddress)))
}

// divide cuts the holder off from the others, while all have a carrier: both sides serve, until they are one again.
func (c *cluster) divide() {
	t := c.t
	holder := c.holder("before", c.all...)
	eventually(t, generous, "Ironic answers", c.knows(c.api))
	_, err := nodes.Create(t.Context(), c.api, nodes.CreateOpts{Driver: "fake-hardware", Name: "before-the-cut"}).Extract()
	must(t, err)
	starts := map[*node]int{}
	for _, n := range c.all {
		starts[n] = c.kubelet[n].count()
	}
	holder.move("br1")
	second := c.holder("the other side has a holder", c.without(holder)...)
	throughout(t, time.Second, "each side has one", func() string {
		return heldBy(holder, holder)() + heldBy(second, c.without(holder)...)()
	})
	holder.move("br0")
	winner, loser := holder, second
	eventually(t, generous, "one of them gives in", func() string {
		if nobody(holder)() == "" {
			winner, loser = second, holder
		}
		return heldBy(winner, c.all...)()
	})
	throughout(t, 2*time.Second, "one is left", heldBy(winner, c.all...))
	c.kubelet[loser].killed(starts[loser])
	eventually(t, 2*time.Minute, "it is empty", c.knows(loser.api(everyAddress)))
	if count := c.kubelet[winner].count(); count != starts[winner] {
		t.Errorf("the Ironic of the winner %s was started %d times, %d before the cut", winner.name, count, starts[winner])
	}
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
	holder := c.holder("before", c.all...)
	lost := transitions(holder, "backup")
	link, err := holder.links.LinkByName("eth0")
	must(t, err)
	address, err := netlink.ParseAddr(vip6.String() + "/128")
	must(t, err)
	must(t, holder.links.AddrDel(link, address))
	eventually(t, generous, "the holder notices", func() string { return greater(transitions(holder, "backup"), lost) })
	c.holder("both addresses are together again", c.all...)
}

// takeBack arms the management side again.
func (c *cluster) takeBack() {
	eventually(c.t, 2*time.Minute, "management is well", c.m.ready)
	must(c.t, os.Remove(c.m.path("etc", "armed")))
	eventually(c.t, generous, "management takes the address back", heldBy(c.m, c.all...))
}

// TestIPv6Only moves an address that has no other family beside it.
func TestIPv6Only(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.addNode("a"), l.addNode("b")
	l.issued = issue(t, []net.IP{net.ParseIP(vip6.String())}, time.Now().Add(time.Hour))
	both := []*node{a, b}
	for _, n := range both {
		n.configure(vip.ControlPlane, both...)
		settings := n.settings
		settings.VirtualIPs, settings.Takeover = settings.VirtualIPs[1:], vip.Always
		settings.Peers = []netip.Addr{a.address6, b.address6}
		n.use(settings)
		n.startAPIServer()
		n.startIronic()
		n.start()
	}
	held := func(want *node) func() string {
		return func() string { return differs(want.name, holders(vip6, both...)) + holders(vip4, both...) }
	}
	var holder, other *node
	eventually(t, generous, "one of them holds it", func() string {
		for i, n := range both {
			if held(n)() == "" {
				holder, other = n, both[1-i]
				return other.ready()
			}
		}
		return "nobody"
	})
	holder.write("etc/armed", "0\n")
	eventually(t, generous, "demotion", held(other))
	must(t, os.Remove(holder.path("etc", "armed")))
	throughout(t, 2*time.Second, "armed again", held(other))
	other.stopIronic()
	eventually(t, generous, "Ironic died", held(holder))
}
