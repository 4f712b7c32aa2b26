package guard_test

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// TestInterfaceMayComeLate starts the guard before its interface exists, and deletes the interface later.
func TestInterfaceMayComeLate(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n, absent := l.addNode("n"), l.addNode("absent")
	link, err := n.links.LinkByName("eth0")
	must(t, err)
	must(t, n.links.LinkDel(link))
	n.configure(vip.Management, n, absent)
	n.startAPIServer()
	n.startIronic()
	n.start()
	eventually(t, generous, "the guard waits", func() string {
		if code, body := n.get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "interface") {
			return fmt.Sprint("readyz says ", code, " ", body)
		}
		return ""
	})
	if code, body := n.get("/livez"); code != http.StatusOK {
		t.Errorf("livez says %d %s while the guard waits for its interface", code, body)
	}
	n.plug("eth0")
	eventually(t, generous, "the interface came", heldBy(n, n))
	link, err = n.links.LinkByName("eth0")
	must(t, err)
	must(t, n.links.LinkDel(link))
	eventually(t, generous, "the interface went", func() string { return differs("0", n.file("holder")) })
	n.plug("eth0")
	eventually(t, generous, "another interface of the same name came", heldBy(n, n))
}

// TestEnvironment runs two nodes with three variables instead of settings.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.addNode("a"), l.addNode("b")
	for _, n := range []*node{a, b} {
		n.variables = []string{"PROVISIONING_IP=172.22.0.2", "PROVISIONING_CIDR=24", "PROVISIONING_INTERFACE=eth0"}
		n.flags = []string{"--state", n.path("run")}
		n.start()
	}
	one := func() string {
		if holder := holders(vip4, a, b); holder != "a" && holder != "b" {
			return fmt.Sprintf("held by %q", holder)
		}
		return ""
	}
	eventually(t, generous, "one node holds the VIP", one)
	throughout(t, 2*time.Second, "the other node does not", one)
	first, second := a, b
	if holders(vip4, a, b) == "b" {
		first, second = b, a
	}
	first.signal(syscall.SIGTERM)
	eventually(t, generous, "the other node takes over", func() string { return differs(second.name, holders(vip4, a, b)) })
	link, err := second.links.LinkByName("eth0")
	must(t, err)
	entries, err := second.links.AddrList(link, netlink.FAMILY_V4)
	must(t, err)
	if listed := fmt.Sprint(entries); !strings.Contains(listed, "172.22.0.2/24") {
		t.Errorf("the VIP has another prefix: %s", listed)
	}
}

// TestSilence claims the VIP while the management cluster is silent, and releases it when it advertises.
func TestSilence(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	m, a := l.addNode("m"), l.addNode("a")
	m.configure(vip.Management, m, a)
	a.configure(vip.ControlPlane, m, a)
	settings := a.settings
	settings.TakeoverAfterSilence = vip.Duration(4 * time.Second)
	a.use(settings)
	for _, n := range []*node{m, a} {
		n.startAPIServer()
		n.startIronic()
	}
	m.start()
	eventually(t, generous, "management holds the VIP", heldBy(m, m, a))
	a.start()
	eventually(t, generous, "the guard takes part", a.ready)
	throughout(t, 6*time.Second, "management is heard", heldBy(m, m, a))
	m.signal(syscall.SIGTERM)
	<-m.ended
	eventually(t, generous, "management is silent", heldBy(a, m, a))
	a.signal(syscall.SIGTERM)
	<-a.ended
	a.start()
	eventually(t, generous, "a restart keeps the silence", heldBy(a, m, a))
	m.start()
	eventually(t, generous, "management is back", heldBy(m, m, a))
	eventually(t, generous, "the node is not armed any more", func() string { return differs("0", a.file("armed")) })
}

// TestSlowAdvertisements uses a long interval. A new holder that still hears the previous one keeps the VIP.
func TestSlowAdvertisements(t *testing.T) {
	t.Parallel()
	both := newLab(t).pair(func(settings *vip.NodeSettings) { settings.AdvertisementInterval = vip.Duration(time.Second) })
	a, b := both[0], both[1]
	a.start()
	eventually(t, generous, "the first node holds the VIP", heldBy(a, both...))
	b.start()
	eventually(t, generous, "the second node takes part", b.ready)
	a.write("etc/armed", "0\n")
	eventually(t, generous, "demotion", heldBy(b, both...))
	throughout(t, 6*time.Second, "the new holder keeps the VIP", heldBy(b, both...))
}

