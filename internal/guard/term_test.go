package guard_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/term"
)

// counting prints each of its starts, and the variables of a restart. A shell that calls one program after the other
// waits for a stopped child before the program of the child begins, and does not look stopped.
const counting = "echo started $AGAIN; sleep 3600 & wait"

// confirm writes the record of a guard for a VIP that belongs to the term.
func (n *node) confirm(name int64) {
	n.record(term.Record{Term: name, Stamp: n.observe().Stamp(virtuals)})
}

// record writes a term as the guard does.
func (n *node) record(said term.Record) {
	n.write("run/term", said.String())
	must(n.lab.t, os.Chmod(n.path("run", "term"), 0o644))
}

// startInTerm starts the guards of a holder and of a standby. The term of the holder begins with a gate that counts.
func startInTerm(t *testing.T, holder, standby *node) *gated {
	t.Helper()
	kept := holder.startTermGate(counting)
	holder.start()
	eventually(t, generous, "the first node holds the VIP", heldBy(holder, holder, standby))
	eventually(t, generous, "the term of the VIP has begun", kept.says("The term of the VIP began"))
	standby.start()
	eventually(t, generous, "the second node takes part", standby.ready)
	return kept
}

// startTermGate runs a program for one term of the VIP.
func (n *node) startTermGate(script string) *gated {
	must(n.lab.t, os.MkdirAll(n.path("run"), 0o755))
	return n.startGate(false, script, "--until-lost", "--state="+n.path("run"), "--again=AGAIN=again")
}

// states returns nothing when all processes of the program have this state of ps.
func (g *gated) states(want string) func() string {
	return func() string {
		shells := g.processes("sh")
		if len(shells) == 0 {
			return "there is no program: " + g.said.String()
		}
		for _, pid := range shells {
			if hasStopped(pid) != (want == "T") {
				return fmt.Sprintf("process %d is not in state %s", pid, want)
			}
		}
		return ""
	}
}

func (g *gated) frozen() string { return g.states("T")() }
func (g *gated) runs() string   { return g.states("R")() }

// begins begins the term of a gate.
func (g *gated) begins() {
	t := g.lab.t
	eventually(t, generous, "the program starts", g.says("started"))
	g.arrive()
	g.confirm(1)
	// The gate reads the term before the VIP leaves.
	eventually(t, generous, "the gate has read the term", g.says("The term of the VIP began"))
}

// TestGateFreezes removes the VIP. The program is stopped meanwhile, and continues only in the same term.
func TestGateFreezes(t *testing.T) {
	t.Parallel()
	n := newLab(t).addNode("n")
	g := n.startTermGate(counting)
	g.begins()
	for range 2 {
		g.leave()
		eventually(t, generous, "the VIP left", g.frozen)
		g.arrive()
		throughout(t, time.Second, "the guard has not confirmed the term", g.frozen)
		g.confirm(1)
		eventually(t, generous, "the term is confirmed", g.runs)
	}
	if count := strings.Count(g.said.String(), "started"); count != 1 {
		t.Errorf("the program was started %d times: %s", count, g.said)
	}
	g.leave()
	eventually(t, generous, "the VIP left once more", g.frozen)
	g.write("run/term", term.Record{}.String())
	g.isKilled(time.Now())
}

