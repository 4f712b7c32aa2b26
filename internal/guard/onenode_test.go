package guard_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
)

// alone starts a node that holds the VIP. Its only peer does not exist.
func alone(tb testing.TB) (*lab, *node) {
	tb.Helper()
	return aloneWith(tb, (*node).startIronic)
}

// aloneWith is alone with a chosen Ironic.
func aloneWith(tb testing.TB, startIronic func(*node)) (*lab, *node) {
	tb.Helper()
	l := newLab(tb)
	n, absent := l.addNode("n"), l.addNode("absent")
	n.configure(vip.Management, n, absent)
	n.startAPIServer()
	startIronic(n)
	n.start()
	eventually(tb, patient, "the node claims the VIP", heldBy(n, n))
	return l, n
}

// TestOneNode causes faults on a holder, one after the other. The real Ironic has no gate, so that it does not
// restart each time.
func TestOneNode(t *testing.T) {
	t.Parallel()
	_, n := aloneWith(t, (*node).startBareIronic)
	for _, story := range []struct {
		what string
		run  func(*testing.T, *node)
	}{
		{"new settings leave no gap", testChangeSettings},
		{"foreign speakers are reported", testMeetForeignSpeakers},
		{"damaged files fail closed", testDamageFiles},
		{"an Ironic that hangs fails closed", testHangIronic},
		{"a directory that cannot be written fails closed", testCloseDirectory},
		{"processes die", testDieInTurn},
	} {
		t.Run(story.what, func(t *testing.T) {
			eventually(t, patient, "the node has the VIP", heldBy(n, n))
			story.run(t, n)
		})
	}
}

// testChangeSettings adds a peer while the node holds the VIP, and then writes invalid settings. Neither interrupts
// clients.
func testChangeSettings(t *testing.T, n *node) {
	client := n.lab.watch(t, 2*time.Second)
	eventually(t, generous, "a client reaches the node", func() string { return differs("n", client.now()) })
	began := time.Now()
	before, seen := n.keepalivedProcesses(), n.observe()
	settings := n.settings
	settings.Peers = append(slices.Clone(settings.Peers), netip.MustParseAddr("172.22.0.99"))
	n.use(settings)
	eventually(t, generous, "keepalived got the new peer", func() string {
		return differs("metal3_guard_keepalived_reloads_total 1", n.metric("keepalived_reloads_total"))
	})
	n.write("etc/guard.json", "{")
	eventually(t, generous, "broken settings are reported", func() string {
		return differs("metal3_guard_settings_valid 0", n.metric("settings_valid"))
	})
	throughout(t, 3*time.Second, "the VIP stays", heldBy(n, n))
	if outage := client.outage(began); outage > 0 {
		t.Errorf("new settings interrupted clients for %s", outage)
	}
	if after := n.observe(); !after.Kept(seen, []netip.Addr{vip4}) || !after.Kept(seen, []netip.Addr{vip6}) {
		t.Errorf("the VIPs were removed and added: added at %v, then %v", seen.Added, after.Added)
	}
	if after := n.keepalivedProcesses(); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("keepalived was started again: processes %v became %v", before, after)
	}
	n.use(settings)
	eventually(t, generous, "valid settings are used", func() string {
		return differs("metal3_guard_settings_valid 1", n.metric("settings_valid"))
	})
}

// observe observes the interface of the node as its gates do.
func (n *node) observe() (seen address.Interface) {
	must(n.lab.t, within(n.space, func() (err error) {
		seen, err = address.Observe("eth0")
		return err
	}))
	return seen
}

// testMeetForeignSpeakers runs another VRRP group on the network, first with its own virtual router ID, then with
// that of the node.
func testMeetForeignSpeakers(t *testing.T, n *node) {
	foreign := n.lab.addNode("foreign")
	must(t, os.MkdirAll(foreign.path("run"), 0o755))
	foreign.write("run/well", "1\n")
	foreign.write("run/free", "1\n")
	start := func(routerID int) func() {
		config, err := keepalived.Render(keepalived.Config{
			Name: "foreign", Interface: "eth0", VirtualRouterID: routerID,
			Instances:  []keepalived.Instance{{Address: netip.MustParsePrefix("172.22.0.77/24")}},
			HealthFile: foreign.path("run", "well"), ArmedFile: foreign.path("run", "free"),
			Timers: keepalived.Timers{Interval: 200 * time.Millisecond},
		})
		must(t, err)
		foreign.write("run/keepalived.conf", strings.ReplaceAll(string(config), "init_file 0 overwrite", ""))
		return foreign.runKeepalived()
	}

	stop := start(99)
	eventually(t, generous, "the other group works", func() string {
		if foreign.holds(netip.MustParseAddr("172.22.0.77")) {
			return ""
		}
		return "it holds no VIP"
	})
	throughout(t, 2*time.Second, "groups do not interfere", func() string {
		return heldBy(n, n)() + n.metric("foreign_speaker")
	})
	stop()

	defer start(51)()
	want := fmt.Sprintf(`metal3_guard_foreign_speaker{source=%q} 1`, foreign.address4)
	eventually(t, generous, "the collision is reported", func() string { return differs(want, n.metric("foreign_speaker")) })
	if !strings.Contains(n.said.String(), "uses our virtual router ID 51 for [172.22.0.77]") {
		t.Error("the log does not describe the conflict")
	}
}

