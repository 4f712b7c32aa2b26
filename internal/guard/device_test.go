package guard_test

import (
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

func (n *node) addCard(device, address string) netlink.Link {
	t := n.lab.t
	t.Helper()
	must(t, n.links.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: device}, PeerName: "e-" + device}))
	link, err := n.links.LinkByName(device)
	must(t, err)
	parsed, err := netlink.ParseAddr(address)
	must(t, err)
	must(t, n.links.AddrAdd(link, parsed))
	must(t, n.links.LinkSetUp(link))
	return link
}

// choosing returns settings of an armed node without an Ironic, with MAC addresses or a network.
func (n *node) choosing(macs []string, network string) vip.NodeSettings {
	settings := n.settings
	settings.Standby, settings.Interface, settings.MACAddresses = vip.Cold, "", macs
	settings.InterfaceCIDR = netip.Prefix{}
	if network != "" {
		settings.InterfaceCIDR = netip.MustParsePrefix(network)
	}
	return settings
}

// TestChoosesItsInterface has nodes with different interface names. Each node gets the VIP on its interface, and each
// gate follows.
func TestChoosesItsInterface(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n, absent := l.addNode("n"), l.addNode("absent")
	n.configure(vip.Management, n, absent)
	n.startAPIServer()
	other := n.addCard("mgmt0", "10.9.0.11/24")
	eth0, err := n.links.LinkByName("eth0")
	must(t, err)
	mac := eth0.Attrs().HardwareAddr.String()

	n.use(n.choosing(nil, "172.30.0.0/24"))
	gate := n.startNamedGate("trap 'exit 0' TERM; echo started on $PROVISIONING_INTERFACE as $0; while :; do sleep 0.05; done")
	n.start()
	eventually(t, generous, "no interface fits", func() string {
		code, body := n.get("/readyz")
		if code != http.StatusServiceUnavailable || !strings.Contains(body, "an address of its own in 172.30.0.0/24") ||
			!strings.Contains(body, "eth0") || !strings.Contains(body, "mgmt0") {
			return body
		}
		return differs("metal3_guard_settings_valid 0", n.metric("settings_valid")) + differs("missing", n.file("interface"))
	})
	if code, body := n.get("/livez"); code != http.StatusOK {
		t.Errorf("a guard that waits for its interface is killed: %s", body)
	}

	// The interface comes up late.
	late, err := netlink.ParseAddr("172.30.0.11/24")
	must(t, err)
	must(t, n.links.AddrAdd(eth0, late))
	eventually(t, generous, "the VIP is on the interface", heldBy(n, n))
	eventually(t, generous, "the gate has the name", gate.says("started on eth0 as eth0\n"))

	// The guard keeps an interface that loses its address.
	must(t, n.links.AddrDel(eth0, late))
	changed := n.choosing(nil, "172.30.0.0/24")
	changed.TakeoverAfterSilence = vip.Duration(time.Hour)
	n.use(changed)
	eventually(t, generous, "the settings are read again", n.logs("The settings changed"))
	eventually(t, generous, "the VIP stays", heldBy(n, n))

	// The new settings name another interface.
	n.use(n.choosing([]string{other.Attrs().HardwareAddr.String()}, ""))
	eventually(t, generous, "the other interface is named", func() string { return differs("mgmt0", n.file("interface")) })
	eventually(t, generous, "the VIP left the old one", noHolder(n))
	eventually(t, generous, "the program ended", gate.says("The VIP has left, and the program has ended"))

	n.use(n.choosing([]string{mac}, ""))
	eventually(t, generous, "the VIP is back", heldBy(n, n))
	eventually(t, generous, "the gate is back", func() string {
		if got := strings.Count(gate.said.String(), "started on eth0 as eth0\n"); got != 2 {
			return gate.said.String()
		}
		return ""
	})
}

