package cgroup_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine/cgroup"
)

// joinVariable makes the test program a process that joins a group, starts another process and waits.
const joinVariable = "METAL3_TEST_JOINS_GROUP"

func TestMain(m *testing.M) {
	if path := os.Getenv(joinVariable); path != "" {
		fmt.Fprintln(os.Stderr, join(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func join(path string) error {
	group, err := cgroup.Open(path)
	if err != nil {
		return err
	}
	if err := group.Join(); err != nil {
		return err
	}
	child := exec.CommandContext(context.Background(), "sleep", "infinity")
	if err := child.Start(); err != nil {
		return err
	}
	fmt.Println(child.Process.Pid)
	return child.Wait()
}

func TestGroupKillsItsProcesses(t *testing.T) {
	group := open(t, "m3test-group/inner")
	other := open(t, "m3test-group-other")
	for _, made := range []cgroup.Group{group, other} {
		must(t, made.Create())
		must(t, made.Create())
	}
	child := start(t, group)
	outsider := start(t, other)
	top := open(t, "m3test-group")
	if !top.Holds(child) || !group.Holds(child) || other.Holds(child) || top.Holds(outsider) {
		t.Errorf("processes are in the wrong group: %t %t %t %t",
			top.Holds(child), group.Holds(child), other.Holds(child), top.Holds(outsider))
	}
	wantProcesses(t, group, 2)
	must(t, top.Kill(t.Context()))
	wantProcesses(t, top, 0)
	wantProcesses(t, other, 2)
	must(t, top.Remove(t.Context()))
	if folders := append(top.Folders(), group.Folders()...); len(folders) > 0 {
		t.Errorf("folders after removing: %v", folders)
	}
	must(t, top.Remove(t.Context()))
}

func TestPathsOutsideOfTheTopAreRefused(t *testing.T) {
	for _, path := range []string{"", ".", "..", "/etc", "a/../../b"} {
		if _, err := cgroup.Open(path); err == nil {
			t.Errorf("%q was accepted", path)
		}
	}
}

// open returns a group until the end of the test.
func open(t *testing.T, path string) cgroup.Group {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("requires root to create control groups")
	}
	group, err := cgroup.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	top, err := cgroup.Open(strings.Split(filepath.ToSlash(path), "/")[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The context of the test has ended.
		if err := top.Kill(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if err := top.Remove(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return group
}

// start starts a process that joins a group, and returns the id of its child process.
func start(t *testing.T, group cgroup.Group) int {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(context.WithoutCancel(t.Context()), self)
	command.Env = append(os.Environ(), joinVariable+"="+group.Path())
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	var text string
	if _, err := fmt.Fscanln(output, &text); err != nil {
		t.Fatalf("reading the output of the process: %v", err)
	}
	id, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// wantProcesses requires a number of processes in a group. start has two: the one that joined, and its child.
func wantProcesses(t *testing.T, group cgroup.Group, want int) {
	t.Helper()
	processes, err := group.Processes()
	must(t, err)
	if len(processes) != want {
		t.Errorf("group %s has the processes %v, want %d", group.Path(), processes, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
