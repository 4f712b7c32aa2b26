package network_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// unreachable is the time limit for connections that must fail.
const unreachable = 700 * time.Millisecond

// reachable is the time limit for connections that must succeed.
const reachable = 20 * time.Second

const echoPort = 7777

var (
	first  = network.Port{Machine: "first", Number: 20}
	second = network.Port{Machine: "second", Number: 21}
)

func TestMachinesReachOneAnotherAndTheGatewayInBothFamilies(t *testing.T) {
	lab := start(t, "net-reach")
	for _, port := range []network.Port{first, second} {
		plug(t, lab, port)
		echo(t, network.MachineName(lab.Lab(), port.Machine))
	}
	listener, err := lab.Listen(t.Context(), "tcp", net.JoinHostPort(network.Gateway6, "8000"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go answer(listener)

	for _, address := range addresses(second) {
		if err := roundTrip(network.MachineName(lab.Lab(), first.Machine), address, reachable); err != nil {
			t.Errorf("from first to second: %v", err)
		}
		dialled, err := lab.Dial(t.Context(), "tcp", address)
		if err != nil {
			t.Errorf("from the gateway to second: %v", err)
			continue
		}
		if err := exchange(dialled); err != nil {
			t.Errorf("from the gateway to second: %v", err)
		}
	}
	if err := roundTrip(network.MachineName(lab.Lab(), first.Machine), listener.Addr().String(), reachable); err != nil {
		t.Errorf("from first to the gateway: %v", err)
	}
	if _, err := lab.Dial(t.Context(), "tcp", "localhost:80"); err == nil || !strings.Contains(err.Error(), "localhost:80") {
		t.Errorf("dialling a name: got %v, want an error that names it", err)
	}
}

func TestPodsReachOneAnotherThroughTheSwitch(t *testing.T) {
	lab := start(t, "net-pods")
	for _, port := range []network.Port{first, second} {
		plug(t, lab, port)
		name := network.MachineName(lab.Lab(), port.Machine)
		exchange4(t, name, port)
		pod := network.PodNetwork(port.Number).Addr().Next().Next()
		configure(t, name, "lo", netip.PrefixFrom(pod, 32))
		inside(t, name, func() error {
			return netlink.RouteAdd(&netlink.Route{
				Dst: ipNet(netip.MustParsePrefix(network.Pods)), Gw: net.ParseIP(network.Gateway4), Src: pod.AsSlice(),
			})
		})
		echo(t, name)
	}
	target := netip.AddrPortFrom(network.PodNetwork(second.Number).Addr().Next().Next(), echoPort)
	if err := roundTrip(network.MachineName(lab.Lab(), first.Machine), target.String(), reachable); err != nil {
		t.Error(err)
	}
	must(t, lab.Unplug(second))
	inside(t, network.Name(lab.Lab()), func() error {
		routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
		for _, route := range routes {
			if route.Dst != nil && route.Dst.String() == network.PodNetwork(second.Number).String() {
				return fmt.Errorf("the switch still routes %s", route.Dst)
			}
		}
		return err
	})
}

// exchange4 replaces the IPv4 address of a machine, as network data of an IPPool does.
func exchange4(t *testing.T, namespace string, port network.Port) {
	t.Helper()
	inside(t, namespace, func() error {
		card, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.AddrDel(card, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(network.Address4(port.Number), 24))})
	})
	configure(t, namespace, "eth0", netip.PrefixFrom(network.Address4(port.Number+100), 24))
}

func TestPulledCableCutsTheMachineAndItsCardNotices(t *testing.T) {
	lab := start(t, "net-cable")
	plug(t, lab, first)
	name := network.MachineName(lab.Lab(), first.Machine)
	echo(t, name)
	must(t, lab.LinkDown(first))
	if carrier(t, name) {
		t.Error("the card has a carrier while the cable is pulled")
	}
	if err := roundTrip(network.Name(lab.Lab()), addresses(first)[0], unreachable); err == nil {
		t.Error("the gateway reached the machine while the cable was pulled")
	}
	must(t, lab.LinkUp(first))
	if !carrier(t, name) {
		t.Error("the card has no carrier after the cable was plugged in")
	}
	if err := roundTrip(network.Name(lab.Lab()), addresses(first)[0], reachable); err != nil {
		t.Error(err)
	}
}

