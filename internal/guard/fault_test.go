package guard_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
)

// alone starts a node that holds the address, with a peer that exists only on paper.
func alone(tb testing.TB) (*lab, *node) {
	tb.Helper()
	return aloneWith(tb, (*node).startIronic)
}

// aloneWith does so with an Ironic of choice.
func aloneWith(tb testing.TB, startIronic func(*node)) (*lab, *node) {
	tb.Helper()
	l := newLab(tb)
	n, absent := l.addNode("n"), l.addNode("absent")
	n.configure(vip.Management, n, absent)
	n.startAPIServer()
	startIronic(n)
	n.start()
	eventually(tb, patient, "the node takes the address", heldBy(n, n))
	return l, n
}

// nobody returns nothing when the node has neither address.
func nobody(n *node) func() string {
	return func() string { return holders(vip4, n) + holders(vip6, n) }
}

// TestDamageFailsClosed damages what the guard and keepalived speak through.
func TestDamageFailsClosed(t *testing.T) {
	t.Parallel()
	_, n := aloneWith(t, (*node).startBestIronic)
	for what, damage := range map[string]func() error{
		"ironic-ok is deleted": func() error { return os.Remove(n.path("run", "ironic-ok")) },
		"ironic-ok is garbage": func() error { return os.WriteFile(n.path("run", "ironic-ok"), []byte("perhaps"), 0o600) },
		"armed is deleted":     func() error { return os.Remove(n.path("run", "armed")) },
		"the directory is replaced": func() error {
			return os.Rename(n.path("run"), filepath.Join(t.TempDir(), "old"))
		},
	} {
		lost := transitions(n, "backup")
		must(t, damage())
		eventually(t, generous, what+": the node gives the address away", func() string {
			return greater(transitions(n, "backup"), lost)
		})
		eventually(t, patient, what+": the guard repairs it", heldBy(n, n))
	}
}

func transitions(n *node, to string) string {
	for line := range strings.Lines(n.metric("vip_transitions_total")) {
		if strings.Contains(line, `"`+to+`"`) {
			return strings.TrimSpace(line[strings.LastIndex(line, " "):])
		}
	}
	return "0"
}

func greater(now, before string) string {
	if now != before && now != "0" {
		return ""
	}
	return fmt.Sprintf("the count is still %s", now)
}

// TestUnwritableDirectoryFailsClosed: Ironic dies and the guard cannot say so. It must not leave the old word standing.
func TestUnwritableDirectoryFailsClosed(t *testing.T) {
	t.Parallel()
	_, n := aloneWith(t, (*node).startBestIronic)
	if err := setImmutable(n.path("run"), true); err != nil {
		t.Skipf("cannot make a directory that root cannot write: %v", err)
	}
	t.Cleanup(func() { _ = setImmutable(n.path("run"), false) })
	n.stopIronic()
	eventually(t, generous, "the address is given away without the file", nobody(n))
	if n.file("ironic-ok") != "1" {
		t.Fatalf("ironic-ok says %s: the directory could be written after all, so this test shows nothing",
			n.file("ironic-ok"))
	}
	must(t, setImmutable(n.path("run"), false))
	n.startBestIronic()
	eventually(t, patient, "the directory can be written again", heldBy(n, n))
}

// TestHangingIronicFailsClosed: Ironic accepts and says nothing more.
func TestHangingIronicFailsClosed(t *testing.T) {
	t.Parallel()
	_, n := alone(t)
	n.stopIronic()
	listener := n.listen(":6385")
	t.Cleanup(func() { _ = listener.Close() })
	eventually(t, generous, "checks that hang give the address away", nobody(n))
	eventually(t, generous, "the reason is told", func() string {
		if strings.Contains(n.metric("probe_failures_total"), `reason="Slow"`) {
			return ""
		}
		return n.metric("probe_failures_total")
	})
}

