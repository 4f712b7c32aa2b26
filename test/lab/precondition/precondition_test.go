package precondition

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("requires a user other than root")
	}
	err := Check(t.TempDir(), 1)
	if err == nil || !strings.Contains(err.Error(), "sudo") {
		t.Errorf("error %v, want one that requires root", err)
	}
}

// TestChecksLeaveNothing requires that the interfaces of the check no longer exist.
func TestChecksLeaveNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("requires root to create network interfaces")
	}
	if err := checkLinks(); err != nil {
		t.Skipf("requires a machine that can run a lab: %v", err)
	}
	for _, name := range []string{"check0", "check1", "check2"} {
		if _, err := netlink.LinkByName(name); !errors.As(err, new(netlink.LinkNotFoundError)) {
			t.Errorf("finding interface %s: error %v, want not found", name, err)
		}
	}
}

func TestMemory(t *testing.T) {
	for machines, want := range map[int]int{1: 4, 2: 5, 3: 6, 4: 8, 6: 10} {
		if got := Memory(machines); got != want {
			t.Errorf("%d machines require %d GiB, want %d", machines, got, want)
		}
		path := filepath.Join(t.TempDir(), "meminfo")
		for missing, refused := range map[int]bool{0: false, 1: true} {
			content := fmt.Sprintf("MemAvailable: %d kB\n", want<<20-missing)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := checkMemory(path, machines); (err != nil) != refused {
				t.Errorf("%d machines with %d kB less than needed: error %v, want one: %t", machines, missing, err, refused)
			}
		}
	}
}

func TestRemedies(t *testing.T) {
	folder := t.TempDir()
	memory, systems := filepath.Join(folder, "meminfo"), filepath.Join(folder, "filesystems")
	for path, content := range map[string]string{
		memory: "MemTotal: 8000000 kB\nMemAvailable: 2097152 kB\n", systems: "nodev\tproc\n\text4\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		got  error
		want []string
	}{
		"Memory": {checkMemory(memory, 3), []string{
			"2.0 GiB of memory are available", "requires 6 GiB (machines that run at once: 3)", "end other programs or let fewer machines run",
		}},
		"Overlay":    {checkOverlay(systems), []string{"modprobe overlay"}},
		"Namespaces": {checkNamespaces(folder), []string{"no net namespaces", "no cgroup namespaces"}},
		"Cgroups":    {checkCgroups(folder), []string{"controller memory", "cgroup v2"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, want := range tc.want {
				if tc.got == nil || !strings.Contains(tc.got.Error(), want) {
					t.Errorf("error %v, want it to contain %q", tc.got, want)
				}
			}
		})
	}
}
