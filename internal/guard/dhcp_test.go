package guard_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
)

// Kinds of DHCP messages.
const (
	discoverKind, offerKind, requestKind, ackKind = 1, 2, 3, 5
)

// Options of DHCP.
const (
	wantedOption, kindOption, serverOption = 50, 53, 54
)

// requireDNSMasq returns its program, or skips.
func requireDNSMasq(tb testing.TB) string {
	tb.Helper()
	program, err := exec.LookPath("dnsmasq")
	if err != nil {
		tb.Skip("needs dnsmasq; install the package dnsmasq-base")
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
			Begin: netip.MustParseAddr("172.22.0.100"), End: netip.MustParseAddr("172.22.0.200"),
			Network: netip.MustParsePrefix("172.22.0.0/24"),
		},
	})
	must(t, err)
	must(t, os.MkdirAll(n.path("dhcp"), 0o755))
	n.write("etc/dnsmasq.conf", strings.NewReplacer(
		ironic.StateDirectory, n.path("dhcp"), "tftp-root=/tftpboot", "tftp-root="+n.path("dhcp")).Replace(string(content)))
	guard := n.process
	ended := n.run("gate", "--while-vip", "--settings="+n.path("etc", "guard.json"), "--",
		program, "--no-daemon", "--conf-file="+n.path("etc", "dnsmasq.conf"))
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

// answer is what a DHCP server said.
type answer struct {
	kind, machine byte
	server, next  netip.Addr
	address       netip.Addr
}

// machines are many machines that boot from the network, behind one interface: machine N has a hardware address that
// ends in N.
type machines struct {
	tb     testing.TB
	socket int

	mutex   sync.Mutex
	last    uint32
	answers map[uint32][]answer
}