// testDamageFiles damages the files between the guard and keepalived.
func testDamageFiles(t *testing.T, n *node) {
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
		eventually(t, generous, what+": the node releases the VIP", func() string {
			return greater(transitions(n, "backup"), lost)
		})
		eventually(t, patient, what+": the guard repairs it", heldBy(n, n))
		// The guard would not count a VIP that leaves before the guard has seen it.
		eventually(t, patient, what+": the guard reports the VIP", func() string { return differs("1", n.file("holder")) })
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

// testHangIronic stops the real Ironic while the kernel still accepts connections for it. The node gets the VIP back
// only when Ironic answers again.
func testHangIronic(t *testing.T, n *node) {
	if n.kubelet == nil {
		t.Skip("a stub cannot hang; requires the root file system of Ironic in the cache: run `make lab` as root")
	}
	goOn := n.kubelet.hang()
	eventually(t, generous, "checks that hang release the VIP", noHolder(n))
	eventually(t, generous, "the metric has the reason", func() string {
		if failures := n.metric("probe_failures_total"); !strings.Contains(failures, `reason="Slow"`) {
			return failures + " has no such reason"
		}
		return ""
	})
	throughout(t, 3*time.Second, "it hangs", noHolder(n))
	goOn()
	eventually(t, patient, "it answers again", heldBy(n, n))
}

// testCloseDirectory kills Ironic while the guard cannot write. The outdated track file must not count.
func testCloseDirectory(t *testing.T, n *node) {
	if err := setImmutable(n.path("run"), true); err != nil {
		t.Skipf("creating a directory that root cannot write: %v", err)
	}
	t.Cleanup(func() { _ = setImmutable(n.path("run"), false) })
	n.stopIronic()
	eventually(t, generous, "the VIP is released without the file", noHolder(n))
	if n.file("ironic-ok") != "1" {
		t.Fatalf("ironic-ok says %s: the directory is writable",
			n.file("ironic-ok"))
	}
	must(t, setImmutable(n.path("run"), false))
	n.startBareIronic()
	eventually(t, patient, "the directory can be written again", heldBy(n, n))
}

// testDieInTurn kills the guard, keepalived and both.
func testDieInTurn(t *testing.T, n *node) {
	for i, what := range []string{"keepalived", "the VRRP process of keepalived"} {
		// Otherwise the guard may not have seen yet that this node has the VIP, and observes no loss.
		eventually(t, patient, "the guard adds leases", leased(n))
		lost := transitions(n, "backup")
		victim := n.keepalivedProcesses()[i]
		must(t, syscall.Kill(victim, syscall.SIGKILL))
		eventually(t, generous, what+" died: the address is removed", func() string {
			return greater(transitions(n, "backup"), lost)
		})
		eventually(t, patient, what+" died: it is restarted", heldBy(n, n))
	}

	n.signal(syscall.SIGKILL)
	<-n.ended
	eventually(t, generous, "the guard died: keepalived releases the VIP", noHolder(n))
	eventually(t, generous, "the guard died: keepalived ends", func() string { return number(len(n.keepalivedProcesses())) })
	n.start()
	eventually(t, patient, "a new guard starts over", heldBy(n, n))
	eventually(t, patient, "the new guard adds leases", leased(n))

	killAll(t, n)
	<-n.ended
	if noHolder(n)() == "" {
		t.Fatal("killing both left no VIP behind")
	}
	// From here on Ironic does not run.
	n.stopIronic()
	eventually(t, generous, "both died: the kernel removes the address", noHolder(n))

	// Only a new guard removes a VIP without a lease.
	link, err := n.links.LinkByName("eth0")
	must(t, err)
	left, err := netlink.ParseAddr(vip4.String() + "/24")
	must(t, err)
	must(t, n.links.AddrAdd(link, left))
	n.start()
	eventually(t, generous, "a new guard removes what was left behind", noHolder(n))
}

func number(count int) string {
	if count == 0 {
		return ""
	}
	return fmt.Sprint(count, " left")
}
