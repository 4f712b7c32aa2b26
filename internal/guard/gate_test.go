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

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/term"
)

// TestGate lets an address come and go under a gated program.
func TestGate(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.addNode("n")
	link, err := n.links.LinkByName("eth0")
	must(t, err)
	address, err := netlink.ParseAddr("172.22.0.2/24")
	must(t, err)
	// The program says when it starts and when it is asked to end.
	script := "trap 'echo asked to end; exit 0' TERM; echo started; while :; do sleep 0.05; done"
	ended := n.run("gate", "--while-vip", "--interface=eth0", "--addresses=172.22.0.2,fd00:22::2", "--", "/bin/sh", "-c", script)
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
		must(t, n.links.AddrDel(link, address))
		eventually(t, generous, "the program is asked to end", count("asked to end\n", round))
	}
	must(t, n.links.AddrAdd(link, address))
	eventually(t, generous, "the program starts again", count("started\n", 3))
	n.signal(syscall.SIGTERM)
	if err := <-ended; err != nil {
		t.Errorf("the gate ended with %v", err)
	}
	if missing := count("asked to end\n", 3)(); missing != "" {
		t.Errorf("the gate ended without its program: %s", missing)
	}

	ended = n.run("gate", "--while-vip", "--interface=eth0", "--addresses=172.22.0.2", "--", "/bin/sh", "-c", "exit 9")
	var failed *exec.ExitError
	if err := <-ended; !errors.As(err, &failed) || failed.ExitCode() != 9 {
		t.Errorf("the program ended with 9, and the gate with %v", err)
	}
}

// TestGateOfDHCP: a server of DHCP knows nothing that ends with a term. It runs as long as the VIP is here, also when its
// lease is not renewed, and waits for the next VIP when it has left.
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

// atOnce is what counts as that on a busy machine. A program that gets SIGTERM, and does not end, has five seconds.
const atOnce = 2 * time.Second

// gated is a gate with its program.
type gated struct {
	*node
	process *os.Process
	said    *safeBuffer

	// dead is closed once nothing is left of all that the gate has started, and of the gate itself.
	dead chan struct{}
	// err is how the gate ended, to be read once all is dead.
	err error
}

// startGate runs a shell behind a gate. In a container it is process 1, and may do what Ironic may.
func (n *node) startGate(container bool, script string, flags ...string) *gated {
	n.lab.t.Helper()
	return n.startGateOn("--interface=eth0", container, []string{"/bin/sh", "-c", script}, flags...)
}

// startGateOn runs a program behind a gate that gets its interface from the first flag.
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
	// All processes that it starts have this as well, so the reader ends with the last of them.
	output, input, err := os.Pipe()
	must(t, err)
	command.Stdout, command.Stderr = input, input
	g := &gated{node: n, said: &safeBuffer{}, dead: make(chan struct{})}
	// Room for one: a failure to enter the namespace is sent too, and there is no receiver after the start.
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
		// Outside of a container the program may be left.
		killAll(t, n)
		<-g.dead
	})
	return g
}

// TestKillAll: nothing is left of processes that start others all the time.
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

// says returns nothing once the program or the gate has said this.
func (g *gated) says(text string) func() string {
	return func() string {
		if strings.Contains(g.said.String(), text) {
			return ""
		}
		return fmt.Sprintf("no %q in %q", text, g.said.String())
	}
}

// alive returns nothing while something is left.
func (g *gated) alive() string {
	select {
	case <-g.dead:
		return fmt.Sprintf("it ended with %v: %s", g.err, g.said)
	default:
		return ""
	}
}

// diesAtOnce demands that nothing is left soon after then, and that the gate says why.
func (g *gated) diesAtOnce(then time.Time) {
	t := g.lab.t
	t.Helper()
	select {
	case <-g.dead:
		t.Logf("MEASURED: nothing was left %s after the address had gone", time.Since(then))
	case <-time.After(atOnce):
		t.Fatalf("something is left %s after the address had gone: %s", atOnce, g.said)
	}
	var failed *exec.ExitError
	if !errors.As(g.err, &failed) || failed.ExitCode() != 1 || g.says("was here and has left")() != "" {
		t.Errorf("the gate ended with %v, want 1 and the reason: %s", g.err, g.said)
	}
}

