package guard_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/vishvananda/netlink"
)

// TestPivot builds a cluster, moves it, hands the VIP over and moves it back, with the real keepalived, dnsmasq and
// Ironic.
func TestPivot(t *testing.T) {
	t.Parallel()
	c := newCluster(t, func(n *node) {
		if n.name == "m" {
			n.write("etc/armed", "0\n")
		}
	}, "m", "a", "b")
	m, standbys := c.all[0], c.all[1:]
	machines := c.client.bootMachines(t)
	machines.search()
	c.isUnarmed()

	must(t, os.Remove(m.path("etc", "armed")))
	eventually(t, generous, "management alone is armed", heldBy(m, c.all...))
	eventually(t, generous, "clients reach management", c.serves(m))
	bmcs := c.client.startBMCs()
	running, started := bmcs.compute(0), bmcs.compute(1)
	first, second := machines.lease(1), machines.lease(2)
	deployed := c.deploy(running)
	c.arm(m, standbys...)

	c.handOver(m, started, machines, first, second)
	c.adopt(running, deployed)
	// A server that has just started probes for three seconds whether the offered address is free.
	next := c.holder("after the handover", c.all...)
	eventually(t, generous, "the next holder offers leases", machines.offered(next.address4))
	machines.judge()
	c.moveBack(m)
}

// isUnarmed is the time before any node is armed. The guard of one standby gets a wrong cluster meanwhile, which has
// no effect.
func (c *cluster) isUnarmed() {
	t := c.t
	for _, n := range c.all {
		eventually(t, patient, "the guard takes part", n.ready)
	}
	began := time.Now()
	c.misconfigure(c.all[len(c.all)-1])
	throughout(t, time.Until(began.Add(5*time.Second)), "no node is armed", noHolder(c.all...))
	for _, n := range c.all {
		if held := transitions(n, "holder"); held != "0" {
			t.Errorf("%s held the VIP %s times while no node was armed", n.name, held)
		}
	}
}

// arm arms the nodes, as the controller does after the move. The management node keeps the VIP, and clients are not
// interrupted.
func (c *cluster) arm(m *node, standbys ...*node) {
	t := c.t
	meter := c.watch(t, 2*time.Second)
	defer meter.stop()
	eventually(t, generous, "a client reaches management", func() string { return differs(m.name, meter.now()) })
	began := time.Now()
	for _, n := range standbys {
		n.annotate("true")
	}
	for _, n := range standbys {
		eventually(t, generous, "armed by the annotation", func() string { return differs("1", n.file("armed")) })
	}
	throughout(t, 4*time.Second, "all are armed", heldBy(m, c.all...))
	if outage := meter.outage(began); outage > 0 {
		t.Errorf("arming the control plane interrupted clients for %s", outage)
	}
}

// misconfigure configures the guard of a standby with another cluster than its Ironic.
func (c *cluster) misconfigure(n *node) {
	t := c.t
	settings, foreign := n.settings, n.settings
	foreign.ClusterID = "another"
	n.use(foreign)
	eventually(t, generous, "the guard reports its Ironic as unhealthy", func() string {
		if !strings.Contains(n.metric("probe_failures_total"), `"ForeignConductor"`) {
			return n.metric("probe_failures_total")
		}
		return differs("0", n.file("ironic-ok"))
	})
	n.use(settings)
	eventually(t, generous, "the node is ready again", n.ready)
}

// handOver demotes the management node during a deployment. DHCP leases survive, the database of Ironic does not, and
// the previous Ironic does not continue the deployment.
func (c *cluster) handOver(m *node, started *computed, machines *machines, first, second net.IP) {
	t := c.t
	census := c.takeCensus(t, c.client, c.all...)
	before := m.kubelet.count()
	goOn := c.inTheMiddle(started)
	changes := started.bmcs.changes()
	began := time.Now()
	m.write("etc/armed", "0\n")
	eventually(t, generous, "demotion", noHolder(m))
	holder := c.holder("demotion", c.all...)
	eventually(t, generous, "the network has learnt the next holder", func() string { return differs(holder.name, census.holder()) })
	if overlap := census.overlap(began, m.name); overlap > 0 {
		t.Errorf("management answered for the VIP for %s after the first answer of %s", overlap, holder.name)
	}
	eventually(t, generous, "the track files of both nodes are updated", func() string {
		return differs("0", m.file("holder")) + differs("1", holder.file("holder"))
	})
	m.kubelet.killed(before)
	goOn()

	rebooted := machines.initReboot(2, second)
	link, err := c.client.links.LinkByName("eth0")
	must(t, err)
	leased, err := netlink.ParseAddr(first.String() + "/24")
	must(t, err)
	must(t, c.client.links.AddrAdd(link, leased))
	rebound := machines.rebind(1, first)
	for _, renewed := range []struct {
		lease net.IP
		said  *dhcpv4.DHCPv4
	}{{first, rebound}, {second, rebooted}} {
		if renewed.said.MessageType() != dhcpv4.MessageTypeAck || !renewed.said.YourIPAddr.Equal(renewed.lease) ||
			serverOf(renewed.said) != holder.address4 {
			t.Errorf("the lease of %s is not acknowledged by %s: %s", renewed.lease, holder.address4, renewed.said.Summary())
		}
	}
	eventually(t, generous, "the agent has written the image", func() string {
		image, _ := started.Disk()
		return differs(fmt.Sprint(true), fmt.Sprint(image != ""))
	})
	throughout(t, 2*time.Second, "no Ironic continues the deployment", func() string {
		return differs(fmt.Sprint(changes), fmt.Sprint(started.bmcs.changes()))
	})
}

// inTheMiddle begins a deployment, and returns when the agent waits for the image. The returned function serves the
// image.
func (c *cluster) inTheMiddle(of *computed) (goOn func()) {
	c.t.Helper()
	goOn, err := of.bmcs.HoldImage(imageName)
	must(c.t, err)
	c.t.Cleanup(goOn)
	c.beginDeploy(of)
	eventually(c.t, time.Minute, "the agent waits for the image", func() string {
		return differs("1", fmt.Sprint(of.bmcs.Held(imageName)))
	})
	return goOn
}

// adopt adopts a node as BMO does after it lost its registration. It does not affect the machine.
func (c *cluster) adopt(running *computed, before *nodes.Node) {
	t := c.t
	eventually(t, patient, "the next Ironic answers and is empty", c.registered(c.api))
	_, err := nodes.Get(t.Context(), c.api, before.UUID).Extract()
	if !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("the previous node: %v, want 404", err)
	}
	changes := running.bmcs.changes()
	c.enrol(running)
	c.change(before.Name, nodes.TargetAdopt, nodes.Active)
	if now := running.bmcs.changes(); now != changes {
		t.Errorf("adopting made %d changes on a BMC", now-changes)
	}
	if did := running.Happened(); did != "" {
		t.Errorf("during the adoption the machine did %q", did)
	}
}

// moveBack arms the management node again, whose Ironic is empty.
func (c *cluster) moveBack(m *node) {
	eventually(c.t, patient, "management is ready", m.ready)
	eventually(c.t, patient, "the demoted Ironic is empty", c.registered(m.api(everyAddress)))
	must(c.t, os.Remove(m.path("etc", "armed")))
	eventually(c.t, generous, "management holds the VIP again", heldBy(m, c.all...))
}