// bootMachines opens the port of DHCP clients on a node until the test ends.
func (n *node) bootMachines(tb testing.TB) *machines {
	tb.Helper()
	m := &machines{tb: tb, answers: map[uint32][]answer{}}
	must(tb, within(n.space, func() error {
		var err error
		if m.socket, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return errors.Join(
			unix.SetsockoptString(m.socket, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "eth0"),
			unix.SetsockoptInt(m.socket, unix.SOL_SOCKET, unix.SO_BROADCAST, 1),
			unix.SetsockoptTimeval(m.socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}),
			unix.Bind(m.socket, &unix.SockaddrInet4{Port: 68}),
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

// send asks on behalf of a machine and returns the number of the transaction.
func (m *machines) send(machine, kind byte, current netip.Addr, options ...byte) uint32 {
	m.mutex.Lock()
	m.last++
	transaction := m.last
	m.mutex.Unlock()
	packet := make([]byte, 240)
	packet[0], packet[1], packet[2] = 1, 1, 6
	binary.BigEndian.PutUint32(packet[4:], transaction)
	binary.BigEndian.PutUint16(packet[10:], 0x8000) // answer to everybody: the machine has no address yet
	if current.IsValid() {
		copy(packet[12:], current.AsSlice())
	}
	copy(packet[28:], []byte{0x02, 0x22, 0, 0, 1, machine})
	copy(packet[236:], []byte{99, 130, 83, 99})
	packet = append(packet, kindOption, 1, kind, 55, 3, 1, 66, 67, 60, 9)
	packet = append(append(packet, "PXEClient"...), 93, 2, 0, 7)
	packet = append(append(packet, options...), 255)
	// While the cable is out there is nobody to send to.
	_ = unix.Sendto(m.socket, packet, 0, &unix.SockaddrInet4{Port: 67, Addr: [4]byte{255, 255, 255, 255}})
	return transaction
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
		if err != nil || size < 240 {
			continue
		}
		transaction, said := parseAnswer(packet[:size])
		m.mutex.Lock()
		m.answers[transaction] = append(m.answers[transaction], said)
		m.mutex.Unlock()
	}
}

func parseAnswer(packet []byte) (uint32, answer) {
	said := answer{machine: packet[33]}
	said.address, _ = netip.AddrFromSlice(packet[16:20])
	said.next, _ = netip.AddrFromSlice(packet[20:24])
	for rest := packet[240:]; len(rest) > 1 && rest[0] != 255; {
		if rest[0] == 0 {
			rest = rest[1:]
			continue
		}
		value := rest[2:min(2+int(rest[1]), len(rest))]
		switch {
		case rest[0] == kindOption && len(value) == 1:
			said.kind = value[0]
		case rest[0] == serverOption:
			said.server, _ = netip.AddrFromSlice(value)
		}
		rest = rest[2+len(value):]
	}
	return binary.BigEndian.Uint32(packet[4:]), said
}

// to returns the answers to a transaction.
func (m *machines) to(transaction uint32) []answer {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return slices.Clone(m.answers[transaction])
}

// ask sends a question again and again until somebody answers: a server looks first whether the address that it offers
// is free, and may just have been started.
func (m *machines) ask(what string, send func() uint32) answer {
	m.tb.Helper()
	var sent []uint32
	var said answer
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
		return "nobody answers"
	})
	return said
}

// lease takes an address for a machine.
func (m *machines) lease(machine byte) answer {
	m.tb.Helper()
	offer := m.ask("an offer", func() uint32 { return m.send(machine, discoverKind, netip.Addr{}) })
	options := append([]byte{wantedOption, 4}, offer.address.AsSlice()...)
	options = append(append(options, serverOption, 4), offer.server.AsSlice()...)
	given := m.ask("a lease", func() uint32 { return m.send(machine, requestKind, netip.Addr{}, options...) })
	if offer.kind != offerKind || given.kind != ackKind || given.address != offer.address {
		m.tb.Fatalf("machine %d was offered %+v and given %+v", machine, offer, given)
	}
	return given
}

// rebind asks anybody to prolong the lease of a machine, initReboot whether it still holds after a restart.
func (m *machines) rebind(machine byte, address netip.Addr) answer {
	m.tb.Helper()
	return m.ask("an answer to REBIND", func() uint32 { return m.send(machine, requestKind, address) })
}

func (m *machines) initReboot(machine byte, address netip.Addr) answer {
	m.tb.Helper()
	options := append([]byte{wantedOption, 4}, address.AsSlice()...)
	return m.ask("an answer to INIT-REBOOT", func() uint32 {
		return m.send(machine, requestKind, netip.Addr{}, options...)
	})
}

// searching is a machine that asks for an address five times a second, and never takes one.
const searching = 250

// search does that until the test ends or it is stopped, which judges what was said.
func (m *machines) search() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticks := time.NewTicker(200 * time.Millisecond)
		defer ticks.Stop()
		for {
			m.send(searching, discoverKind, netip.Addr{})
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

// offered returns nothing once a server has made an offer to the searching machine.
func (m *machines) offered(server netip.Addr) func() string {
	return func() string {
		m.mutex.Lock()
		defer m.mutex.Unlock()
		for _, answers := range m.answers {
			if slices.ContainsFunc(answers, func(said answer) bool {
				return said.kind == offerKind && said.machine == searching && said.server == server
			}) {
				return ""
			}
		}
		return fmt.Sprintf("%s has offered nothing", server)
	}
}

// judge demands that no question had two answers, and that all send machines to the virtual address. It returns who
// made offers to the searching machine.
func (m *machines) judge() []string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	servers, count := map[string]bool{}, 0
	for transaction, answers := range m.answers {
		if len(answers) > 1 {
			m.tb.Errorf("transaction %d has %d answers: %+v", transaction, len(answers), answers)
		}
		for _, said := range answers {
			if said.next != vip4 {
				m.tb.Errorf("%s sends machines to %s, want %s", said.server, said.next, vip4)
			}
			if said.kind == offerKind && said.machine == searching {
				count++
				servers[fmt.Sprint(said.server)] = true
			}
		}
	}
	m.tb.Logf("%d offers to %d questions, by %v", count, m.last, slices.Sorted(maps.Keys(servers)))
	return slices.Sorted(maps.Keys(servers))
}