func TestPartitionCutsBothFamiliesAndOpenConnections(t *testing.T) {
	lab := start(t, "net-split")
	third := network.Port{Machine: "third", Number: 22}
	for _, port := range []network.Port{first, second, third} {
		plug(t, lab, port)
		echo(t, network.MachineName(lab.Lab(), port.Machine))
	}
	from := network.MachineName(lab.Lab(), first.Machine)
	open := connect(t, from, addresses(second)[0])
	must(t, round(open, reachable))

	must(t, lab.Partition([]string{"first"}, []string{"second", "third"}))
	cutOff(t, from, second)
	cutOff(t, network.Name(lab.Lab()), second)
	reaches(t, network.MachineName(lab.Lab(), third.Machine), second)
	reaches(t, network.Name(lab.Lab()), first)
	if err := round(open, unreachable); err == nil {
		t.Error("an open connection survived the partition")
	}

	t.Log("a machine that is plugged in during the partition is in its group")
	plug(t, lab, second)
	echo(t, network.MachineName(lab.Lab(), second.Machine))
	cutOff(t, from, second)

	must(t, lab.Heal())
	reaches(t, from, second)
	inside(t, network.Name(lab.Lab()), func() error {
		links, err := netlink.LinkList()
		for _, link := range links {
			if strings.HasPrefix(link.Attrs().Name, "group") {
				return fmt.Errorf("bridge %s still exists", link.Attrs().Name)
			}
		}
		return err
	})
	if err := lab.Partition([]string{"first"}, []string{"first"}); err == nil {
		t.Error("a machine was put into two groups")
	}
}

func TestProxyLeadsIntoTheLab(t *testing.T) {
	lab := start(t, "net-proxy")
	plug(t, lab, first)
	proxy, err := lab.Proxy(t.Context(), "127.0.0.1:0", addresses(first)[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	outside := func() error {
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", proxy.Address())
		if err != nil {
			return err
		}
		return exchange(connection)
	}
	if err := outside(); err == nil {
		t.Error("a connection succeeded without a listener")
	}
	echo(t, network.MachineName(lab.Lab(), first.Machine))
	if err := outside(); err != nil {
		t.Error(err)
	}
	proxy.Close()
	if err := outside(); err == nil {
		t.Error("the closed proxy still answers")
	}
}

func TestTheLabDoesNotChangeTheNetworkOfTheComputer(t *testing.T) {
	root(t)
	before := state(t)
	lab := start(t, "net-alone")
	plug(t, lab, first)
	echo(t, network.MachineName(lab.Lab(), first.Machine))
	must(t, roundTrip(network.Name(lab.Lab()), addresses(first)[0], reachable))
	if diff := cmp.Diff(before, state(t)); diff != "" {
		t.Errorf("running a lab changed the computer's own network (-before +after):\n%s", diff)
	}
	home := readlink(t, "/proc/self/ns/net")
	tasks, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		// The thread may have ended.
		if namespace, err := os.Readlink(task); err == nil && namespace != home {
			t.Errorf("thread %s stayed in %s", task, namespace)
		}
	}
}

func TestTwoLabsAreIsolated(t *testing.T) {
	one, other := start(t, "net"), start(t, "net-x")
	plug(t, one, first)
	plug(t, other, first)
	echo(t, network.MachineName("net", first.Machine))
	if err := roundTrip(network.Name("net"), addresses(first)[0], reachable); err != nil {
		t.Error(err)
	}
	if err := roundTrip(network.Name("net-x"), addresses(first)[0], unreachable); err == nil {
		t.Error("a lab reached the machine of another lab")
	}
	must(t, network.Sweep("net"))
	if left := leftovers(t, "net"); len(left) > 0 {
		t.Errorf("the swept lab still has: %v", left)
	}
	want := []string{"network namespace m3lab-net-x.first", "network namespace m3lab-net-x"}
	if diff := cmp.Diff(want, leftovers(t, "net-x")); diff != "" {
		t.Errorf("the lab whose name begins with that of the swept one (-want +got):\n%s", diff)
	}
}

func TestCreateCompletesAnExistingLab(t *testing.T) {
	lab := start(t, "net-again")
	again, err := network.Create("net-again")
	if err != nil {
		t.Fatal(err)
	}
	plug(t, again, first)
	plug(t, lab, first)
	echo(t, network.MachineName(lab.Lab(), first.Machine))
	if err := roundTrip(network.Name(lab.Lab()), addresses(first)[0], reachable); err != nil {
		t.Error(err)
	}
	must(t, again.Delete())
	if left := leftovers(t, "net-again"); len(left) > 0 {
		t.Errorf("still there after deleting: %v", left)
	}
}

func TestNamesAndNumbersAreValidated(t *testing.T) {
	for _, name := range []string{"", "A", "-a", "a-", "a.b", "thirteen-long"} {
		if _, err := network.Create(name); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) {
			t.Errorf("lab %q: got %v, want an error that names it", name, err)
		}
	}
	for _, name := range []string{"", "a.b", "A", strings.Repeat("a", 64)} {
		if err := network.CheckMachine(name); err == nil {
			t.Errorf("machine %q was accepted", name)
		}
	}
	if got := network.Address6(20).String(); got != "fd00:172:22::20" {
		t.Errorf("address of machine 20: got %s", got)
	}
	if network.Belongs("a", network.MachineName("a-b", "c")) {
		t.Error("lab a contains the machine of lab a-b")
	}
}

