// Package precondition checks the requirements of a lab and returns all unmet ones, each with its remedy.
//
// It changes nothing outside of a temporary network namespace.
package precondition

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/thread"
)

const (
	gibibyte = 1 << 30

	// baseMemory is the memory in GiB for building the programs and for the process of the lab. threeMachines is the
	// memory for three machines: the management machine and a control-plane node were measured to use 1 GiB each.
	baseMemory, threeMachines = 2, 4

	// diskNeeded is the space for the disks of some machines. Package image checks the space for building the artefacts.
	diskNeeded = 4 * gibibyte

	// getRuleset requests the generation number of the nf_tables rule set, which changes nothing.
	getRuleset = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN
)

// Memory returns the memory in GiB that must be available for a lab that runs a number of machines at once.
func Memory(machines int) int { return baseMemory + (machines*threeMachines+2)/3 }

// Check returns an error for every unmet requirement of a lab that runs a number of machines at once. cache is the
// folder for the artefacts of labs.
func Check(cache string, machines int) error {
	if os.Geteuid() != 0 {
		return errors.New("a lab requires root for namespaces and mounts: run it with sudo, or in a virtual machine as root")
	}
	return errors.Join(checkMemory("/proc/meminfo", machines), checkDisk(cache), checkOverlay("/proc/filesystems"),
		checkNamespaces("/proc/self/ns"), checkCgroups("/sys/fs/cgroup"), checkLinks(), checkFilter())
}

func checkMemory(path string, machines int) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading the available memory: %w", err)
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "MemAvailable:" {
			continue
		}
		kibibytes, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		if needed := Memory(machines); kibibytes < uint64(needed)<<20 { //nolint:gosec // It is positive.
			return fmt.Errorf("%.1f GiB of memory are available: the lab requires %d GiB (machines that run at once: %d), end "+
				"other programs or let fewer machines run", float64(kibibytes)/(1<<20), needed, machines)
		}
		return nil
	}
	return fmt.Errorf("reading the available memory: %s has no line MemAvailable", path)
}

func checkDisk(folder string) error {
	var found unix.Statfs_t
	if err := unix.Statfs(folder, &found); err != nil {
		return fmt.Errorf("reading the free disk space of %s: %w", folder, err)
	}
	if found.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return fmt.Errorf("%s is on overlayfs, which container engines cannot use for images: set METAL3_CACHE to a "+
			"folder on ext4 or xfs", folder)
	}
	if free := found.Bavail * uint64(found.Bsize); free < diskNeeded { //nolint:gosec // A block size is positive.
		return fmt.Errorf("%.1f GiB are free where %s is: a lab requires %d GiB, free some space or set METAL3_CACHE to "+
			"another folder", float64(free)/gibibyte, folder, diskNeeded/gibibyte)
	}
	return nil
}

func checkOverlay(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("listing file systems: %w", err)
	}
	for line := range strings.Lines(string(content)) {
		if strings.TrimPrefix(strings.TrimSpace(line), "nodev\t") == "overlay" {
			return nil
		}
	}
	return errors.New("the kernel has no overlayfs: run modprobe overlay")
}

func checkNamespaces(folder string) error {
	var missing []error
	for _, name := range []string{"mnt", "net", "pid", "uts", "ipc", "cgroup"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			missing = append(missing, fmt.Errorf("the kernel has no %s namespaces (%w): use a kernel that has", name, err))
		}
	}
	return errors.Join(missing...)
}

// checkCgroups requires cgroup v2, or each controller of cgroup v1.
func checkCgroups(folder string) error {
	if _, err := os.Stat(filepath.Join(folder, "cgroup.controllers")); err == nil {
		return nil
	}
	var missing []error
	for _, name := range []string{"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			missing = append(missing, fmt.Errorf("the cgroup controller %s is not mounted (%w): boot with cgroup v2, or "+
				"mount it", name, err))
		}
	}
	return errors.Join(missing...)
}

// checkLinks creates the interfaces of a lab in a temporary network namespace.
func checkLinks() error {
	return thread.Own(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("creating a network namespace: %w: a lab requires the capability CAP_SYS_ADMIN", err)
		}
		for _, link := range []netlink.Link{
			&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "check0"}},
			&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "check1"}, PeerName: "check2"},
		} {
			if err := netlink.LinkAdd(link); err != nil {
				return fmt.Errorf("the kernel creates no interface of type %s (%w): run modprobe %s", link.Type(), err, link.Type())
			}
		}
		return nil
	})
}

// checkFilter sends a request to nf_tables, which kube-proxy requires.
func checkFilter() error {
	request := nl.NewNetlinkRequest(getRuleset, 0)
	request.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: nl.NFNETLINK_V0})
	if _, err := request.Execute(unix.NETLINK_NETFILTER, 0); err != nil {
		return fmt.Errorf("the kernel has no nf_tables (%w): run modprobe nf_tables", err)
	}
	return nil
}
