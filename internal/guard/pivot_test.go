package guard_test

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// TestPivot tells the story of a cluster: built, moved, handed over, and then hit by what hits clusters.
func TestPivot(t *testing.T) {
	l := newLab(t)
	m, a, b := l.addNode("m"), l.addNode("a"), l.addNode("b")
	all := []*node{m, a, b}
	for _, n := range all {
		role := vip.ControlPlane
		if n == m {
			role = vip.Management
			n.write("etc/armed", "0\n")
		}
		n.configure(role, all...)
		n.startAPIServer()
		n.startBestIronic()
		n.start()
	}
	client := l.watch(t, 2*time.Second)
	for _, n := range all {
		eventually(t, patient, "the guard takes part", n.ready)
	}
	t.Log("1: nothing is armed, so nobody holds the address")
	throughout(t, 5*time.Second, "nobody is armed", func() string { return holders(vip4, all...) + holders(vip6, all...) })

	t.Log("2: only management is armed")
	must(t, os.Remove(m.path("etc", "armed")))
	took := eventually(t, generous, "management is armed", heldBy(m, all...))
	t.Logf("management took the address after %s", took)
	eventually(t, generous, "a client reaches it", func() string { return differs("m", client.now()) })

	t.Log("3: the cluster was moved, all are armed: management keeps the address")
	began := time.Now()
	a.annotate("true")
	b.annotate("true")
	for _, n := range []*node{a, b} {
		eventually(t, generous, "armed by the annotation", func() string { return differs("1", n.file("armed")) })
	}
	throughout(t, 4*time.Second, "all are armed", heldBy(m, all...))
	if outage := client.outage(began); outage > 0 {
		t.Errorf("arming the control plane interrupted clients for %s", outage)
	}

	t.Log("4: management is demoted")
	began = time.Now()
	m.write("etc/armed", "0\n")
	eventually(t, generous, "demotion", oneAtMost(func() string { return differs("a", holders(vip4, all...)) }, all...))
	eventually(t, generous, "a client reaches the control plane", func() string { return differs("a", client.now()) })
	t.Logf("demotion: clients were without Ironic for %s", client.outage(began))
	if m.file("holder") != "0" || a.file("holder") != "1" {
		t.Errorf("holder files say %s on m and %s on a", m.file("holder"), a.file("holder"))
	}

	t.Log("5: all processes of the holder are killed")
	began = time.Now()
	killAll(t, a)
	eventually(t, generous, "takeover after a kill", func() string { return differs("", missing(b, vip4)+missing(b, vip6)) })
	t.Logf("kill: another node had the address after %s", time.Since(began))
	eventually(t, generous, "the leftover goes by itself", heldBy(b, all...))
	t.Logf("kill: the leftover of the dead node was gone after %s", time.Since(began))
	<-a.ended
	a.start()
	eventually(t, patient, "the node is back", a.ready)
	throughout(t, 3*time.Second, "a node that comes back takes nothing", heldBy(b, all...))

	t.Log("6: Ironic of the holder dies, and comes back")
	began = time.Now()
	b.stopIronic()
	eventually(t, generous, "Ironic died", heldBy(a, all...))
	eventually(t, generous, "a client reaches the other Ironic", func() string { return differs("a", client.now()) })
	t.Logf("Ironic died: clients were without Ironic for %s", client.outage(began))
	b.startBestIronic()
	eventually(t, patient, "Ironic is back", b.ready)
	throughout(t, 3*time.Second, "Ironic that comes back takes nothing", heldBy(a, all...))

	t.Log("The API server is away: what it said last counts, also after a restart of the guard")
	a.annotation.Store(nil)
	a.signal(syscall.SIGTERM)
	<-a.ended
	eventually(t, generous, "a guard that ends gives the address away", heldBy(b, all...))
	a.start()
	eventually(t, generous, "armed by the last answer", func() string { return differs("1", a.file("armed")) })

	t.Log("The controller takes the right back")
	eventually(t, patient, "the Ironic that ended with the address is back", a.ready)
	b.annotate("false")
	eventually(t, generous, "disarmed by the annotation", heldBy(a, all...))
}

func differs(want, got string) string {
	if want == got {
		return ""
	}
	return fmt.Sprintf("%q instead of %q", got, want)
}

func missing(n *node, address fmt.Stringer) string {
	if (address == vip4 && n.holds(vip4)) || (address == vip6 && n.holds(vip6)) {
		return ""
	}
	return fmt.Sprintf("%s has no %s. ", n.name, address)
}

// oneAtMost also demands, each time, that no two nodes have an address.
func oneAtMost(then func() string, nodes ...*node) func() string {
	return func() string {
		for _, address := range []string{holders(vip4, nodes...), holders(vip6, nodes...)} {
			if len(address) > 1 {
				nodes[0].lab.t.Errorf("an address is held by %s at once", address)
			}
		}
		return then()
	}
}

// killAll kills all processes of a node at once, as a power cut would, but leaves its network.
func killAll(tb testing.TB, n *node) {
	tb.Helper()
	kill(tb, n.processes(""))
}

// kill stops all of them before it kills the first, so that none has time to act on the death of another.
func kill(tb testing.TB, pids []int) {
	tb.Helper()
	for _, number := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range pids {
			// A probe may have ended meanwhile.
			if err := syscall.Kill(pid, number); err != nil && !errors.Is(err, syscall.ESRCH) {
				tb.Fatal(err)
			}
		}
	}
}