func root(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("requires root to create network namespaces")
	}
}

func start(t *testing.T, name string) *network.Switch {
	t.Helper()
	root(t)
	lab, err := network.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Delete(); err != nil {
			t.Error(err)
		}
		if left := leftovers(t, name); len(left) > 0 {
			t.Errorf("still there after deleting the switch: %v", left)
		}
	})
	return lab
}

func leftovers(t *testing.T, lab string) []string {
	t.Helper()
	left, err := network.Leftovers(lab)
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// plug connects a machine and configures its network card.
func plug(t *testing.T, lab *network.Switch, port network.Port) {
	t.Helper()
	must(t, lab.Plug(port))
	name := network.MachineName(lab.Lab(), port.Machine)
	configure(t, name, "lo", netip.MustParsePrefix("127.0.0.1/8"))
	configure(t, name, "eth0", netip.PrefixFrom(network.Address4(port.Number), 24))
	configure(t, name, "eth0", netip.PrefixFrom(network.Address6(port.Number), 64))
	inside(t, name, func() error {
		card, err := netlink.LinkByName("eth0")
		if err == nil && card.Attrs().HardwareAddr.String() != network.HardwareAddress(port.Number).String() {
			return fmt.Errorf("the card has the address %s", card.Attrs().HardwareAddr)
		}
		return err
	})
}

func configure(t *testing.T, namespace, card string, address netip.Prefix) {
	t.Helper()
	inside(t, namespace, func() error {
		link, err := netlink.LinkByName(card)
		if err != nil {
			return err
		}
		if err := netlink.AddrReplace(link, &netlink.Addr{
			IPNet: &net.IPNet{IP: address.Addr().AsSlice(), Mask: net.CIDRMask(address.Bits(), address.Addr().BitLen())},
			Flags: unix.IFA_F_NODAD,
		}); err != nil {
			return err
		}
		return netlink.LinkSetUp(link)
	})
}

func ipNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}

func inside(t *testing.T, namespace string, do func() error) {
	t.Helper()
	if err := network.Within(namespace, do); err != nil {
		t.Fatalf("in %s: %v", namespace, err)
	}
}

func addresses(port network.Port) []string {
	return []string{
		netip.AddrPortFrom(network.Address4(port.Number), echoPort).String(),
		netip.AddrPortFrom(network.Address6(port.Number), echoPort).String(),
	}
}

