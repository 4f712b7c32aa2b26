package guard_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
)

// requireDNSMasq returns the program, or skips the test.
func requireDNSMasq(tb testing.TB) string {
	tb.Helper()
	program, err := exec.LookPath("dnsmasq")
	if err != nil {
		tb.Skip("requires dnsmasq: install the package dnsmasq-base")
	}
	return program
}

// serveDHCP runs dnsmasq behind the gate, with the configuration of the renderer, until the test ends.
func (n *node) serveDHCP(program string) {
	t := n.lab.t
	content, err := ironic.DNSMasq(ironic.Config{
		ClusterID: clusterID, VirtualIPs: []netip.Addr{vip4, vip6}, Interface: "eth0",
		Ports: ironic.Ports{API: 6385, Image: 6180, ImageTLS: 6183}, Images: ironic.Images{Guard: "guard"},
		DHCP: &ironic.DHCP{
			Range: ironic.Range{
				Begin: netip.MustParseAddr("172.22.0.100"), End: netip.MustParseAddr("172.22.0.200"),
				Network: netip.MustParsePrefix("172.22.0.0/24"),
			},
		},
	})
	must(t, err)
	must(t, os.MkdirAll(n.path("dhcp"), 0o755))
	n.write("etc/dnsmasq.conf", strings.ReplaceAll(string(content), ironic.StateDirectory, n.path()))
	guard := n.process
	ended := n.run(slices.Concat([]string{"gate", "--while-vip"}, n.place(), []string{
		"--", program, "--no-daemon", "--tftp-root=" + n.path("dhcp"), "--conf-file=" + n.path("etc", "dnsmasq.conf"),
	})...)
	gate := n.process
	n.process = guard
	t.Cleanup(func() {
		_ = gate.Process.Signal(syscall.SIGTERM)
		var killed *exec.ExitError
		if err := <-ended; err != nil && !(errors.As(err, &killed) && killed.String() == "signal: killed") {
			t.Errorf("the gate of dnsmasq on %s ended with %v", n.name, err)
		}
	})
}

// machines boot from the network behind one interface. The hardware address of machine N ends in N.
type machines struct {
	tb     testing.TB
	socket int

	mutex   sync.Mutex
	sent    int
	answers map[dhcpv4.TransactionID][]*dhcpv4.DHCPv4
}

func cardOf(machine byte) net.HardwareAddr { return net.HardwareAddr{0x02, 0x22, 0, 0, 1, machine} }

func serverOf(said *dhcpv4.DHCPv4) netip.Addr {
	address, _ := netip.AddrFromSlice(said.ServerIdentifier().To4())
	return address
}

// isOffer returns true for an offer to the searching machine.
func isOffer(said *dhcpv4.DHCPv4) bool {
	return said.MessageType() == dhcpv4.MessageTypeOffer && bytes.Equal(said.ClientHWAddr, cardOf(searching))
}

// bootMachines opens the port of DHCP clients on a node until the test ends.
func (n *node) bootMachines(tb testing.TB) *machines {
	tb.Helper()
	m := &machines{tb: tb, answers: map[dhcpv4.TransactionID][]*dhcpv4.DHCPv4{}}
	must(tb, within(n.space, func() error {
		var err error
		if m.socket, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return errors.Join(
			unix.SetsockoptString(m.socket, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "eth0"),
			unix.SetsockoptInt(m.socket, unix.SOL_SOCKET, unix.SO_BROADCAST, 1),
			unix.SetsockoptTimeval(m.socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}),
			unix.Bind(m.socket, &unix.SockaddrInet4{Port: dhcpv4.ClientPort}),
		)
	}))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		m.listen(stop)
	}()
	tb.Cleanup(func() {
		close(stop)
		<-stopped
		_ = unix.Close(m.socket)
	})
	return m
}

// send sends a request of a machine and returns the transaction. The answer is a broadcast: the machine has no
// address yet.
func (m *machines) send(machine byte, kind dhcpv4.MessageType, also ...dhcpv4.Modifier) dhcpv4.TransactionID {
	message, err := dhcpv4.New(append([]dhcpv4.Modifier{
		dhcpv4.WithMessageType(kind), dhcpv4.WithHwAddr(cardOf(machine)), dhcpv4.WithBroadcast(true), dhcpv4.WithNetboot,
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient")), dhcpv4.WithOption(dhcpv4.OptClientArch(iana.EFI_X86_64)),
	}, also...)...)
	if err != nil {
		m.tb.Errorf("creating a message: %v", err)
		return dhcpv4.TransactionID{}
	}
	m.mutex.Lock()
	m.sent++
	m.mutex.Unlock()
	// While the cable is unplugged, there is no receiver.
	_ = unix.Sendto(m.socket, message.ToBytes(), 0, &unix.SockaddrInet4{
		Port: dhcpv4.ServerPort, Addr: [4]byte{255, 255, 255, 255},
	})
	return message.TransactionID
}