// TestDeaths kills the guard, keepalived and both.
func TestDeaths(t *testing.T) {
	t.Parallel()
	_, n := aloneWith(t, (*node).startBestIronic)

	for i, what := range []string{"keepalived", "the VRRP process of keepalived"} {
		lost := transitions(n, "backup")
		victim := n.keepalivedProcesses()[i]
		must(t, syscall.Kill(victim, syscall.SIGKILL))
		eventually(t, generous, what+" died: the address is removed", func() string {
			return greater(transitions(n, "backup"), lost)
		})
		eventually(t, patient, what+" died: it is started again", heldBy(n, n))
	}

	n.signal(syscall.SIGKILL)
	<-n.ended
	took := eventually(t, generous, "the guard died: keepalived takes the address away", nobody(n))
	t.Logf("guard killed: the address was gone after %s", took)
	eventually(t, generous, "the guard died: keepalived ends", func() string { return number(len(n.keepalivedProcesses())) })
	n.start()
	eventually(t, patient, "a new guard starts over", heldBy(n, n))

	killAll(t, n)
	<-n.ended
	if nobody(n)() == "" {
		t.Fatal("killing everything left no address behind, so this test shows nothing")
	}
	eventually(t, generous, "both died: the kernel removes the address", nobody(n))

	// Whoever gave it an address without a lease, only a new guard removes that.
	link, err := n.links.LinkByName("eth0")
	must(t, err)
	left, err := netlink.ParseAddr(vip4.String() + "/24")
	must(t, err)
	must(t, n.links.AddrAdd(link, left))
	n.stopIronic()
	n.start()
	eventually(t, generous, "a new guard removes what was left behind", nobody(n))
}

func number(count int) string {
	if count == 0 {
		return ""
	}
	return fmt.Sprint(count, " left")
}

// TestSettingsChangeWithoutAGap adds a peer while the address is held.
func TestSettingsChangeWithoutAGap(t *testing.T) {
	t.Parallel()
	l, n := aloneWith(t, (*node).startBestIronic)
	client := l.watch(t, 2*time.Second)
	eventually(t, generous, "a client reaches it", func() string { return differs("n", client.now()) })
	began := time.Now()
	before, seen := n.keepalivedProcesses(), n.observe()
	settings := n.settings
	settings.Peers = append(settings.Peers, netip.MustParseAddr("172.22.0.99"))
	n.use(settings)
	n.signal(syscall.SIGHUP)
	eventually(t, generous, "keepalived got the new peer", func() string {
		return differs("metal3_guard_keepalived_reloads_total 1", n.metric("keepalived_reloads_total"))
	})
	n.write("etc/guard.json", "{")
	eventually(t, generous, "broken settings are reported", func() string {
		return differs("metal3_guard_settings_valid 0", n.metric("settings_valid"))
	})
	throughout(t, 3*time.Second, "the address stays", heldBy(n, n))
	if outage := client.outage(began); outage > 0 {
		t.Errorf("new settings interrupted clients for %s", outage)
	}
	if after := n.observe(); !after.Kept(seen, []netip.Addr{vip4}) || !after.Kept(seen, []netip.Addr{vip6}) {
		t.Errorf("the addresses left and came back: added at %v, then %v", seen.Added, after.Added)
	}
	if after := n.keepalivedProcesses(); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("keepalived was started again: processes %v became %v", before, after)
	}
}

// observe looks at the interface of the node as its gates do.
func (n *node) observe() (seen address.Interface) {
	must(n.lab.t, within(n.space, func() (err error) {
		seen, err = address.Observe("eth0")
		return err
	}))
	return seen
}

