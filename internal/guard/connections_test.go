package guard_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
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
		"Killed": func(n *node) {
			n.signal(syscall.SIGKILL)
			<-n.ended
			eventually(t, generous, "the lease ends", noHolder(n))
			n.start()
		},
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
			pod, outside := addPod(a), l.addNode("outside").space
			a.start()
			eventually(t, generous, "the first node has the VIP", heldBy(a, a))
			b.start()
			eventually(t, generous, "the second node is ready", b.ready)
			before := serveEcho(t, a)
			serveEcho(t, b)
			inPod, onNode, onNetwork := connect(t, pod), connect(t, a.space), connect(t, outside)

			leave(a)
			eventually(t, generous, "the second node has the VIP", heldBy(b, a, b))
			for where, connection := range map[string]net.Conn{"in the pod": inPod, "on the node": onNode} {
				must(t, connection.SetDeadline(time.Now().Add(generous)))
				_, err := connection.Write([]byte("x"))
				if err == nil {
					_, err = connection.Read(make([]byte, 1))
				}
				if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the connection of the client %s does not end: %v", where, err)
				}
			}
			if err := before.ending(onNetwork.LocalAddr()); err != nil {
				t.Errorf("the connection of a client on the network of the VIP has ended: %v", err)
			}
		})
	}
}

// addPod connects a network namespace to a node, which forwards and masquerades its packets.
func addPod(on *node) netns.NsHandle {
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
	must(t, inPod.RouteAdd(&netlink.Route{Gw: net.IPv4(10, 244, 0, 1)}))
	must(t, within(on.space, func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600)
	}))
	rules, err := nftables.New(nftables.WithNetNSFd(int(on.space)))
	must(t, err)
	table := rules.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "pods"})
	chain := rules.AddChain(&nftables.Chain{
		Name: "postrouting", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting,
		Priority: nftables.ChainPriorityNATSource,
	})
	rules.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{10, 244, 0, 2}},
		&expr.Masq{},
	}})
	must(t, rules.Flush())
	return pod
}

const echoPort = 7000

// echo is a service that returns the bytes of all connections.
type echo struct {
	mutex sync.Mutex
	// endings has the errors of connections that have ended, by client.
	endings map[string]error
}

// serveEcho runs the service on a node until the test ends.
func serveEcho(t *testing.T, on *node) *echo {
	t.Helper()
	e := &echo{endings: map[string]error{}}
	listener := on.listen(fmt.Sprintf(":%d", echoPort))
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = connection.Close() })
			go e.serve(connection)
		}
	}()
	return e
}

func (e *echo) serve(connection net.Conn) {
	received := make([]byte, 1)
	for {
		_, err := connection.Read(received)
		if err == nil {
			_, err = connection.Write(received)
		}
		if err != nil {
			e.mutex.Lock()
			e.endings[connection.RemoteAddr().String()] = err
			e.mutex.Unlock()
			return
		}
	}
}

// ending returns the error that has ended the connection of a client.
func (e *echo) ending(client net.Addr) error {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.endings[client.String()]
}

// connect connects to the VIP from a namespace, and waits until the service has returned a byte.
func connect(t *testing.T, from netns.NsHandle) net.Conn {
	t.Helper()
	var connection net.Conn
	must(t, within(from, func() (err error) {
		connection, err = (&net.Dialer{Timeout: generous}).DialContext(context.Background(), "tcp4",
			netip.AddrPortFrom(vip4, echoPort).String())
		return err
	}))
	t.Cleanup(func() { _ = connection.Close() })
	must(t, connection.SetDeadline(time.Now().Add(generous)))
	_, err := connection.Write([]byte("x"))
	must(t, err)
	_, err = connection.Read(make([]byte, 1))
	must(t, err)
	return connection
}