// TestGateFreezesByItself does not renew the lease. The program must stop before the VIP leaves, also after its node
// was stopped: no standby claims the VIP as long as its lease is renewed in time.
func TestGateFreezesByItself(t *testing.T) {
	t.Parallel()
	const patience = 2 * time.Second
	for name, test := range map[string]struct {
		reason string
		stall  bool
	}{
		"unrenewed": {"the guard is dead", false},
		"stalled":   {"the gate was stopped with the guard, and the next renewal is late", true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newLab(t).addNode("n")
			g := n.startTermGate(counting)
			eventually(t, generous, "the program starts", g.says("started"))
			n.lease()
			before, _ := n.observe().Renewed(virtuals)
			n.record(term.Record{Term: 1, Stamp: before, Patience: patience})
			eventually(t, generous, "the gate has read the term", g.says("The term of the VIP began"))
			n.renewing(patience+time.Second, patience/8, g.runs)
			last, _ := n.observe().Renewed(virtuals)
			if test.stall {
				must(t, g.process.Signal(syscall.SIGSTOP))
				<-time.After(patience + patience/4)
				n.lease()
				must(t, g.process.Signal(syscall.SIGCONT))
			}
			eventually(t, generous, test.reason, g.frozen)
			if !n.holds(vip4) {
				t.Error("the VIP left")
			}
			n.lease()
			throughout(t, time.Second, "the guard has not confirmed the term", g.frozen)
			// The guard has seen the same renewals.
			n.record(term.Record{Term: 1, Stamp: last + uint32(patience/(10*time.Millisecond)), Patience: patience})
			n.lease()
			eventually(t, generous, "the term is confirmed", g.runs)
			if count := strings.Count(g.said.String(), "started"); count != 1 {
				t.Errorf("the program was started %d times: %s", count, g.said)
			}
		})
	}
}

// TestStoppedGate stops only the gate. The guard renews the lease meanwhile and has no new term to
// confirm.
func TestStoppedGate(t *testing.T) {
	t.Parallel()
	const patience = 2 * time.Second
	n := newLab(t).addNode("n")
	g := n.startTermGate(counting)
	eventually(t, generous, "the program starts", g.says("started"))
	n.lease()
	before, _ := n.observe().Renewed(virtuals)
	n.record(term.Record{Term: 1, Stamp: before, Patience: patience})
	eventually(t, generous, "the gate has read the term", g.says("The term of the VIP began"))
	must(t, g.process.Signal(syscall.SIGSTOP))
	// After this time the gate observes the interface again, also without an event.
	n.renewing(11*time.Second, patience/8, func() string { return "" })
	must(t, g.process.Signal(syscall.SIGCONT))
	// It may freeze the program until it has read all events.
	n.renewing(patience+time.Second, patience/8, func() string { return "" })
	n.renewing(time.Second, patience/8, g.runs)
	if count := strings.Count(g.said.String(), "started"); count != 1 {
		t.Errorf("the program was started %d times: %s", count, g.said)
	}
	eventually(t, generous, "the guard is dead", g.frozen)
}

// renewing renews the lease of the VIP at an interval, and requires that the function returns nothing meanwhile.
func (n *node) renewing(span, interval time.Duration, wrong func() string) {
	n.lab.t.Helper()
	renewed := time.Time{}
	throughout(n.lab.t, span, "the lease is renewed", func() string {
		if time.Since(renewed) > interval {
			n.lease()
			renewed = time.Now()
		}
		return wrong()
	})
}

// lease adds the VIP to the node for a minute, or renews it.
func (n *node) lease() {
	t := n.lab.t
	t.Helper()
	link, err := n.links.LinkByName("eth0")
	must(t, err)
	entry, err := netlink.ParseAddr(vip4.String() + "/24")
	must(t, err)
	entry.ValidLft, entry.PreferedLft = 60, 60
	must(t, n.links.AddrReplace(link, entry))
}

// TestGateStartsAgainInItsTerm lets Ironic crash. It restarts with its database, as long as no other node may have
// changed the hosts.
func TestGateStartsAgainInItsTerm(t *testing.T) {
	t.Parallel()
	n := newLab(t).addNode("n")
	g := n.startTermGate(counting)
	g.begins()
	kill(t, g.processes("sh"))
	eventually(t, generous, "it crashed", g.says("started again"))
	g.leave()
	eventually(t, generous, "the VIP left", g.frozen)
	kill(t, g.processes("sh"))
	g.arrive()
	g.confirm(2)
	g.isKilled(time.Now())
}

