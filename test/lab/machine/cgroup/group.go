package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// pause is the interval of checks of the kernel.
	pause = 20 * time.Millisecond
	// patience is the time limit for killing or removing a group. A process that waits for a disk dies late.
	patience = 30 * time.Second
)

// Group is a control group with the same path in all hierarchies.
type Group struct {
	path        string
	hierarchies []Hierarchy
}

// Open returns a group, which may not exist. The path is relative to the top.
func Open(path string) (Group, error) {
	if !filepath.IsLocal(path) || path == "." {
		return Group{}, fmt.Errorf("the path of the control group is %q: use a path below the top", path)
	}
	hierarchies, err := Hierarchies()
	return Group{path: filepath.Clean(path), hierarchies: hierarchies}, err
}

// Path returns the path of the group, relative to the top.
func (g Group) Path() string { return g.path }

// Child returns a child group.
func (g Group) Child(name string) Group {
	return Group{path: filepath.Join(g.path, name), hierarchies: g.hierarchies}
}

// Folders returns the existing folders of the group, one for each hierarchy.
func (g Group) Folders() []string {
	var folders []string
	for _, hierarchy := range g.hierarchies {
		folder := filepath.Join(hierarchy.Mount, g.path)
		if _, err := os.Stat(folder); err == nil {
			folders = append(folders, folder)
		}
	}
	return folders
}

// Create creates the group and its parents, and delegates all controllers to it.
func (g Group) Create() error {
	for _, hierarchy := range g.hierarchies {
		folder := hierarchy.Mount
		for name := range strings.SplitSeq(g.path, "/") {
			if err := hierarchy.delegate(folder); err != nil {
				return fmt.Errorf("creating control group %s: %w", g.path, err)
			}
			parent := folder
			folder = filepath.Join(folder, name)
			if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("creating control group %s (this needs root): %w", g.path, err)
			}
			if err := hierarchy.inherit(parent, folder); err != nil {
				return fmt.Errorf("creating control group %s: %w", g.path, err)
			}
		}
	}
	return nil
}

// delegate enables, for the groups below a folder of version 2, every controller of the folder.
func (h Hierarchy) delegate(folder string) error {
	if h.Type != "cgroup2" {
		return nil
	}
	available, err := os.ReadFile(filepath.Join(folder, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("listing controllers: %w", err)
	}
	for controller := range strings.FieldsSeq(string(available)) {
		err := os.WriteFile(filepath.Join(folder, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
		if err != nil && slices.Contains(essential, controller) {
			return fmt.Errorf("delegating controller %s from %s (inside of a container, start the lab where "+
				"%s is the root of the computer or holds no process): %w", controller, folder, folder, err)
		}
	}
	return nil
}

// inherit sets processors and memory nodes of a new cpuset group of version 1, which accepts no process before that.
func (h Hierarchy) inherit(parent, folder string) error {
	if h.Type != "cgroup" {
		return nil
	}
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		own, err := os.ReadFile(filepath.Join(folder, name))
		if errors.Is(err, fs.ErrNotExist) || len(strings.TrimSpace(string(own))) > 0 {
			continue
		}
		above, err := os.ReadFile(filepath.Join(parent, name))
		if err != nil {
			return fmt.Errorf("reading %s of %s: %w", name, parent, err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), above, 0o644); err != nil {
			return fmt.Errorf("setting %s of %s: %w", name, folder, err)
		}
	}
	return nil
}

// Join moves the calling process, with all its threads, into the group. Its child processes follow.
func (g Group) Join() error {
	for _, hierarchy := range g.hierarchies {
		file := filepath.Join(hierarchy.Mount, g.path, "cgroup.procs")
		if err := os.WriteFile(file, []byte("0"), 0o644); err != nil {
			return fmt.Errorf("joining control group %s: %w", g.path, err)
		}
	}
	return nil
}

// Processes returns the ids of all processes in the group and below.
func (g Group) Processes() ([]int, error) {
	seen := map[int]bool{}
	for _, folder := range g.Folders() {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return gone(err)
			}
			content, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			for field := range strings.FieldsSeq(string(content)) {
				// The kernel lists an invisible process as 0.
				if id, err := strconv.Atoi(field); err == nil && id > 0 {
					seen[id] = true
				}
			}
			return gone(err)
		})
		if err != nil {
			return nil, fmt.Errorf("listing the processes of control group %s: %w", g.path, err)
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// gone returns nil if a group or file vanished during a read.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// Kill kills all processes in the group and below, and blocks until they have ended.
func (g Group) Kill(ctx context.Context) error {
	for _, folder := range g.Folders() {
		// Version 2 kills a whole tree in one step, so that no process escapes by a fork.
		if file := filepath.Join(folder, "cgroup.kill"); exists(file) {
			if err := gone(os.WriteFile(file, []byte("1"), 0o644)); err != nil {
				return fmt.Errorf("killing control group %s: %w", g.path, err)
			}
		}
	}
	var left []int
	err := wait.PollUntilContextTimeout(ctx, pause, patience, true, func(context.Context) (bool, error) {
		var err error
		if left, err = g.Processes(); err != nil {
			return false, err
		}
		for _, id := range left {
			g.killOne(id)
		}
		return len(left) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("killing control group %s, processes left %v: %w", g.path, left, err)
	}
	return nil
}

// killOne kills a process if it is still in the group. The caller retries errors.
func (g Group) killOne(id int) {
	// The handle identifies the process: a reused id is not in the group.
	process, err := os.FindProcess(id)
	if err != nil {
		return
	}
	defer func() { _ = process.Release() }()
	if g.Holds(id) {
		_ = process.Kill()
	}
}

// Holds returns true if a process is in the group or below.
func (g Group) Holds(id int) bool {
	memberships, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", id))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(memberships)) {
		if strings.Contains(strings.TrimSpace(line)+"/", "/"+g.path+"/") {
			return true
		}
	}
	return false
}

// Remove removes the group and all below, which must have no processes. They may not exist.
func (g Group) Remove(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pause, patience, true, func(context.Context) (bool, error) {
		last = nil
		for _, folder := range g.Folders() {
			last = errors.Join(last, removeTree(folder))
		}
		// The kernel keeps a group busy for a moment after its last process has ended.
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("removing control group %s: %w", g.path, errors.Join(err, last))
	}
	return nil
}

// removeTree removes a folder and those below, the deepest first, with their files.
func removeTree(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return gone(err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(folder, entry.Name())); err != nil {
				return err
			}
		}
	}
	return gone(os.Remove(folder))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
