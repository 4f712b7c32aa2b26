package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	// pause is how long to wait between two looks at what the kernel does.
	pause = 20 * time.Millisecond
	// patience is how long killing or removing a group may take. A process that waits for a disk dies late.
	patience = 30 * time.Second
)

// Group is a control group with one path in all hierarchies.
type Group struct {
	path        string
	hierarchies []Hierarchy
}

// Open names a group, whether or not it exists. The path is relative to the top.
func Open(path string) (Group, error) {
	if !filepath.IsLocal(path) || path == "." {
		return Group{}, fmt.Errorf("the path of the control group is %q: use a path below the top", path)
	}
	hierarchies, err := Hierarchies()
	return Group{path: filepath.Clean(path), hierarchies: hierarchies}, err
}

// Path is the path of the group, relative to the top.
func (g Group) Path() string { return g.path }

// Child names a group inside of the group.
func (g Group) Child(name string) Group {
	return Group{path: filepath.Join(g.path, name), hierarchies: g.hierarchies}
}

// Folders are the folders of the group that exist, one for each hierarchy.
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

// Create makes the group and those above it, and hands all controllers down to it.
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

// delegate turns on, for the groups below a folder of version 2, every controller that the folder has.
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
			return fmt.Errorf("handing controller %s down from %s (inside of a container, start the lab where "+
				"%s is the root of the computer or holds no process): %w", controller, folder, folder, err)
		}
	}
	return nil
}

// inherit gives processors and memory nodes to a new cpuset group of version 1, which otherwise takes no process.
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

// Join moves the calling process, with all of its threads, into the group. What it starts from then on is there too.
func (g Group) Join() error {
	for _, hierarchy := range g.hierarchies {
		file := filepath.Join(hierarchy.Mount, g.path, "cgroup.procs")
		if err := os.WriteFile(file, []byte("0"), 0o644); err != nil {
			return fmt.Errorf("joining control group %s: %w", g.path, err)
		}
	}
	return nil
}

// Processes lists the ids of all processes in the group and below it.
func (g Group) Processes() ([]int, error) {
	seen := map[int]bool{}
	for _, folder := range g.Folders() {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return gone(err)
			}
			content, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			for field := range strings.FieldsSeq(string(content)) {
				// A process that this process cannot see is shown as 0.
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
	ids := make([]int, 0, len(seen))
	for id := range seen {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, nil
}

// gone ignores that a group or a file in it vanished while it was read.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// Kill ends all processes in the group and below it at once, and returns when they are gone.
func (g Group) Kill(ctx context.Context) error {
	for _, folder := range g.Folders() {
		// Version 2 can kill a whole tree in one step, in which no process escapes by starting another one.
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

// killOne ends a process if it is still the one that was listed. What fails is tried again by the caller.
func (g Group) killOne(id int) {
	// The process is pinned by its handle: if the id was given out anew, the new one is not in the group.
	process, err := os.FindProcess(id)
	if err != nil {
		return
	}
	defer func() { _ = process.Release() }()
	if g.Holds(id) {
		_ = process.Kill()
	}
}

// Holds tells whether a process is in the group or below it.
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

// Remove removes the group and all below it, which hold no processes any more. Nothing has to be there.
func (g Group) Remove(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pause, patience, true, func(context.Context) (bool, error) {
		last = nil
		for _, folder := range g.Folders() {
			last = errors.Join(last, removeTree(folder))
		}
		// The kernel keeps a group busy for a moment after its last process is gone.
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("removing control group %s: %w", g.path, errors.Join(err, last))
	}
	return nil
}

// removeTree removes a folder and those below it, the deepest first. The files in them go with them.
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
