package guard_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/advert"
)

// capture has the VRRP advertisements that a node receives.
type capture struct {
	mutex sync.Mutex
	heard []string
}

// captureVRRP records VRRP over IPv4 on the network of the node until the test ends.
func (n *node) captureVRRP() *capture {
	t := n.lab.t
	link, err := n.links.LinkByName("eth0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	said, ended := &capture{}, make(chan error, 1)
	go func() {
		ended <- within(n.space, func() error {
			device := net.Interface{Name: "eth0", Index: link.Attrs().Index}
			return advert.Listen(ctx, device, true, func() {}, func(source netip.Addr, heard advert.Advertisement) {
				said.mutex.Lock()
				defer said.mutex.Unlock()
				said.heard = append(said.heard, fmt.Sprintf("%s priority %d", source, heard.Priority))
			})
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("listening to VRRP on %s: %v", n.name, err)
		}
	})
	return said
}

// has returns nothing when the advertisement was received.
func (s *capture) has(want string) func() string {
	return func() string {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if slices.Contains(s.heard, want) {
			return ""
		}
		return fmt.Sprintf("%q is not among %d advertisements", want, len(s.heard))
	}
}

// TestHandedOverPartition divides the network after a handover. Afterwards the control plane has the database that
// its controllers use.
func TestHandedOverPartition(t *testing.T) {
	t.Parallel()
	m, a := bothSides(t)
	all := []*node{m, a}
	must(t, os.Mkdir(m.path("run", "handed-over"), 0o755))
	must(t, os.WriteFile(filepath.Join(m.path("run", "handed-over"), clusterID), nil, 0o600))
	heard := a.captureVRRP()
	eventually(t, generous, "management is the last choice", heard.has(fmt.Sprintf("%s priority 10", m.address4)))
	if noHolder(m)() == "" {
		t.Error("the handover took the VIP from management")
	}
	a.move("br1")
	eventually(t, generous, "each side has a holder", func() string { return heldBy(m, m)() + heldBy(a, a)() })
	a.move("br0")
	eventually(t, generous, "the control plane keeps the VIP", heldBy(a, all...))
	throughout(t, 2*time.Second, "management does not reclaim it", heldBy(a, all...))
}

// TestHandedOver announces a handover. The management node keeps the VIP, but does not reclaim it after a loss. The
// annotations of the controller decide which node may hold it; the last answer counts while the API server is
// unavailable.
func TestHandedOver(t *testing.T) {
	t.Parallel()
	m, a := bothSides(t)
	all := []*node{m, a}
	eventually(t, generous, "the node is armed", func() string { return differs("1", a.file("armed")) })
	heard := a.captureVRRP()

	keys := m.path("run", "handed-over")
	must(t, os.Mkdir(keys, 0o755))
	must(t, os.WriteFile(filepath.Join(keys, "another"), nil, 0o600))
	must(t, os.WriteFile(filepath.Join(keys, clusterID), []byte("any"), 0o600))
	throughout(t, 2*time.Second, "handed over while it holds the VIP", heldBy(m, all...))

	m.signal(syscall.SIGTERM)
	eventually(t, generous, "the end of the guard demotes it", oneAtMost(heldBy(a, all...), all...))
	eventually(t, generous, "it advertises priority 0", heard.has(fmt.Sprintf("%s priority 0", m.address4)))
	<-m.ended

	m.start()
	eventually(t, generous, "management is back", m.ready)
	// It would reclaim the VIP after five seconds.
	throughout(t, 7*time.Second, "management does not reclaim the VIP", heldBy(a, all...))
	if reason := m.metric("armed"); !strings.Contains(reason, `reason="HandedOver"} 0`) {
		t.Errorf("the reason is %q", reason)
	}

	// The API server is unavailable. Its last answer counts, also after a restart of the guard.
	a.annotation.Store(nil)
	a.signal(syscall.SIGTERM)
	<-a.ended
	eventually(t, generous, "a guard that ends releases the VIP", noHolder(all...))
	a.start()
	eventually(t, generous, "armed by the last answer", heldBy(a, all...))
	a.annotate("false")
	eventually(t, generous, "the controller disarms the nodes", noHolder(all...))

	must(t, os.Remove(filepath.Join(keys, clusterID)))
	eventually(t, generous, "the cluster is moved back", heldBy(m, all...))
}

// TestHandedOverTermSurvivesKeepalived kills keepalived of the VIP holder after the handover was announced. No other
// node may hold the VIP yet.
func TestHandedOverTermSurvivesKeepalived(t *testing.T) {
	t.Parallel()
	m, a := bothSides(t)
	a.annotate("false")
	eventually(t, generous, "the node is not armed", func() string { return differs("0", a.file("armed")) })
	must(t, os.Mkdir(m.path("run", "handed-over"), 0o755))
	must(t, os.WriteFile(filepath.Join(m.path("run", "handed-over"), clusterID), nil, 0o600))
	lost := transitions(m, "backup")
	must(t, syscall.Kill(m.keepalivedProcesses()[0], syscall.SIGKILL))
	eventually(t, generous, "keepalived died", func() string { return greater(transitions(m, "backup"), lost) })
	eventually(t, generous, "the VIP returns in its term", heldBy(m, m, a))
}

// bothSides starts a management node, which holds the VIP, and an armed control-plane node as its standby.
func bothSides(t *testing.T) (m, a *node) {
	t.Helper()
	l := newLab(t)
	m, a = l.addNode("m"), l.addNode("a")
	all := []*node{m, a}
	m.configure(vip.Management, all...)
	a.configure(vip.ControlPlane, all...)
	for _, n := range all {
		n.startAPIServer()
		n.startIronic()
		n.annotate("true")
		n.start()
	}
	eventually(t, generous, "management holds the VIP", heldBy(m, all...))
	eventually(t, generous, "the node is a standby", a.ready)
	return m, a
}
