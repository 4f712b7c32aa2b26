package guard_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// TestConnectionsOfPods moves the VIP away from the node of a client while the client is connected to it. The program
// on that node keeps its side of the connection open, as a frozen Ironic does.
func TestConnectionsOfPods(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*node){
		"Unhealthy": func(n *node) { n.endIronic() },
		"Ended":     func(n *node) { n.signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			a, b := l.addNode("a"), l.addNode("b")
			for _, n := range []*node{a, b} {
				n.configure(vip.ControlPlane, a, b)
				n.write("etc/armed", "1\n")
				n.startIronic()
			}
			pod := addPod(a, b)
			a.start()
			eventually(t, generous, "the first node has the VIP", heldBy(a, a))
			b.start()
			eventually(t, generous, "the second node is ready", b.ready)
			service := fmt.Sprintf("%s:7000", vip4)
			accept(t, a.listen(":7000"))
			accept(t, b.listen(":7000"))
			var connection net.Conn
			must(t, within(pod, func() (err error) {
				connection, err = (&net.Dialer{Timeout: generous}).DialContext(context.Background(), "tcp4", service)
				return err
			}))
			defer func() { _ = connection.Close() }()
			echo(t, connection)

			leave(a)
			eventually(t, generous, "the second node has the VIP", heldBy(b, a, b))
			_, err := connection.Write([]byte("x"))
			must(t, err)
			must(t, connection.SetReadDeadline(time.Now().Add(generous)))
			if _, err := connection.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the client in the pod gets no answer of the next holder: %v", err)
			}
		})
	}
}

// addPod connects a network namespace to a node, which forwards its packets. The peer has a route to it.
func addPod(on, peer *node) netns.NsHandle {
	t := on.lab.t
	t.Helper()
	pod := newSpace(t)
	must(t, on.links.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "pod"}, PeerName: "eth0",
		PeerNamespace: netlink.NsFd(int(pod))}))
	inPod := linksIn(t, pod)
	for address, at := range map[string]struct {
		links  *netlink.Handle
		device string
	}{"10.244.0.1/24": {on.links, "pod"}, "10.244.0.2/24": {inPod, "eth0"}} {
		link, err := at.links.LinkByName(at.device)
		must(t, err)
		parsed, err := netlink.ParseAddr(address)
		must(t, err)
		must(t, at.links.AddrAdd(link, parsed))
		must(t, at.links.LinkSetUp(link))
	}
	_, pods, err := net.ParseCIDR("10.244.0.0/24")
	must(t, err)
	must(t, inPod.RouteAdd(&netlink.Route{Gw: net.IPv4(10, 244, 0, 1)}))
	must(t, peer.links.RouteAdd(&netlink.Route{Dst: pods, Gw: net.ParseIP(on.address4.String())}))
	must(t, within(on.space, func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600)
	}))
	return pod
}

// accept returns the bytes of all connections, until the test ends.
func accept(t *testing.T, listener net.Listener) {
	t.Helper()
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = connection.Close() })
			go func() {
				received := make([]byte, 1)
				for {
					if _, err := connection.Read(received); err != nil {
						return
					}
					_, _ = connection.Write(received)
				}
			}()
		}
	}()
}

// echo sends a byte, and waits until the service has returned it.
func echo(t *testing.T, connection net.Conn) {
	t.Helper()
	_, err := connection.Write([]byte("x"))
	must(t, err)
	must(t, connection.SetReadDeadline(time.Now().Add(generous)))
	_, err = connection.Read(make([]byte, 1))
	must(t, err)
}
