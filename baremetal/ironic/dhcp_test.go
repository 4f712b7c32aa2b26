package ironic_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/thread"
)

// TestDHCPBehaviour requests an address from the real dnsmasq, with the permissions of its container, on a node with
// its own address and the VIP. The response must name the VIP.
func TestDHCPBehaviour(t *testing.T) {
	program := dnsmasq(t)
	server, client := cable(t, "172.22.0.21/24", "172.22.0.2/24")
	serve(t, server, program, full())
	for architecture, want := range map[uint16]string{
		0: "undionly.kpxe", 7: "snponly-x86_64.efi", 9: "snponly-x86_64.efi", 11: "snponly-arm64.efi",
	} {
		offer := ask(t, client, discover(architecture, false))
		offer.check(t, fmt.Sprintf("architecture %d", architecture), want)
	}
	ask(t, client, discover(7, true)).check(t, "iPXE", "http://172.22.0.2:6180/boot.ipxe")
	// dnsmasq renews a lease of another node.
	give(t, client, "client", "172.22.0.123/24")
	renewed := ask(t, client, rebind(netip.MustParseAddr("172.22.0.123")))
	if kind := renewed.options[53]; string(kind) != "\x05" || renewed.address != netip.MustParseAddr("172.22.0.123") {
		t.Errorf("renewing a lease of another node: answer is of kind %v for %s, want an ACK", kind, renewed.address)
	}
}

// TestDHCPReservations requests a reserved address, an address through a relay, and one as an unknown client.
func TestDHCPReservations(t *testing.T) {
	program := dnsmasq(t)
	server, client := cable(t, "172.22.0.21/24", "172.22.0.2/24")
	toRelay(t, server, "172.30.0.0/24")
	give(t, client, "client", "172.30.0.1/24")
	config := full()
	config.DHCP.Hosts = []string{"02:22:00:00:00:77,172.22.0.150", "02:22:00:00:00:78,172.30.0.150"}
	config.DHCP.Ignore = []string{"tag:!known"}
	config.DHCP.Extra = []ironic.Range{{
		Begin: netip.MustParseAddr("172.30.0.100"), End: netip.MustParseAddr("172.30.0.200"),
		Network: netip.MustParsePrefix("172.30.0.0/24"), Gateway: netip.MustParseAddr("172.30.0.1"),
	}}
	serve(t, server, program, config)
	reserved := ask(t, client, discover(7, false))
	reserved.check(t, "reservation", "snponly-x86_64.efi")
	if want := netip.MustParseAddr("172.22.0.150"); reserved.address != want {
		t.Errorf("the reserved address is %s, offered %s", want, reserved.address)
	}
	relayed := ask(t, client, through(netip.MustParseAddr("172.30.0.1"), from(0x78, discover(7, false))))
	if want := netip.MustParseAddr("172.30.0.150"); relayed.address != want {
		t.Errorf("through the relay, the reserved address is %s, offered %s", want, relayed.address)
	}
	if router := relayed.options[3]; string(router) != string([]byte{172, 30, 0, 1}) {
		t.Errorf("through the relay, the router is %v", router)
	}
	if relayed.next != netip.MustParseAddr("172.22.0.2") {
		t.Errorf("through the relay, the next server is %s", relayed.next)
	}
	// The unknown client sends first: a response to the known client after that shows that dnsmasq has read both.
	unknown := from(0x99, discover(7, false))
	known := discover(7, false)
	if answers := answered(t, client, unknown, known); answers[0] || !answers[1] {
		t.Errorf("the unknown client was answered: %t, the known client: %t", answers[0], answers[1])
	}
}

// toRelay routes a network through the interface of the server.
func toRelay(t *testing.T, namespace netns.NsHandle, network string) {
	t.Helper()
	handle, err := netlink.NewHandleAt(namespace)
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	link, err := handle.LinkByName("provisioning")
	if err != nil {
		t.Fatal(err)
	}
	_, to, err := net.ParseCIDR(network)
	if err != nil {
		t.Fatal(err)
	}
	if err := handle.RouteAdd(&netlink.Route{
		LinkIndex: link.Attrs().Index, Dst: to, Scope: netlink.SCOPE_LINK,
	}); err != nil {
		t.Fatal(err)
	}
}

// from sends a packet as another client.
func from(last byte, packet []byte) []byte {
	packet[33] = last
	return packet
}

// through forwards a packet like a relay.
func through(relay netip.Addr, packet []byte) []byte {
	packet[3] = 1
	copy(packet[24:], relay.AsSlice())
	return packet
}

// dnsmasq returns the program, which requires root for its namespaces.
func dnsmasq(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("dnsmasq")
	if err != nil {
		t.Skip("dnsmasq is not installed")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can create network namespaces")
	}
	return program
}