// TestGateSweeps requires that files of a killed Ironic are deleted before the next one starts, but not before a
// restart in the same term.
func TestGateSweeps(t *testing.T) {
	t.Parallel()
	n := newLab(t).addNode("n")
	must(t, os.MkdirAll(n.path("run"), 0o755))
	must(t, os.MkdirAll(n.path("html", "redfish"), 0o755))
	must(t, os.MkdirAll(n.path("html", "images"), 0o755))
	n.write("html/redfish/left.iso", "left")
	n.write("html/bundle", "appended to")
	n.write("html/images/kernel", "kernel")
	script := "ls " + n.path("html", "redfish") + "; touch " + n.path("html", "redfish", "mine.iso") + "; " +
		"echo part >>" + n.path("html", "bundle") + "; " + counting
	g := n.startGate(false, script, "--until-lost", "--state="+n.path("run"), "--again=AGAIN=again",
		"--sweep="+n.path("html", "redfish", "*"), "--renew="+n.path("html", "bundle"))
	g.begins()
	if strings.Contains(g.said.String(), "left.iso") {
		t.Errorf("the file of the previous program remains: %s", g.said)
	}
	if _, err := os.Stat(n.path("html", "images", "kernel")); err != nil {
		t.Error(err)
	}
	kill(t, g.processes("sh"))
	eventually(t, generous, "the program restarts", g.says("started again"))
	if !strings.Contains(g.said.String(), "mine.iso") {
		t.Errorf("the file of the program is missing: %s", g.said)
	}
	if content, err := os.ReadFile(n.path("html", "bundle")); err != nil || string(content) != "part\n" {
		t.Errorf("the file grows with each start: %q, %v", content, err)
	}
}

// TestGateSweepsBeforeItWaits requires that a cold standby has no files of its earlier Ironic.
func TestGateSweepsBeforeItWaits(t *testing.T) {
	t.Parallel()
	n := newLab(t).addNode("n")
	n.write("etc/metrics", "of an earlier Ironic")
	n.startGate(false, counting, "--until-lost", "--while-vip", "--sweep="+n.path("etc", "metrics"))
	eventually(t, generous, "the gate waits for the VIP", func() string {
		if _, err := os.Stat(n.path("etc", "metrics")); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Sprint("the file exists: ", err)
		}
		return ""
	})
}

// TestGateEndsWhileFrozen sends SIGTERM to a gate whose stopped program does not handle it.
func TestGateEndsWhileFrozen(t *testing.T) {
	t.Parallel()
	n := newLab(t).addNode("n")
	g := n.startTermGate(counting)
	g.begins()
	g.leave()
	eventually(t, generous, "the VIP left", g.frozen)
	must(t, g.process.Signal(syscall.SIGTERM))
	<-g.dead
	if g.err != nil {
		t.Errorf("the gate ended with %v: %s", g.err, g.said)
	}
}

// TestTerm causes faults. Faults that are shorter than the patience of the peers keep the database. A takeover by
// another node does not.
func TestTerm(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.addNode("a"), l.addNode("b")
	both := []*node{a, b}
	gates := map[*node]*gated{}
	for _, n := range both {
		n.configure(vip.ControlPlane, both...)
		settings := n.settings
		settings.Takeover, settings.AdvertisementInterval = vip.Always, vip.Duration(time.Second)
		n.use(settings)
		n.startAPIServer()
		n.startIronic()
		gates[n] = n.startTermGate(counting)
		n.start()
		if n == a {
			eventually(t, generous, "the first node holds the VIP", heldBy(a, both...))
		}
	}
	eventually(t, generous, "the second node takes part", b.ready)
	kept := gates[a]
	for _, accident := range []struct {
		what string
		does func()
	}{
		{"the cable is out for a second and a half", func() {
			a.turnPort(false)
			<-time.After(1500 * time.Millisecond)
			a.turnPort(true)
		}},
		{"a user removes the VIP", func() {
			a.leave()
			eventually(t, generous, "keepalived notices", noHolder(a))
		}},
		{"keepalived dies", func() {
			kill(t, a.keepalivedProcesses())
			eventually(t, generous, "the guard notices", noHolder(a))
		}},
		{"the container of the guard dies", func() {
			kill(t, append(a.keepalivedProcesses(), a.process.Process.Pid))
			<-a.ended
			a.start()
			eventually(t, generous, "the new guard notices", noHolder(a))
		}},
		{"the web server of Ironic restarts", func() {
			a.stopIronic()
			<-time.After(3 * time.Second)
			a.startIronic()
		}},
	} {
		t.Run(accident.what, func(t *testing.T) {
			eventually(t, generous, "the term of the VIP has begun", kept.says("The term of the VIP began"))
			accident.does()
			eventually(t, generous, "the holder has the VIP", heldBy(a, both...))
			throughout(t, 4*time.Second, "the holder keeps the VIP", heldBy(a, both...))
			eventually(t, generous, "Ironic runs", kept.runs)
			if said := kept.said.String(); strings.Count(said, "started") != 1 {
				t.Fatalf("Ironic lost its database: %s", said)
			}
		})
	}
	a.write("etc/armed", "0\n")
	eventually(t, generous, "demotion", heldBy(b, both...))
	kept.isKilled(time.Now())
	if said := gates[b].said.String(); strings.Count(said, "started") != 1 {
		t.Errorf("the Ironic of the next holder was restarted: %s", said)
	}
}

