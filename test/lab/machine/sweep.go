package machine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine/cgroup"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// Sweep removes a lab of any process from the kernel: it kills the processes in the control groups of the lab, and
// removes groups and namespaces. The lab may not exist. Files stay.
func Sweep(ctx context.Context, lab string) error {
	if err := network.CheckLab(lab); err != nil {
		return err
	}
	group, err := cgroup.Open(network.Name(lab))
	if err != nil {
		return err
	}
	if err := group.Kill(ctx); err != nil {
		return err
	}
	if err := group.Remove(ctx); err != nil {
		return err
	}
	return network.Sweep(lab)
}

// Leftovers returns the parts of a lab in the kernel: processes, control groups, network namespaces, interfaces,
// mounts, loop devices, and the claim on its name. It is empty for a released lab.
func Leftovers(lab string) ([]string, error) {
	if err := network.CheckLab(lab); err != nil {
		return nil, err
	}
	var left []string
	for _, list := range []func(string) ([]string, error){
		leftInGroups, network.Leftovers, leftMounts, leftLoopDevices, leftClaim,
	} {
		found, err := list(lab)
		if err != nil {
			return nil, fmt.Errorf("finding leftovers of lab %s: %w", lab, err)
		}
		left = append(left, found...)
	}
	return left, nil
}

func leftInGroups(lab string) ([]string, error) {
	group, err := cgroup.Open(network.Name(lab))
	if err != nil {
		return nil, err
	}
	processes, err := group.Processes()
	if err != nil {
		return nil, err
	}
	var left []string
	for _, id := range processes {
		// A process without a name has ended.
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", id))
		left = append(left, fmt.Sprintf("process %d (%s)", id, strings.TrimSpace(string(name))))
	}
	for _, folder := range group.Folders() {
		left = append(left, "control group "+folder)
	}
	return left, nil
}

// leftMounts returns mounts of the lab's files and namespaces, by their paths.
func leftMounts(lab string) ([]string, error) {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var left []string
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if strings.Contains(line, filesOf(lab)) || network.Belongs(lab, filepath.Base(fields[4])) {
			left = append(left, "mount "+fields[4])
		}
	}
	return left, nil
}

func leftLoopDevices(lab string) ([]string, error) {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	var left []string
	for _, file := range files {
		// A detached device has no such file.
		if backing, err := os.ReadFile(file); err == nil && strings.Contains(string(backing), filesOf(lab)) {
			left = append(left, fmt.Sprintf("loop device %s of %s", strings.Split(file, "/")[3],
				strings.TrimSpace(string(backing))))
		}
	}
	return left, nil
}

func leftClaim(lab string) ([]string, error) {
	content, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[len(fields)-1] == socketName(lab) {
			return []string{"claim on the name " + lab}, nil
		}
	}
	return nil, nil
}

// filesOf returns a part of the path of every file of a lab.
func filesOf(lab string) string { return "/labs/" + lab + "/" }
