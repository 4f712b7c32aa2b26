package guard_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/term"
)

// TestGate adds and removes the VIP of a gated program.
func TestGate(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.addNode("n")
	link, err := n.links.LinkByName("eth0")
	must(t, err)
	address, err := netlink.ParseAddr("172.22.0.2/24")
	must(t, err)
	// The program prints its start, its directory and SIGTERM.
	const custom, included = "custom", "included"
	for _, folder := range []string{custom, included} {
		must(t, os.MkdirAll(n.path(folder), 0o755))
	}
	script := "trap 'echo SIGTERM; exit 0' TERM; echo started; echo in $0; while :; do sleep 0.05; done"
	ended := n.run("gate", "--while-vip", "--interface=eth0", "--addresses=172.22.0.2,fd00:22::2",
		"--folder="+n.path("missing"), "--folder="+n.path(custom), "--folder="+n.path(included),
		"--", "/bin/sh", "-c", script, guard.FolderMark)
	count := func(text string, want int) func() string {
		return func() string {
			if got := strings.Count(n.said.String(), text); got != want {
				return strings.Join([]string{"log:", n.said.String()}, "\n")
			}
			return ""
		}
	}
	for round := 1; round <= 2; round++ {
		must(t, n.links.AddrAdd(link, address))
		eventually(t, generous, "the program starts", count("started\n", round))
		eventually(t, generous, "the directory of the image has no files either", count("in "+n.path(included)+"\n", round))
		must(t, n.links.AddrDel(link, address))
		eventually(t, generous, "the program gets SIGTERM", count("SIGTERM\n", round))
	}
	n.write(custom+"/file", "")
	n.write(included+"/file", "")
	must(t, n.links.AddrAdd(link, address))
	eventually(t, generous, "the program starts again", count("started\n", 3))
	eventually(t, generous, "the first directory with files is chosen", count("in "+n.path(custom)+"\n", 1))
	n.signal(syscall.SIGTERM)
	if err := <-ended; err != nil {
		t.Errorf("the gate ended with %v", err)
	}
	if missing := count("SIGTERM\n", 3)(); missing != "" {
		t.Errorf("the gate ended without its program: %s", missing)
	}

	ended = n.run("gate", "--while-vip", "--interface=eth0", "--addresses=172.22.0.2", "--", "/bin/sh", "-c", "exit 9")
	var failed *exec.ExitError
	if err := <-ended; !errors.As(err, &failed) || failed.ExitCode() != 9 {
		t.Errorf("the program ended with 9, and the gate with %v", err)
	}
}

// TestGateOfDHCP runs a DHCP server, which has no state of a term. It runs while the VIP is on the node, also if the
// lease is not renewed, and waits for the next VIP afterwards.
func TestGateOfDHCP(t *testing.T) {
	t.Parallel()
	n := newLab(t).addNode("n")
	must(t, os.MkdirAll(n.path("run"), 0o755))
	const patience = time.Second
	g := n.startGate(false, "trap 'exit 0' TERM; echo started; while :; do sleep 0.05; done", "--while-vip",
		"--state="+n.path("run"))
	for round := 1; round <= 2; round++ {
		n.lease()
		stamp, _ := n.observe().Renewed(virtuals)
		n.record(term.Record{Term: int64(round), Stamp: stamp, Patience: patience})
		eventually(t, generous, "the VIP is here", func() string {
			return differs(strconv.Itoa(round), strconv.Itoa(strings.Count(g.said.String(), "started")))
		})
		throughout(t, 2*patience, "the lease is not renewed", g.states("R"))
		g.leave()
		eventually(t, generous, "the VIP left", func() string { return differs("[]", fmt.Sprint(g.processes("sh"))) })
	}
	must(t, g.process.Signal(syscall.SIGTERM))
	<-g.dead
	must(t, g.err)
}

// atOnce is the limit on a busy machine. A program that handles SIGTERM without ending would have five seconds.
const atOnce = 2 * time.Second

type gated struct {
	*node
	process *os.Process
	said    *safeBuffer

	// dead is closed once the gate and all its processes have ended.
	dead chan struct{}
	// err is the error of the gate. It is set before dead is closed.
	err error
}

// place returns the flags of a gate for the VIPs of the settings.
func (n *node) place() []string {
	var addresses []string
	for _, virtual := range n.settings.VirtualIPs {
		addresses = append(addresses, virtual.Address.String())
	}
	return []string{
		"--interface=" + n.settings.Interface, "--addresses=" + strings.Join(addresses, ","), "--state=" + n.path("run"),
	}
}

// startGate runs a shell behind a gate. In a container the gate is process 1, with the permissions of Ironic.
func (n *node) startGate(container bool, script string, flags ...string) *gated {
	n.lab.t.Helper()
	return n.startGateOn("--interface=eth0", container, []string{"/bin/sh", "-c", script}, flags...)
}