// TestTwoInterfacesFit has two interfaces that fit. The guard reports an error and uses none.
func TestTwoInterfacesFit(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n, absent := l.addNode("n"), l.addNode("absent")
	n.configure(vip.Management, n, absent)
	second := n.addCard("mgmt0", "172.22.0.99/24")
	n.use(n.choosing(nil, "172.22.0.0/24"))
	n.start()
	eventually(t, generous, "two interfaces fit", func() string {
		if text := "interfaces [eth0 mgmt0] have an address of its own in 172.22.0.0/24"; !strings.Contains(n.said.String(), text) {
			return n.said.String()
		}
		return ""
	})
	must(t, n.links.LinkSetDown(second))
	eventually(t, generous, "one interface remains", heldBy(n, n))
	must(t, n.links.LinkSetUp(second))
	n.signal(syscall.SIGTERM)
	<-n.ended
	n.start()
	eventually(t, generous, "the next guard chooses again", func() string {
		_, body := n.get("/readyz")
		if !strings.Contains(body, "interfaces [eth0 mgmt0] have") {
			return body
		}
		return noHolder(n)()
	})
}

// startNamedGate runs a shell behind a gate that reads the interface from the file of the guard. $0 of the shell is
// the interface.
func (n *node) startNamedGate(script string, flags ...string) *gated {
	return n.startGateOn("--interface-file="+n.path("run", "interface"), false,
		[]string{"/bin/sh", "-c", script, "{interface}"}, append(flags, "--while-vip")...)
}

// TestGateAwaitsTheInterface starts no program before the guard has chosen the interface. A term ends when the name
// changes.
func TestGateAwaitsTheInterface(t *testing.T) {
	t.Parallel()
	n := newLab(t).addNode("n")
	must(t, os.MkdirAll(n.path("run"), 0o755))
	n.addCard("mgmt0", "10.9.0.11/24")
	n.arrive()
	g := n.startGateOn("--interface-file="+n.path("run", "interface"), false,
		[]string{"/bin/sh", "-c", "echo runs on $0; exec sleep 1000", "{interface}"}, "--until-lost")
	eventually(t, generous, "the gate runs", func() string { return differs("1", strconv.Itoa(len(n.processes("guard")))) })
	n.write("run/interface", "\n")
	n.write("run/interface", "eth0\n")
	eventually(t, generous, "the program starts once, with the name", func() string {
		return g.says("runs on eth0\n")() + differs("1", strconv.Itoa(strings.Count(g.said.String(), "runs on")))
	})
	n.write("run/interface", "mgmt0\n")
	select {
	case <-g.dead:
	case <-time.After(generous):
		t.Fatal("the program still runs after the interface changed")
	}
	if missing := g.says("was here and has left")(); missing != "" {
		t.Error(missing)
	}
}

// TestScriptsOfTheImageSeeTheInterface runs the common prologue of the scripts of the Ironic image behind a gate.
// They find the interface, and its address unless another one is set.
func TestScriptsOfTheImageSeeTheInterface(t *testing.T) {
	t.Parallel()
	source := os.Getenv("IRONIC_IMAGE_SOURCE")
	if source == "" {
		t.Skip("set IRONIC_IMAGE_SOURCE to a folder with scripts and ironic-config of metal3-io/ironic-image")
	}
	versions, err := filepath.Glob(filepath.Join(filepath.Dir(source), "v[0-9]*"))
	must(t, err)
	if len(versions) == 0 {
		versions = []string{source}
	}
	for _, version := range versions {
		t.Run(filepath.Base(version), func(t *testing.T) {
			t.Parallel()
			n := newLab(t).addNode("n")
			must(t, os.MkdirAll(n.path("run"), 0o755))
			n.addCard("provisioning", "10.9.0.11/24")
			n.write("run/interface", "eth0\n")
			script := "export CUSTOM_CONFIG_DIR=" + n.path("conf") + " CUSTOM_DATA_DIR=" + n.path("data") +
				" IRONIC_SCHEME=http\n" +
				". " + filepath.Join(version, "scripts", "ironic-common.sh") + "\n" +
				"wait_for_interface_or_ip\n" +
				`echo "the script sees $PROVISIONING_INTERFACE with $IRONIC_IP"; exec sleep 1000`
			g := n.startGateOn("--interface-file="+n.path("run", "interface"), false, []string{"/bin/bash", "-c", script}, "--until-lost")
			eventually(t, generous, "the script found it", g.says("the script sees eth0 with "+n.address4.String()+"\n"))
		})
	}
}