func (m *machines) listen(stop <-chan struct{}) {
	packet := make([]byte, 1500)
	for {
		select {
		case <-stop:
			return
		default:
		}
		size, _, err := unix.Recvfrom(m.socket, packet, 0)
		if err != nil {
			continue
		}
		said, err := dhcpv4.FromBytes(packet[:size])
		if err != nil {
			continue
		}
		m.mutex.Lock()
		m.answers[said.TransactionID] = append(m.answers[said.TransactionID], said)
		m.mutex.Unlock()
	}
}

// to returns the answers to a transaction.
func (m *machines) to(transaction dhcpv4.TransactionID) []*dhcpv4.DHCPv4 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return slices.Clone(m.answers[transaction])
}

// exchange repeats a request until a server answers. A server first probes the address, and may just have started.
func (m *machines) exchange(what string, send func() dhcpv4.TransactionID) *dhcpv4.DHCPv4 {
	m.tb.Helper()
	var sent []dhcpv4.TransactionID
	var said *dhcpv4.DHCPv4
	next := time.Now()
	eventually(m.tb, generous, what, func() string {
		if now := time.Now(); now.After(next) {
			next = now.Add(time.Second)
			sent = append(sent, send())
		}
		for _, transaction := range sent {
			if answers := m.to(transaction); len(answers) > 0 {
				said = answers[0]
				return ""
			}
		}
		return "no answer"
	})
	return said
}

// lease gets an address for a machine.
func (m *machines) lease(machine byte) net.IP {
	m.tb.Helper()
	offer := m.exchange("an offer", func() dhcpv4.TransactionID { return m.send(machine, dhcpv4.MessageTypeDiscover) })
	given := m.exchange("a lease", func() dhcpv4.TransactionID {
		return m.send(machine, dhcpv4.MessageTypeRequest, dhcpv4.WithOptionCopied(offer, dhcpv4.OptionServerIdentifier),
			dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(offer.YourIPAddr)))
	})
	if offer.MessageType() != dhcpv4.MessageTypeOffer || given.MessageType() != dhcpv4.MessageTypeAck ||
		!given.YourIPAddr.Equal(offer.YourIPAddr) {
		m.tb.Fatalf("machine %d was offered %s and given %s", machine, offer.Summary(), given.Summary())
	}
	return given.YourIPAddr
}

// rebind requests the renewal of a lease from all servers, initReboot its validity after a restart.
func (m *machines) rebind(machine byte, address net.IP) *dhcpv4.DHCPv4 {
	m.tb.Helper()
	return m.exchange("an answer to REBIND", func() dhcpv4.TransactionID {
		return m.send(machine, dhcpv4.MessageTypeRequest, dhcpv4.WithClientIP(address))
	})
}

func (m *machines) initReboot(machine byte, address net.IP) *dhcpv4.DHCPv4 {
	m.tb.Helper()
	return m.exchange("an answer to INIT-REBOOT", func() dhcpv4.TransactionID {
		return m.send(machine, dhcpv4.MessageTypeRequest, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(address)))
	})
}

// searching is a machine that requests an address five times a second, and never accepts an offer.
const searching = 250

// search runs the searching machine until the test ends or stop is called. stop checks the answers.
func (m *machines) search() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticks := time.NewTicker(200 * time.Millisecond)
		defer ticks.Stop()
		for {
			m.send(searching, dhcpv4.MessageTypeDiscover)
			select {
			case <-quit:
				return
			case <-ticks.C:
			}
		}
	}()
	once := sync.OnceFunc(func() {
		close(quit)
		<-done
	})
	m.tb.Cleanup(once)
	return once
}

// offered returns nothing once a server has sent an offer to the searching machine.
func (m *machines) offered(server netip.Addr) func() string {
	return func() string {
		m.mutex.Lock()
		defer m.mutex.Unlock()
		for _, answers := range m.answers {
			if slices.ContainsFunc(answers, func(said *dhcpv4.DHCPv4) bool {
				return isOffer(said) && serverOf(said) == server
			}) {
				return ""
			}
		}
		return fmt.Sprintf("%s has offered nothing", server)
	}
}

// judge requires at most one answer to each request, and that all answers name the VIP. It returns the servers of
// offers to the searching machine.
func (m *machines) judge() []string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	servers, count := map[string]bool{}, 0
	for transaction, answers := range m.answers {
		if len(answers) > 1 {
			m.tb.Errorf("transaction %s has %d answers: %v", transaction, len(answers), answers)
		}
		for _, said := range answers {
			if next, _ := netip.AddrFromSlice(said.ServerIPAddr.To4()); next != vip4 {
				m.tb.Errorf("%s sends machines to %s, want %s", serverOf(said), next, vip4)
			}
			if isOffer(said) {
				count++
				servers[serverOf(said).String()] = true
			}
		}
	}
	m.tb.Logf("%d offers to %d requests, by %v", count, m.sent, slices.Sorted(maps.Keys(servers)))
	return slices.Sorted(maps.Keys(servers))
}