// arrive and leave change the address, and return when that was done.
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
	// deaf cannot be asked to end, and stubborn says that it was asked.
	deaf     = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
	stubborn = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.05; done"

	// children leaves the work to others, none of which can be asked.
	children = "trap '' TERM; sleep 1000 & sh -c 'sleep 1000 & echo ready; wait' & wait"

	// leavers are children that have left the process group.
	leavers = "trap '' TERM; setsid sleep 1000 & setsid sh -c 'echo ready; sleep 1000' & wait"
)

// TestGateUntilLost: what was started beside an address dies with it, whatever it is and however the address leaves.
func TestGateUntilLost(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for i, test := range []struct {
		reason, script string
		container      bool
		lose           func(*node) time.Time
	}{
		{"who can be asked is not asked either", "echo ready; exec sleep 1000", true, (*node).leave},
		{"a program that ignores SIGTERM", deaf, true, (*node).leave},
		{"children of the program", children, true, (*node).leave},
		{"children outside of a container", children, false, (*node).leave},
		{"children that left the group", leavers, true, (*node).leave},
		{"an interface that vanishes takes its address along", deaf, true, func(n *node) time.Time {
			link, err := n.links.LinkByName("eth0")
			must(t, err)
			must(t, n.links.LinkDel(link))
			return time.Now()
		}},
		{"an address that is back at once was away", deaf, true, func(n *node) time.Time {
			then := n.leave()
			n.arrive()
			return then
		}},
	} {
		t.Run(test.reason, func(t *testing.T) {
			n := l.addNode(fmt.Sprint("n", i))
			g := n.startGate(test.container, test.script, "--until-lost")
			eventually(t, generous, "the program starts without the address", g.says("ready"))
			n.arrive()
			throughout(t, time.Second, "the address is here", g.alive)
			g.diesAtOnce(test.lose(n))
		})
	}
}

// TestGateCountsWhatWasHere: an address that is here before the gate is one that can be lost.
func TestGateCountsWhatWasHere(t *testing.T) {
	t.Parallel()
	n := newLab(t).addNode("n")
	n.arrive()
	g := n.startGate(true, deaf, "--until-lost")
	eventually(t, generous, "the program starts", g.says("ready"))
	g.diesAtOnce(n.leave())
}

// TestGateWaitsForTheAddress starts with the address and ends with it, once.
func TestGateWaitsForTheAddress(t *testing.T) {
	t.Parallel()
	n := newLab(t).addNode("n")
	g := n.startGate(true, deaf, "--while-vip", "--until-lost")
	throughout(t, time.Second, "there is no address", func() string {
		return g.alive() + strings.TrimSpace(g.said.String())
	})
	n.arrive()
	eventually(t, generous, "the program starts", g.says("ready"))
	g.diesAtOnce(n.leave())
}

// TestGateLosesTheAddressWhileItEnds: a pod that is removed releases the VIP long before its Ironic has ended.
func TestGateLosesTheAddressWhileItEnds(t *testing.T) {
	t.Parallel()
	n := newLab(t).addNode("n")
	n.arrive()
	g := n.startGate(true, stubborn, "--until-lost")
	eventually(t, generous, "the program starts", g.says("ready"))
	must(t, g.process.Signal(syscall.SIGTERM))
	eventually(t, generous, "the program is asked to end", g.says("asked"))
	throughout(t, time.Second, "it may take its time", g.alive)
	g.diesAtOnce(n.leave())
}

// TestGateMissesNothing stops the gate while so much happens that the kernel drops events for it, and meanwhile the
// address leaves and comes back.
func TestGateMissesNothing(t *testing.T) {
	t.Parallel()
	n := newLab(t).addNode("n")
	g := n.startGate(false, deaf, "--until-lost")
	eventually(t, generous, "the program starts", g.says("ready"))
	n.arrive()
	// The kernel knows an address by when it came, in hundredths of a second.
	throughout(t, time.Second, "the address is here", g.alive)
	must(t, g.process.Signal(syscall.SIGSTOP))
	n.flood()
	n.leave()
	n.arrive()
	n.flood()
	dropped := drops(t, g.process.Pid)
	if dropped == 0 {
		t.Fatal("the kernel dropped nothing, so this shows nothing")
	}
	must(t, g.process.Signal(syscall.SIGCONT))
	t.Logf("the kernel dropped %d events", dropped)
	g.diesAtOnce(time.Now())
}

// flood makes more events than the kernel keeps for one reader.
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

// drops counts the events that the kernel has dropped for the readers in the network of a process.
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