// TestAddressesLeaveWithTheCarrier removes the own addresses of the holder with its carrier, as systemd-networkd does.
func TestAddressesLeaveWithTheCarrier(t *testing.T) {
	t.Parallel()
	both := newLab(t).pair(func(settings *vip.NodeSettings) {
		settings.Mode, settings.Peers = vip.Multicast, nil
		settings.AdvertisementInterval = vip.Duration(time.Second)
	})
	a := both[0]
	kept := startInTerm(t, a, both[1])
	// As on a node: otherwise the kernel removes the VIP too.
	must(t, within(a.space, func() error {
		return os.WriteFile("/proc/sys/net/ipv4/conf/eth0/promote_secondaries", []byte("1"), 0o600)
	}))
	link, err := a.links.LinkByName("eth0")
	must(t, err)
	for _, span := range []time.Duration{300 * time.Millisecond, time.Second} {
		a.turnPort(false)
		for _, address := range a.own() {
			must(t, a.links.AddrDel(link, address))
		}
		<-time.After(span)
		a.turnPort(true)
		for _, address := range a.own() {
			must(t, a.links.AddrAdd(link, address))
		}
		throughout(t, 5*time.Second, "the holder keeps the VIP", heldBy(a, both...))
	}
	if said := kept.said.String(); strings.Count(said, "started") != 1 || kept.runs() != "" {
		t.Errorf("Ironic of the holder lost its database: %s", said)
	}
}

// TestTermOfADividedControlPlane has two nodes that held the VIP at the same time. The controllers may have used
// either Ironic. Both databases end, also that of the node that keeps the VIP.
func TestTermOfADividedControlPlane(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b, c := l.addNode("a"), l.addNode("b"), l.addNode("c")
	all := []*node{a, b, c}
	gates := map[*node]*gated{}
	for _, n := range all {
		n.configure(vip.ControlPlane, all...)
		settings := n.settings
		settings.Takeover = vip.Always
		n.use(settings)
		n.startAPIServer()
		n.startIronic()
		gates[n] = n.startTermGate(counting)
		n.start()
		if n == a {
			eventually(t, generous, "the first node holds the VIP", heldBy(a, all...))
		}
	}
	for _, n := range []*node{b, c} {
		eventually(t, generous, "the node takes part", n.ready)
	}
	a.move("br1")
	// Usually b is faster than c, which has a lower priority.
	other, standby := b, c
	eventually(t, generous, "each side has a holder", func() string {
		if heldBy(c, b, c)() == "" {
			other, standby = c, b
		}
		return heldBy(a, a)() + heldBy(other, b, c)()
	})
	both := []*node{a, other}
	for _, n := range both {
		eventually(t, generous, "each database has its term", gates[n].says("The term of the VIP began"))
	}
	a.move("br0")
	for _, n := range both {
		gates[n].isKilled(time.Now())
		n.stopIronic()
	}
	// The others may have a higher priority, but their Ironic was killed, and does not answer.
	eventually(t, generous, "the node with a healthy Ironic holds the VIP", heldBy(standby, all...))
	eventually(t, generous, "the next database has its term", gates[standby].says("The term of the VIP began"))
	throughout(t, 4*time.Second, "the program keeps running", gates[standby].runs)
}

