package witness_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/witness"
)

const address = "172.22.0.2"

// change adds the address to the card of a machine or removes it.
func change(t *testing.T, machine string, how func(netlink.Link, *netlink.Addr) error) {
	t.Helper()
	changeTo(t, machine, address, how)
}

func changeTo(t *testing.T, machine, which string, how func(netlink.Link, *netlink.Addr) error) {
	t.Helper()
	err := network.Within(network.MachineName(lab, machine), func() error {
		card, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		parsed, err := netlink.ParseAddr(which + "/24")
		return errors.Join(err, netlink.LinkSetUp(card), how(card, parsed))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func until(t *testing.T, what string, now func() string, want string) {
	t.Helper()
	for began := time.Now(); now() != want; <-time.After(20 * time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("%s: %q, want %q", what, now(), want)
		}
	}
}

const lab = "witness"

// connect creates a switch with two machines, and returns the name of the machine of each network card.
func connect(t *testing.T) (made *network.Switch, names map[string]string) {
	t.Helper()
	made, err := network.Create(lab)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := made.Delete(); err != nil {
			t.Error(err)
		}
	})
	names = map[string]string{}
	for name, number := range map[string]byte{"a": 20, "b": 21} {
		if err := made.Plug(network.Port{Machine: name, Number: number}); err != nil {
			t.Fatal(err)
		}
		names[network.HardwareAddress(number).String()] = name
	}
	return made, names
}

// TestWitness gives the address to two machines, together and in turn.
func TestWitness(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("requires root to create network namespaces")
	}
	made, names := connect(t)
	var well atomic.Bool
	seen, err := witness.Start(t.Context(), witness.Options{
		Switch: made, Address: netip.MustParseAddr(address),
		Name: func(card net.HardwareAddr) string { return names[card.String()] },
		Ask: func(context.Context) (string, error) {
			if !well.Load() {
				return "", errors.New("no answer")
			}
			return "an Ironic", nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	until(t, "no machine has the address", func() string {
		if len(seen.Held.Since(began)) == 0 {
			return "no request yet"
		}
		return seen.Held.Last()
	}, witness.None)
	change(t, "a", netlink.AddrAdd)
	until(t, "one has the address", seen.Held.Last, "a")
	change(t, "b", netlink.AddrAdd)
	until(t, "two have the address", seen.Held.Last, "a and b")
	until(t, "the witness names both", func() string {
		if err := seen.Check(began, 0); err != nil && strings.Contains(err.Error(), "a and b") {
			return "yes"
		}
		return "no"
	}, "yes")
	change(t, "a", netlink.AddrDel)
	until(t, "the other one has the address", seen.Held.Last, "b")
	alone := time.Now()
	change(t, "b", netlink.AddrDel)
	until(t, "no machine has the address any more", seen.Held.Last, witness.None)
	if err := seen.Check(alone, 0); err != nil {
		t.Error(err)
	}
	until(t, "no Ironic answers", seen.Answered.Last, witness.None)
	well.Store(true)
	until(t, "an Ironic answers", seen.Answered.Last, "an Ironic")
	if err := seen.Stop(); err != nil {
		t.Error(err)
	}
	if got := len(seen.Held.Since(began)); got < 5 {
		t.Errorf("there are %d spans, want one for each change", got)
	}
}

// serve runs a DHCP server on a machine with an address, and returns the function that stops it.
func serve(t *testing.T, program, machine, own, next string) (stop func()) {
	t.Helper()
	changeTo(t, machine, own, netlink.AddrAdd)
	server := exec.CommandContext(t.Context(), program, "--keep-in-foreground", "--conf-file=/dev/null", "--port=0",
		"--interface=eth0", "--bind-dynamic", "--no-ping", "--user=root", "--pid-file=",
		"--dhcp-leasefile="+filepath.Join(t.TempDir(), "leases"),
		"--dhcp-range=172.22.0.200,172.22.0.220,255.255.255.0,15m", "--dhcp-boot=snponly-x86_64.efi,"+next+","+next)
	if err := network.Within(network.MachineName(lab, machine), server.Start); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// TestOffered serves DHCP on two machines, together and in turn. The second server is another machine than the boot
// server.
func TestOffered(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("requires root to create network namespaces")
	}
	program, err := exec.LookPath("dnsmasq")
	if err != nil {
		t.Skip("requires dnsmasq: install the package dnsmasq-base")
	}
	made, _ := connect(t)
	names := map[netip.Addr]string{network.Address4(20): "a", network.Address4(21): "b"}
	seen, err := witness.Start(t.Context(), witness.Options{
		Switch: made, Address: netip.MustParseAddr(address),
		Server: func(server netip.Addr) string { return names[server] },
	})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "no machine serves DHCP", seen.Offered.Last, witness.None)
	stop := serve(t, program, "a", "172.22.0.20", address)
	until(t, "one serves", seen.Offered.Last, "a")
	serve(t, program, "b", "172.22.0.21", "172.22.0.21")
	until(t, "two serve", seen.Offered.Last, "a and b (boot from 172.22.0.21)")
	stop()
	until(t, "the other one serves", seen.Offered.Last, "b (boot from 172.22.0.21)")
	if err := seen.Stop(); err != nil {
		t.Error(err)
	}
}

// TestStart rejects an address that is not IPv4.
func TestStart(t *testing.T) {
	_, err := witness.Start(t.Context(), witness.Options{Address: netip.MustParseAddr("fd00::2")})
	if err == nil || !strings.Contains(err.Error(), "IPv4") {
		t.Errorf("error %v, want one that requires an IPv4 address", err)
	}
}