// TestStrangersAreReported runs another group on the network: one that minds its own business, and then one that uses our
// virtual router ID.
func TestStrangersAreReported(t *testing.T) {
	t.Parallel()
	l, n := aloneWith(t, (*node).startBestIronic)
	stranger := l.addNode("stranger")
	for _, n := range []*node{stranger} {
		must(t, os.MkdirAll(n.path("run"), 0o755))
		n.write("run/well", "1\n")
		n.write("run/free", "1\n")
	}
	foreign := func(routerID int) func() {
		config, err := keepalived.Render(keepalived.Config{
			Name: "stranger", Interface: "eth0", VirtualRouterID: routerID,
			Instances:  []keepalived.Instance{{Address: netip.MustParsePrefix("172.22.0.77/24")}},
			HealthFile: stranger.path("run", "well"), ArmedFile: stranger.path("run", "free"),
			AdvertisementInterval: 200 * time.Millisecond,
		})
		must(t, err)
		stranger.write("run/keepalived.conf", strings.ReplaceAll(string(config), "init_file 0 overwrite", ""))
		return stranger.runKeepalived()
	}

	stop := foreign(99)
	eventually(t, generous, "the other group works", func() string {
		if stranger.holds(netip.MustParseAddr("172.22.0.77")) {
			return ""
		}
		return "it holds nothing"
	})
	throughout(t, 2*time.Second, "groups do not interfere", func() string {
		return heldBy(n, n)() + n.metric("foreign_speaker")
	})
	stop()

	defer foreign(51)()
	want := fmt.Sprintf(`metal3_guard_foreign_speaker{source=%q} 1`, stranger.address4)
	eventually(t, generous, "the collision is reported", func() string { return differs(want, n.metric("foreign_speaker")) })
	if !strings.Contains(n.said.String(), "uses our virtual router ID 51 for 172.22.0.77") {
		t.Error("the log does not say what collides")
	}
}

// TestInterfaceMayComeLate starts the guard before its interface, and takes the interface away later.
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
		if code, body := n.ask("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "interface") {
			return fmt.Sprint("readyz says ", code, " ", body)
		}
		return ""
	})
	if code, body := n.ask("/livez"); code != http.StatusOK {
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

// TestEnvironment holds an address with nothing but three variables, on two nodes.
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
	eventually(t, generous, "one of them holds the address", one)
	throughout(t, 2*time.Second, "the other one does not", one)
	first, second := a, b
	if holders(vip4, a, b) == "b" {
		first, second = b, a
	}
	first.signal(syscall.SIGTERM)
	eventually(t, generous, "the other one takes over", func() string { return differs(second.name, holders(vip4, a, b)) })
	link, err := second.links.LinkByName("eth0")
	must(t, err)
	entries, err := second.links.AddrList(link, netlink.FAMILY_V4)
	must(t, err)
	if listed := fmt.Sprint(entries); !strings.Contains(listed, "172.22.0.2/24") {
		t.Errorf("the address has another prefix: %s", listed)
	}
}

// TestSilence takes the address because the management side is not heard, and gives it back when it is.
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
	eventually(t, generous, "management holds the address", heldBy(m, m, a))
	a.start()
	eventually(t, generous, "the guard takes part", a.ready)
	throughout(t, 6*time.Second, "management is heard", heldBy(m, m, a))
	m.signal(syscall.SIGTERM)
	<-m.ended
	eventually(t, generous, "management is silent", heldBy(a, m, a))
	a.signal(syscall.SIGTERM)
	<-a.ended
	a.start()
	took := eventually(t, generous, "a restart does not forget the silence", heldBy(a, m, a))
	t.Logf("armed by silence after a restart: %s", took)
	m.start()
	eventually(t, generous, "management is back", heldBy(m, m, a))
	eventually(t, generous, "the node is not armed any more", func() string { return differs("0", a.file("armed")) })
}

// TestSlowAdvertisements: a new holder that still hears the last words of the one before keeps the address.
func TestSlowAdvertisements(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.addNode("a"), l.addNode("b")
	both := []*node{a, b}
	for _, n := range both {
		n.configure(vip.ControlPlane, both...)
		settings := n.settings
		settings.Takeover, settings.AdvertisementInterval = vip.Always, vip.Duration(time.Second)
		n.use(settings)
		n.startAPIServer()
		n.startIronic()
	}
	a.start()
	eventually(t, generous, "the first one holds the address", heldBy(a, both...))
	b.start()
	eventually(t, generous, "the second one takes part", b.ready)
	a.write("etc/armed", "0\n")
	eventually(t, generous, "demotion", heldBy(b, both...))
	throughout(t, 6*time.Second, "the new holder keeps it", heldBy(b, both...))
}