// cable connects a server with the addresses and a client.
func cable(t *testing.T, addresses ...string) (server, client netns.NsHandle) {
	t.Helper()
	for _, namespace := range []*netns.NsHandle{&server, &client} {
		err := thread.Own(func() (err error) {
			*namespace, err = netns.New()
			return err
		})
		if err != nil {
			t.Skipf("creating a network namespace: %v", err)
		}
		t.Cleanup(func() { _ = namespace.Close() })
	}
	handle, err := netlink.NewHandleAt(server)
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	link := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: "provisioning"}, PeerName: "client", PeerNamespace: netlink.NsFd(int(client)),
	}
	if err := handle.LinkAdd(link); err != nil {
		t.Skipf("creating a veth pair: %v", err)
	}
	for _, address := range addresses {
		give(t, server, "provisioning", address)
	}
	other, err := netlink.NewHandleAt(client)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	peer, err := other.LinkByName("client")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(handle.LinkSetUp(link), other.LinkSetUp(peer)); err != nil {
		t.Fatal(err)
	}
	return server, client
}

// give adds an address to an interface.
func give(t *testing.T, namespace netns.NsHandle, name, text string) {
	t.Helper()
	handle, err := netlink.NewHandleAt(namespace)
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	link, err := handle.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	address, err := netlink.ParseAddr(text)
	if err != nil {
		t.Fatal(err)
	}
	address.Flags = unix.IFA_F_NODAD
	if err := handle.AddrAdd(link, address); err != nil {
		t.Fatalf("adding %s to %s: %v", text, name, err)
	}
}

// serve runs dnsmasq in the namespace until the test ends.
func serve(t *testing.T, namespace netns.NsHandle, program string, config ironic.Config) {
	t.Helper()
	content, err := ironic.DNSMasq(config)
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	// On a node it is a file of the node. Only its name differs.
	text := strings.ReplaceAll(string(content), ironic.StateDirectory, directory)
	file := filepath.Join(directory, "dnsmasq.conf")
	// The kubelet creates the folder of the leases.
	err = errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Mkdir(filepath.Join(directory, "dhcp"), 0o750))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	log, err := os.Create(filepath.Join(directory, "log"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(ctx, program, append(flags(t, config), "--conf-file="+file)...)
	command.Stdout, command.Stderr = log, log
	err = thread.Own(func() error {
		return errors.Join(netns.Set(namespace), keepOnly(unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_NET_BIND_SERVICE),
			command.Start())
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = command.Wait()
		_ = log.Close()
		if content, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("log of dnsmasq:\n%s", content)
		}
	})
}

// flags returns the flags of dnsmasq in the pod without its file, with the name of the interface and a root of TFTP.
func flags(t *testing.T, config ironic.Config) []string {
	t.Helper()
	pods, err := ironic.Pods(config)
	if err != nil {
		t.Fatal(err)
	}
	command := pods[0].Spec.Containers[0].Command
	fill := strings.NewReplacer("{interface}", "provisioning", "{folder}", t.TempDir())
	var named []string
	for _, argument := range command[slices.Index(command, "--no-daemon"):] {
		if !strings.HasPrefix(argument, "--conf-file=") {
			named = append(named, fill.Replace(argument))
		}
	}
	return named
}

