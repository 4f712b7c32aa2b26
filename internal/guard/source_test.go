package guard_test

import (
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

// TestSourceBesideAPromotedVIP removes and adds the own address of a node with the VIP, so that the VIP becomes the
// primary address. The documented commands must give new connections the own address, and keep the VIP.
func TestSourceBesideAPromotedVIP(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/ironic-endpoint.md")
	must(t, err)
	commands := regexp.MustCompile(`(?m)^ip route replace .*$`).FindAllString(string(page), -1)
	if len(commands) != 2 {
		t.Fatalf("the documentation has the commands %q, want two", commands)
	}
	n := newLab(t).addNode("n")
	must(t, within(n.space, func() error {
		return os.WriteFile("/proc/sys/net/ipv4/conf/eth0/promote_secondaries", []byte("1"), 0o600)
	}))
	link, err := n.links.LinkByName("eth0")
	must(t, err)
	n.arrive()
	stamp := n.observe().Stamp(virtuals)
	own := n.own()[0]
	must(t, n.links.AddrDel(link, own))
	must(t, n.links.AddrAdd(link, own))
	must(t, n.links.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.IPv4(172, 22, 0, 1)}))
	n.connectsFrom(vip4.String())
	for _, command := range commands {
		words := strings.Fields(strings.NewReplacer("provisioning", "eth0", "172.22.0.21", n.address4.String()).Replace(command))
		must(t, within(n.space, func() error { return exec.CommandContext(t.Context(), words[0], words[1:]...).Run() }))
	}
	n.connectsFrom(n.address4.String())
	if after := n.observe(); !after.HasAny(virtuals) || after.Stamp(virtuals) != stamp {
		t.Errorf("the commands removed the VIP: %v", after.Addresses)
	}
	n.leave()
	n.connectsFrom(n.address4.String())
}

// connectsFrom requires the source of connections to the network of the VIP and beyond its router.
func (n *node) connectsFrom(want string) {
	t := n.lab.t
	t.Helper()
	for _, to := range []string{"172.22.0.99", "192.0.2.1"} {
		routes, err := n.links.RouteGet(net.ParseIP(to))
		must(t, err)
		if got := routes[0].Src.String(); got != want {
			t.Errorf("connections to %s come from %s, want %s", to, got, want)
		}
	}
}