// startGateOn runs a program behind a gate. The first flag names the interface.
func (n *node) startGateOn(device string, container bool, program []string, flags ...string) *gated {
	t := n.lab.t
	t.Helper()
	arguments := append([]string{"gate", device, "--addresses=172.22.0.2,fd00:22::2"}, flags...)
	command := exec.CommandContext(context.Background(), n.lab.binary, append(append(arguments, "--"), program...)...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if container {
		command.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
		command.SysProcAttr.Credential = &syscall.Credential{Uid: 997, Gid: 994}
	}
	// All child processes inherit it, so the reader ends with the last of them.
	output, input, err := os.Pipe()
	must(t, err)
	command.Stdout, command.Stderr = input, input
	g := &gated{node: n, said: &safeBuffer{}, dead: make(chan struct{})}
	// The buffer holds an error of entering the namespace: there is no receiver after the start.
	started := make(chan error, 1)
	go func() {
		defer close(g.dead)
		g.err = within(n.space, func() error {
			err := errors.Join(command.Start(), input.Close())
			started <- err
			if err != nil {
				return nil
			}
			_, _ = io.Copy(g.said, bufio.NewReader(output))
			return errors.Join(command.Wait(), output.Close())
		})
		started <- g.err
	}()
	must(t, <-started)
	g.process = command.Process
	t.Cleanup(func() {
		// Outside of a container the program may survive.
		killAll(t, n)
		<-g.dead
	})
	return g
}

// TestKillAll kills processes that continuously start others.
func TestKillAll(t *testing.T) {
	t.Parallel()
	n := newLab(t).addNode("n")
	g := n.startGate(false, "while :; do sleep 1000 & done", "--until-lost")
	eventually(t, generous, "some have started", func() string {
		return differs("true", fmt.Sprint(len(n.processes("sleep")) > 10))
	})
	killAll(t, n)
	eventually(t, generous, "all have ended", func() string { return differs("[]", fmt.Sprint(n.processes(""))) })
	<-g.dead
}

// says returns nothing once the program or the gate has printed the text.
func (g *gated) says(text string) func() string {
	return func() string {
		if strings.Contains(g.said.String(), text) {
			return ""
		}
		return fmt.Sprintf("no %q in %q", text, g.said.String())
	}
}

// alive returns nothing while a process of the gate runs.
func (g *gated) alive() string {
	select {
	case <-g.dead:
		return fmt.Sprintf("it ended with %v: %s", g.err, g.said)
	default:
		return ""
	}
}

// isKilled requires that all processes end soon after a time, and that the gate logs the reason.
func (g *gated) isKilled(then time.Time) {
	t := g.lab.t
	t.Helper()
	select {
	case <-g.dead:
		t.Logf("MEASURED: all processes ended %s after the VIP had left", time.Since(then))
	case <-time.After(atOnce):
		t.Fatalf("a process runs %s after the VIP had left: %s", atOnce, g.said)
	}
	var failed *exec.ExitError
	if !errors.As(g.err, &failed) || failed.ExitCode() != 1 || g.says("was here and has left")() != "" {
		t.Errorf("the gate ended with %v, want 1 and the reason: %s", g.err, g.said)
	}
}

// arrive and leave change the VIP and return the time after the change.
func (n *node) arrive() time.Time {
	n.change(n.links.AddrAdd)
	return time.Now()
}

func (n *node) leave() time.Time {
	n.change(n.links.AddrDel)
	return time.Now()
}

func (n *node) change(change func(netlink.Link, *netlink.Addr) error) {
	t := n.lab.t
	t.Helper()
	link, err := n.links.LinkByName("eth0")
	must(t, err)
	address, err := netlink.ParseAddr(vip4.String() + "/24")
	must(t, err)
	must(t, change(link, address))
}

const (
	// deaf ignores SIGTERM, and stubborn only prints it.
	deaf     = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
	stubborn = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.05; done"

	// children has child processes that handle no signal.
	children = "trap '' TERM; sleep 1000 & sh -c 'sleep 1000 & echo ready; wait' & wait"

	// detached has child processes that have left the process group.
	detached = "trap '' TERM; setsid sleep 1000 & setsid sh -c 'echo ready; sleep 1000' & wait"
)

// TestGateUntilLost ends gated programs of all kinds by removing the VIP in several ways.
func TestGateUntilLost(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for i, test := range []struct {
		reason, script string
		container      bool
		lose           func(*node) time.Time
	}{
		{"a program that would handle SIGTERM", "echo ready; exec sleep 1000", true, (*node).leave},
		{"a program that ignores SIGTERM", deaf, true, (*node).leave},
		{"children of the program", children, true, (*node).leave},
		{"children outside of a container", children, false, (*node).leave},
		{"children that left the group", detached, true, (*node).leave},
		{"a deleted interface", deaf, true, func(n *node) time.Time {
			link, err := n.links.LinkByName("eth0")
			must(t, err)
			must(t, n.links.LinkDel(link))
			return time.Now()
		}},
		{"a VIP that is removed and added at once", deaf, true, func(n *node) time.Time {
			then := n.leave()
			n.arrive()
			return then
		}},
	} {
		t.Run(test.reason, func(t *testing.T) {
			n := l.addNode(fmt.Sprint("n", i))
			g := n.startGate(test.container, test.script, "--until-lost")
			eventually(t, generous, "the program starts without the VIP", g.says("ready"))
			n.arrive()
			throughout(t, time.Second, "the VIP is on the node", g.alive)
			g.isKilled(test.lose(n))
		})
	}
}

// TestGateWithoutGuard removes and adds the address on a node without a guard. The program keeps running.
func TestGateWithoutGuard(t *testing.T) {
	t.Parallel()
	n := newLab(t).addNode("n")
	g := n.startGate(true, "echo ready; exec sleep 1000", "--until-lost=false")
	eventually(t, generous, "the program starts without the address", g.says("ready"))
	for range 2 {
		n.arrive()
		throughout(t, time.Second, "the address is on the node", g.alive)
		n.leave()
		throughout(t, time.Second, "the address has left", g.alive)
	}
}

// TestGateStartsAfterTheVIP starts a gate after the VIP was added. The VIP can still be lost.
func TestGateStartsAfterTheVIP(t *testing.T) {
	t.Parallel()
	n := newLab(t).addNode("n")
	n.arrive()
	g := n.startGate(true, deaf, "--until-lost")
	eventually(t, generous, "the program starts", g.says("ready"))
	g.isKilled(n.leave())
}

// TestGateWaitsForTheVIP starts and ends the program with the VIP, once.
func TestGateWaitsForTheVIP(t *testing.T) {
	t.Parallel()
	n := newLab(t).addNode("n")
	g := n.startGate(true, deaf, "--while-vip", "--until-lost")
	throughout(t, time.Second, "there is no VIP", func() string {
		return g.alive() + strings.TrimSpace(g.said.String())
	})
	n.arrive()
	eventually(t, generous, "the program starts", g.says("ready"))
	g.isKilled(n.leave())
}

// TestGateLosesTheVIPWhileItEnds deletes a pod, which releases the VIP long before its Ironic has ended.
func TestGateLosesTheVIPWhileItEnds(t *testing.T) {
	t.Parallel()
	n := newLab(t).addNode("n")
	n.arrive()
	g := n.startGate(true, stubborn, "--until-lost")
	eventually(t, generous, "the program starts", g.says("ready"))
	must(t, g.process.Signal(syscall.SIGTERM))
	eventually(t, generous, "the program gets SIGTERM", g.says("asked"))
	throughout(t, time.Second, "the program may still run", g.alive)
	g.isKilled(n.leave())
}

// TestGateMissesNothing stops the gate, removes and adds the VIP, and causes so many events that the kernel drops
// some.
func TestGateMissesNothing(t *testing.T) {
	t.Parallel()
	n := newLab(t).addNode("n")
	g := n.startGate(false, deaf, "--until-lost")
	eventually(t, generous, "the program starts", g.says("ready"))
	n.arrive()
	// The kernel identifies an address by the time when it was added, in hundredths of a second.
	throughout(t, time.Second, "the VIP is on the node", g.alive)
	must(t, g.process.Signal(syscall.SIGSTOP))
	n.flood()
	n.leave()
	n.arrive()
	n.flood()
	dropped := drops(t, g.process.Pid)
	if dropped == 0 {
		t.Fatal("the kernel dropped no event")
	}
	must(t, g.process.Signal(syscall.SIGCONT))
	t.Logf("the kernel dropped %d events", dropped)
	g.isKilled(time.Now())
}

// flood causes more events than the kernel queues for one reader.
func (n *node) flood() {
	t := n.lab.t
	link, err := n.links.LinkByName("lo")
	must(t, err)
	address, err := netlink.ParseAddr("10.9.8.7/32")
	must(t, err)
	for range 1000 {
		must(t, n.links.AddrAdd(link, address))
		must(t, n.links.AddrDel(link, address))
	}
}

// drops counts the events that the kernel has dropped in the network namespace of a process.
func drops(t *testing.T, pid int) int {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/netlink", pid))
	must(t, err)
	sum := 0
	const column = 8
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) > column && fields[0] != "sk" {
			var count int
			_, err := fmt.Sscan(fields[column], &count)
			must(t, err)
			sum += count
		}
	}
	return sum
}