// keepOnly drops all other capabilities of the thread and its children, like a container runtime.
func keepOnly(capabilities ...uintptr) error {
	for capability := range uintptr(unix.CAP_LAST_CAP + 1) {
		keep := false
		for _, kept := range capabilities {
			keep = keep || kept == capability
		}
		if keep {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		if err != nil && !errors.Is(err, unix.EINVAL) {
			return err
		}
	}
	return nil
}

// offer is a response of a DHCP server.
type offer struct {
	address, next netip.Addr
	name, file    string
	options       map[byte][]byte
}

func (o offer) check(t *testing.T, who, file string) {
	t.Helper()
	virtual := netip.MustParseAddr("172.22.0.2")
	got := o.file
	if value, found := o.options[67]; found {
		got = strings.TrimRight(string(value), "\x00")
	}
	if got != file {
		t.Errorf("%s: boot file is %q, want %q", who, got, file)
	}
	if o.next != virtual {
		t.Errorf("%s: next server is %s, want %s", who, o.next, virtual)
	}
	begin, end := netip.MustParseAddr("172.22.0.100"), netip.MustParseAddr("172.22.0.200")
	if o.address.Less(begin) || end.Less(o.address) {
		t.Errorf("%s: offered %s, want %s to %s", who, o.address, begin, end)
	}
	if router := o.options[3]; string(router) != string([]byte{172, 22, 0, 1}) {
		t.Errorf("%s: router is %v", who, router)
	}
}

// questions are the request IDs.
var questions atomic.Uint32

// message is a request of a client.
func message(kind byte, current netip.Addr, options ...byte) []byte {
	packet := make([]byte, 240)
	packet[0], packet[1], packet[2] = 1, 1, 6
	binary.BigEndian.PutUint32(packet[4:], questions.Add(1))
	binary.BigEndian.PutUint16(packet[10:], 0x8000) // broadcast the answer: the client has no address yet
	if current.IsValid() {
		copy(packet[12:], current.AsSlice())
	}
	copy(packet[28:], []byte{0x02, 0x22, 0, 0, 0, 0x77})
	copy(packet[236:], []byte{99, 130, 83, 99})
	packet = append(packet, 53, 1, kind, 55, 5, 1, 3, 6, 66, 67)
	return append(append(packet, options...), 255)
}

func discover(architecture uint16, ipxe bool) []byte {
	options := append([]byte{60, 9}, "PXEClient"...)
	options = append(options, 93, 2, byte(architecture>>8), byte(architecture))
	if ipxe {
		options = append(options, 175, 1, 1)
	}
	return message(1, netip.Addr{}, options...)
}

// rebind requests the address that the client has.
func rebind(current netip.Addr) []byte {
	return message(3, current)
}

// ask sends until a server answers.
func ask(t *testing.T, namespace netns.NsHandle, packet []byte) offer {
	t.Helper()
	var answer []byte
	// A server answers a relay on the port of servers.
	port := 68
	if packet[3] > 0 {
		port = 67
	}
	err := onSocket(namespace, port, func(socket int) (err error) {
		answer, err = exchange(socket, packet)
		return err
	})
	if err != nil {
		t.Fatalf("requesting an address: %v", err)
	}
	return parse(t, answer)
}

// answered returns the packets with a response until the last packet had one.
func answered(t *testing.T, namespace netns.NsHandle, packets ...[]byte) []bool {
	t.Helper()
	answers := make([]bool, len(packets))
	err := onSocket(namespace, 68, func(socket int) error {
		to := &unix.SockaddrInet4{Port: 67, Addr: [4]byte{255, 255, 255, 255}}
		for _, packet := range packets {
			if err := unix.Sendto(socket, packet, 0, to); err != nil {
				return err
			}
		}
		buffer := make([]byte, 1500)
		for tries := 0; tries < 10 && !answers[len(answers)-1]; {
			length, _, err := unix.Recvfrom(socket, buffer, 0)
			switch {
			case errors.Is(err, syscall.EINTR):
				continue
			case errors.Is(err, syscall.EAGAIN):
				tries++
				continue
			case err != nil:
				return err
			}
			for i, packet := range packets {
				answers[i] = answers[i] || length >= 8 && bytes.Equal(buffer[4:8], packet[4:8])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

// onSocket calls a function with a socket of a client.
func onSocket(namespace netns.NsHandle, port int, do func(socket int) error) error {
	return thread.Own(func() error {
		if err := netns.Set(namespace); err != nil {
			return err
		}
		socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(socket) }()
		err = errors.Join(
			unix.SetsockoptString(socket, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "client"),
			unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_BROADCAST, 1),
			unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}),
			unix.Bind(socket, &unix.SockaddrInet4{Port: port}),
		)
		if err != nil {
			return err
		}
		return do(socket)
	})
}

// exchange sends and waits for a response, up to ten times: the server may not have started, and pings the address
// before it offers it.
func exchange(socket int, packet []byte) ([]byte, error) {
	answer := make([]byte, 1500)
	for range 10 {
		to := &unix.SockaddrInet4{Port: 67, Addr: [4]byte{255, 255, 255, 255}}
		if err := unix.Sendto(socket, packet, 0, to); err != nil {
			return nil, err
		}
		for {
			length, _, err := unix.Recvfrom(socket, answer, 0)
			switch {
			case errors.Is(err, syscall.EINTR):
				continue
			case errors.Is(err, syscall.EAGAIN):
			case err != nil:
				return nil, err
			case length < 8 || answer[0] != 2 || !bytes.Equal(answer[4:8], packet[4:8]):
				// A late response to an earlier request, or the request of the relay itself.
				continue
			default:
				return answer[:length], nil
			}
			break
		}
	}
	return nil, fmt.Errorf("no answer for %s", 10*time.Second)
}

func parse(t *testing.T, packet []byte) offer {
	t.Helper()
	if len(packet) < 240 {
		t.Fatalf("the answer has %d bytes", len(packet))
	}
	text := func(from, to int) string { return strings.TrimRight(string(packet[from:to]), "\x00") }
	result := offer{name: text(44, 108), file: text(108, 236), options: map[byte][]byte{}}
	result.address, _ = netip.AddrFromSlice(net.IP(packet[16:20]))
	result.next, _ = netip.AddrFromSlice(net.IP(packet[20:24]))
	for rest := packet[240:]; len(rest) > 1 && rest[0] != 255; {
		if rest[0] == 0 {
			rest = rest[1:]
			continue
		}
		length := int(rest[1])
		if len(rest) < 2+length {
			t.Fatalf("option %d ends after the packet", rest[0])
		}
		result.options[rest[0]] = rest[2 : 2+length]
		rest = rest[2+length:]
	}
	return result
}