// echo runs an echo server on all addresses of a namespace until the test ends.
func echo(t *testing.T, namespace string) {
	t.Helper()
	var listener net.Listener
	inside(t, namespace, func() (err error) {
		listener, err = new(net.ListenConfig).Listen(context.Background(), "tcp", fmt.Sprintf("[::]:%d", echoPort))
		return err
	})
	t.Cleanup(func() { _ = listener.Close() })
	go answer(listener)
}

func answer(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = connection.Close() }()
			_, _ = io.Copy(connection, connection)
		}()
	}
}

// connect opens a connection from a namespace.
func connect(t *testing.T, namespace, address string) net.Conn {
	t.Helper()
	var connection net.Conn
	inside(t, namespace, func() (err error) {
		connection, err = (&net.Dialer{Timeout: reachable}).DialContext(context.Background(), "tcp", address)
		return err
	})
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

// roundTrip sends a line from a namespace to an address and requires the same line as the answer.
func roundTrip(namespace, address string, limit time.Duration) error {
	var connection net.Conn
	if err := network.Within(namespace, func() (err error) {
		connection, err = (&net.Dialer{Timeout: limit}).DialContext(context.Background(), "tcp", address)
		return err
	}); err != nil {
		return err
	}
	return exchange(connection)
}

// reaches requires a machine to be reachable from a namespace, in both families. It retries, because the kernel caches
// failed neighbour discoveries for some seconds.
func reaches(t *testing.T, namespace string, port network.Port) {
	t.Helper()
	for _, address := range addresses(port) {
		if err := await(func() error { return roundTrip(namespace, address, reachable) }); err != nil {
			t.Errorf("from %s: %v", namespace, err)
		}
	}
}

// cutOff requires a machine to be unreachable from a namespace, in both families.
func cutOff(t *testing.T, namespace string, port network.Port) {
	t.Helper()
	for _, address := range addresses(port) {
		if err := roundTrip(namespace, address, unreachable); err == nil {
			t.Errorf("%s was reached from %s", address, namespace)
		}
	}
}

// await repeats do until it succeeds or the time limit is over.
func await(do func() error) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	limit := time.After(reachable)
	for {
		err := do()
		if err == nil {
			return nil
		}
		select {
		case <-limit:
			return err
		case <-ticker.C:
		}
	}
}

func exchange(connection net.Conn) error {
	defer func() { _ = connection.Close() }()
	return round(connection, reachable)
}

func round(connection net.Conn, limit time.Duration) error {
	if err := connection.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(connection, "hello"); err != nil {
		return err
	}
	line, err := bufio.NewReader(connection).ReadString('\n')
	if err == nil && line != "hello\n" {
		return fmt.Errorf("got %q back", line)
	}
	return err
}

func carrier(t *testing.T, namespace string) bool {
	t.Helper()
	var up bool
	inside(t, namespace, func() error {
		card, err := netlink.LinkByName("eth0")
		up = err == nil && card.Attrs().RawFlags&unix.IFF_LOWER_UP != 0
		return err
	})
	return up
}

// state returns the network interfaces and routes of the computer.
func state(t *testing.T) []string {
	t.Helper()
	var lines []string
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		lines = append(lines, "link "+link.Attrs().Name)
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_ALL)
	if err != nil {
		t.Fatal(err)
	}
	for _, route := range routes {
		lines = append(lines, "route "+route.String())
	}
	rules, err := netlink.RuleList(netlink.FAMILY_ALL)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		lines = append(lines, "rule "+rule.String())
	}
	for _, name := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding", "ipv4/conf/all/rp_filter"} {
		value, err := os.ReadFile(filepath.Join("/proc/sys/net", name))
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, name+" "+strings.TrimSpace(string(value)))
	}
	slices.Sort(lines)
	return lines
}

func readlink(t *testing.T, path string) string {
	t.Helper()
	target, err := os.Readlink(path)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
