package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// top is the folder of the hierarchies: version 2 alone is mounted here, others in folders below.
const top = "/sys/fs/cgroup"

// essential are the controllers that a kubelet requires.
var essential = []string{"cpu", "cpuset", "memory", "pids"}

// Hierarchy is one tree of control groups.
type Hierarchy struct {
	// Mount is the mount point.
	Mount string
	// Type is the type of the file system, cgroup or cgroup2.
	Type string
	// Options are the mount options of a version 1 hierarchy, such as "cpu,cpuacct" or "none,name=systemd".
	Options string
}

// Controllers returns the names by which programs find a version 1 hierarchy.
func (h Hierarchy) Controllers() []string {
	var names []string
	for option := range strings.SplitSeq(h.Options, ",") {
		if option != "none" && option != "" {
			names = append(names, strings.TrimPrefix(option, "name="))
		}
	}
	return names
}

// Hierarchies returns the mounted hierarchies. It returns an error if none suffices for a machine.
func Hierarchies() ([]Hierarchy, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("listing mounts: %w", err)
	}
	known, err := os.ReadFile("/proc/cgroups")
	if err != nil {
		return nil, fmt.Errorf("listing the controllers of the kernel: %w", err)
	}
	found := parse(string(mounts), controllers(string(known)))
	if len(found) == 0 {
		return nil, errors.New("no control groups are mounted below " + top + ": mount them there, as systemd does")
	}
	return found, nil
}

// controllers returns the names in the first column of /proc/cgroups.
func controllers(table string) []string {
	var names []string
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 1 && !strings.HasPrefix(line, "#") {
			names = append(names, fields[0])
		}
	}
	return names
}

// parse parses mountinfo, whose lines end with "- TYPE SOURCE OPTIONS" and have the mount point as the fifth field. Of
// several mounts of one hierarchy the first counts.
func parse(mounts string, known []string) []Hierarchy {
	var found []Hierarchy
	for line := range strings.Lines(mounts) {
		place, system, complete := strings.Cut(strings.TrimSpace(line), " - ")
		fields, rest := strings.Fields(place), strings.Fields(system)
		if !complete || len(fields) < 5 || len(rest) < 3 {
			continue
		}
		hierarchy := Hierarchy{Mount: fields[4], Type: rest[0]}
		if hierarchy.Mount != top && filepath.Dir(hierarchy.Mount) != top {
			continue
		}
		switch hierarchy.Type {
		case "cgroup":
			hierarchy.Options = mountOptions(rest[2], known)
		case "cgroup2":
		default:
			continue
		}
		if !slices.ContainsFunc(found, hierarchy.same) {
			found = append(found, hierarchy)
		}
	}
	return found
}

func (h Hierarchy) same(other Hierarchy) bool {
	return h.Type == other.Type && h.Options == other.Options
}

// mountOptions keeps the options that identify the hierarchy. Others, such as a release agent, must not be repeated.
func mountOptions(options string, known []string) string {
	var kept []string
	for option := range strings.SplitSeq(options, ",") {
		switch {
		case strings.HasPrefix(option, "name="):
			kept = append(kept, "none", option)
		case slices.Contains(known, option):
			kept = append(kept, option)
		}
	}
	return strings.Join(kept, ",")
}