// TestGateKillsLeftoversOfACrash requires that no process of a crashed Ironic runs beside the next one.
func TestGateKillsLeftoversOfACrash(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for name, test := range map[string]struct {
		reason, script string
		container      bool
		left           int
	}{
		"group": {"a child process of Ironic", "sleep 1000 & ", false, 1},
		"init":  {"a child process that has left the group", "sleep 1000 & setsid sleep 1000 & ", true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			n := l.addNode(name)
			must(t, os.MkdirAll(n.path("run"), 0o755))
			n.openFolders()
			g := n.startGate(test.container, test.script+counting, "--until-lost", "--state="+n.path("run"), "--again=AGAIN=again")
			g.begins()
			var before []int
			eventually(t, generous, test.reason, func() string {
				before = slices.DeleteFunc(n.processes("sleep"), func(pid int) bool {
					return !strings.Contains(commandLine(pid), "1000")
				})
				return differs(fmt.Sprint(test.left), fmt.Sprint(len(before)))
			})
			kill(t, g.processes("sh"))
			eventually(t, generous, "the program restarts", g.says("started again"))
			for _, pid := range before {
				if strings.Contains(commandLine(pid), "1000") {
					t.Errorf("%s: process %d still runs", test.reason, pid)
				}
			}
		})
	}
}

// commandLine returns an empty string for an ended process.
func commandLine(pid int) string {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(content)
}

// TestGateWithoutDescriptors has a gate that cannot observe the VIP. It stops the program, and continues it later.
func TestGateWithoutDescriptors(t *testing.T) {
	t.Parallel()
	n := newLab(t).addNode("n")
	g := n.startTermGate(counting)
	g.begins()
	sees := g.blind()
	throughout(t, time.Second, "the gate stays blind", g.frozen)
	sees()
	eventually(t, generous, "the VIP was on the node all the time", g.runs)
	g.leave()
	eventually(t, generous, "the gate sees that the VIP leaves", g.frozen)
	if count := strings.Count(g.said.String(), "started"); count != 1 {
		t.Errorf("the program was started %d times: %s", count, g.said)
	}
}

// TestGateWithoutDescriptorsForLong has a gate that cannot observe the VIP for longer than the other nodes tolerate.
// The lease is renewed meanwhile.
func TestGateWithoutDescriptorsForLong(t *testing.T) {
	t.Parallel()
	const patience = 2 * time.Second
	for name, isOver := range map[string]bool{"the term continues": false, "the term ends": true} {
		t.Run(name, func(t *testing.T) {
			n := newLab(t).addNode("n")
			g := n.startTermGate(counting)
			eventually(t, generous, "the program starts", g.says("started"))
			n.lease()
			before, _ := n.observe().Renewed(virtuals)
			said := term.Record{Term: 1, Stamp: before, Patience: patience}
			n.record(said)
			eventually(t, generous, "the gate has read the term", g.says("The term of the VIP began"))
			sees := g.blind()
			n.renewing(2*patience, patience/8, g.frozen)
			if isOver {
				n.record(term.Record{Patience: patience})
			}
			sees()
			if isOver {
				g.isKilled(time.Now())
				return
			}
			left := "the program is stopped"
			for began := time.Now(); left != "" && time.Since(began) < term.Grace; {
				n.renewing(patience/8, patience/8, func() string { return "" })
				left = g.runs()
			}
			n.renewing(time.Second, patience/8, g.runs)
			if count := strings.Count(g.said.String(), "started"); count != 1 {
				t.Errorf("the program was started %d times: %s", count, g.said)
			}
		})
	}
}

// blind takes the descriptors of the gate, and returns a function that gives them back.
func (g *gated) blind() (sees func()) {
	t := g.lab.t
	var before unix.Rlimit
	must(t, unix.Prlimit(g.process.Pid, unix.RLIMIT_NOFILE, nil, &before))
	must(t, unix.Prlimit(g.process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: before.Max}, nil))
	link, err := g.links.LinkByName("eth0")
	must(t, err)
	other, err := netlink.ParseAddr("172.22.0.3/24")
	must(t, err)
	must(t, g.links.AddrAdd(link, other))
	eventually(t, generous, "the gate is blind", g.frozen)
	return func() { must(t, unix.Prlimit(g.process.Pid, unix.RLIMIT_NOFILE, &before, nil)) }
}