// TestOneAddress has a VIP that cannot be added. The other VIP keeps its lease.
func TestOneAddress(t *testing.T) {
	t.Parallel()
	_, n := alone(t)
	for _, pid := range n.keepalivedProcesses() {
		must(t, syscall.Kill(pid, syscall.SIGSTOP))
		defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	}
	link, err := n.links.LinkByName("eth0")
	must(t, err)
	for _, text := range []string{vip4.String() + "/24", vip6.String() + "/128"} {
		parsed, err := netlink.ParseAddr(text)
		must(t, err)
		must(t, n.links.AddrDel(link, parsed))
	}
	eventually(t, generous, "the guard reports it", func() string { return differs("0", n.file("holder")) })
	one, err := netlink.ParseAddr(vip4.String() + "/24")
	must(t, err)
	const missing = "the VIP is missing"
	lease := func() string {
		entries, err := n.links.AddrList(link, netlink.FAMILY_V4)
		must(t, err)
		for _, entry := range entries {
			if entry.IP.String() != vip4.String() {
				continue
			}
			if entry.ValidLft == math.MaxUint32 {
				return "the VIP has no lease"
			}
			return ""
		}
		return missing
	}
	// A renewal that began before the VIP was removed may remove it once more.
	eventually(t, generous, "the guard adds a lease", lasting(time.Second, func() string {
		left := lease()
		if left == missing {
			must(t, n.links.AddrReplace(link, one))
		}
		return left
	}))
	throughout(t, 4*time.Second, "the guard extends the lease", lease)
}

// TestForeignSpeaker has a speaker for the VIP that keepalived ignores and that does not hear the holder. The holder
// keeps the VIP.
func TestForeignSpeaker(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason   string
		unicast  bool
		priority byte
	}{
		"another priority": {"no member has this priority", false, 5},
		// The packets of speak have a hop limit of 1.
		"routed":      {"members send their packets with the highest hop limit, which routers decrease", false, 100},
		"routed peer": {"peers are in the network too", true, 100},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			n, foreign := l.addNode("n"), l.addNode("foreign")
			n.configure(vip.ControlPlane, n, foreign)
			settings := n.settings
			if settings.Takeover = vip.Always; !test.unicast {
				settings.Mode, settings.Peers = vip.Multicast, nil
			}
			n.use(settings)
			n.startAPIServer()
			n.startIronic()
			n.start()
			eventually(t, generous, "the node holds the VIP", heldBy(n, n))
			stop := foreign.speak([]byte{0x31, 51, test.priority, 1, 0, 20, 0, 0, 172, 22, 0, 2})
			defer stop()
			want := fmt.Sprintf(`metal3_guard_foreign_speaker{source=%q} 1`, foreign.address4)
			eventually(t, generous, test.reason, func() string { return differs(want, n.metric("foreign_speaker")) })
			lost := transitions(n, "backup")
			throughout(t, 6*time.Second, "the node keeps the VIP", heldBy(n, n))
			if again := transitions(n, "backup"); again != lost {
				t.Errorf("the node lost the VIP: %s times, before %s", again, lost)
			}
		})
	}
}

// TestMulticast requires that a node recognizes the advertisements of a member in both IP families.
func TestMulticast(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.addNode("a"), l.addNode("b")
	for _, n := range []*node{a, b} {
		n.configure(vip.ControlPlane, a, b)
		settings := n.settings
		settings.Takeover, settings.Mode, settings.Peers = vip.Always, vip.Multicast, nil
		n.use(settings)
		n.startAPIServer()
		n.startIronic()
		n.start()
		if n == a {
			eventually(t, generous, "the first node holds the VIP", heldBy(a, a, b))
		}
	}
	for _, source := range []string{a.address4.String(), "fe80:"} {
		eventually(t, generous, "the second node hears the first", func() string {
			if heard := b.metric("peer_last_seen_timestamp_seconds"); !strings.Contains(heard, source) {
				return fmt.Sprintf("%s is not in %q", source, heard)
			}
			return ""
		})
	}
	if foreign := b.metric("foreign_speaker"); foreign != "" {
		t.Errorf("a member counts as foreign: %s", foreign)
	}
}

// speak sends an advertisement ten times a second until stop is called.
func (n *node) speak(advertisement []byte) (stop func()) {
	t := n.lab.t
	var connection net.PacketConn
	must(t, within(n.space, func() (err error) {
		connection, err = (&net.ListenConfig{}).ListenPacket(t.Context(), "ip4:112", n.address4.String())
		return err
	}))
	// The checksum of version 3 covers the addresses of the packet. keepalived checks it, the guard does not.
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticks := time.NewTicker(100 * time.Millisecond)
		defer ticks.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticks.C:
				_, _ = connection.WriteTo(advertisement, &net.IPAddr{IP: net.IPv4(224, 0, 0, 18)})
			}
		}
	}()
	return func() {
		close(done)
		<-ended
		_ = connection.Close()
	}
}
