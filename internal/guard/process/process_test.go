package process_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/process"
)

const patience = 20 * time.Second

// helper makes the test program a guard: it starts a child, prints its PID, and waits to be killed.
const helper = "GUARD_TEST_PLAYS_PARENT"

func TestMain(m *testing.M) {
	switch os.Getenv(helper) {
	case "":
		os.Exit(m.Run())
	case "init":
		os.Exit(runInit())
	case "doomed":
		os.Exit(runDoomed())
	}
	child, err := process.NewReaper().Start(process.Program{Path: "/bin/sleep", Arguments: []string{"1000"}})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	// The child belongs to the thread that started it, so other threads may end.
	fmt.Println(child.PID())
	<-child.Done()
}

// runInit is process 1. It runs a program that leaves an orphan, and succeeds when both were collected.
func runInit() int {
	child, err := process.NewReaper().Start(process.Program{
		Path: "/bin/sh", Arguments: []string{"-c", "sleep 0.2 & exit 5"},
	})
	if err != nil {
		return 10
	}
	<-child.Done()
	if child.ExitCode() != 5 {
		return 11
	}
	for began := time.Now(); time.Since(began) < patience; <-time.After(5 * time.Millisecond) {
		// Looks for children, dead or alive, and leaves them for the reaper.
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if errors.Is(err, unix.ECHILD) {
			return 0
		}
	}
	return 12
}

// runDoomed is process 1. It runs a program that prints SIGTERM, and waits to be killed.
func runDoomed() int {
	child, err := process.NewReaper().Start(process.Program{
		Path: "/bin/sh", Arguments: []string{"-c", "trap 'echo asked' TERM; echo ready; while :; do :; done"}, Output: os.Stdout,
	})
	if err != nil {
		return 10
	}
	<-child.Done()
	return 11
}

// TestNoProcessGetsSIGTERMWhenProcess1IsKilled kills process 1. The kernel must kill all programs of the container
// without SIGTERM: after SIGTERM keepalived would release the VIP, although the guard restarts within its lease.
func TestNoProcessGetsSIGTERMWhenProcess1IsKilled(t *testing.T) {
	t.Parallel()
	const attempts = 20
	for range attempts {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(t.Context(), os.Args[0])
		command.Env = append(os.Environ(), helper+"=doomed")
		command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		command.Stdout = write
		err = command.Start()
		_ = write.Close()
		if errors.Is(err, syscall.EPERM) {
			t.Skip("requires root to be process 1")
		}
		if err != nil {
			t.Fatal(err)
		}
		said := bufio.NewReader(read)
		if line, err := said.ReadString('\n'); err != nil || line != "ready\n" {
			t.Fatalf("the program said %q: %v", line, err)
		}
		if err := command.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		// Wait returns after all programs of the container have ended.
		_ = command.Wait()
		if left, err := io.ReadAll(said); err != nil || len(left) != 0 {
			t.Fatalf("the program said %q: %v", left, err)
		}
		_ = read.Close()
	}
}

func TestProcess1CollectsOrphans(t *testing.T) {
	t.Parallel()
	command := exec.CommandContext(context.Background(), os.Args[0])
	command.Env = append(os.Environ(), helper+"=init")
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	err := command.Run()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("requires root to be process 1")
	}
	if err != nil {
		t.Errorf("process 1 ended with %v", err)
	}
}

func TestChild(t *testing.T) {
	t.Parallel()
	reaper := process.NewReaper()
	t.Cleanup(reaper.Close)
	for name, test := range map[string]struct {
		script string
		signal syscall.Signal
		code   int
		ending string
	}{
		"ends well": {script: "exit 0", ending: "exit code 0"},
		"fails":     {script: "exit 7", code: 7, ending: "exit code 7"},
		"is killed": {script: "echo ready; exec sleep 1000", signal: syscall.SIGKILL, code: 137, ending: "killed by killed"},
		// A shell cannot trap signals that were ignored at its start, as SIGHUP is with nohup.
		"gets a signal":  {script: "trap 'exit 3' USR1; echo ready; while :; do sleep 0.1; done", signal: syscall.SIGUSR1, code: 3, ending: "exit code 3"},
		"writes to both": {script: "echo ready; echo ready >&2; exit 4", code: 4, ending: "exit code 4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			child, read := startShell(t, reaper, test.script)
			if test.signal != 0 {
				line, err := bufio.NewReader(read).ReadString('\n')
				if err != nil || line != "ready\n" {
					t.Fatalf("the child said %q: %v", line, err)
				}
				if err := child.Signal(test.signal); err != nil {
					t.Fatal(err)
				}
			}
			await(t, child)
			if child.ExitCode() != test.code || child.Ending() != test.ending {
				t.Errorf("got code %d, %s", child.ExitCode(), child.Ending())
			}
			if err := child.Signal(syscall.SIGTERM); err != nil {
				t.Errorf("a signal to a child that is gone: %v", err)
			}
		})
	}
}

func await(t *testing.T, child *process.Child) {
	t.Helper()
	select {
	case <-child.Done():
	case <-time.After(patience):
		t.Fatal("the child was not collected")
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	reaper := process.NewReaper()
	t.Cleanup(reaper.Close)
	polite, err := reaper.Start(process.Program{Path: "/bin/sleep", Arguments: []string{"1000"}})
	if err != nil {
		t.Fatal(err)
	}
	if !polite.Stop(patience) {
		t.Error("a child that handles SIGTERM was killed")
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	deaf, err := reaper.Start(process.Program{
		Path: "/bin/sh", Arguments: []string{"-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"}, Output: write,
	})
	_ = write.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(read).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if deaf.Stop(50 * time.Millisecond) {
		t.Error("a child that ignores SIGTERM ended by itself")
	}
	if deaf.ExitCode() != 137 {
		t.Errorf("it ended with %d", deaf.ExitCode())
	}
}

// TestKill kills a child that ignores SIGTERM, and its child process.
func TestKill(t *testing.T) {
	t.Parallel()
	const ignores = "trap '' TERM; sleep 1000 & echo $!; wait; wait"
	for name, test := range map[string]struct {
		script string
		end    func(*process.Child)
		code   int
	}{
		"Kill":           {ignores, (*process.Child).Kill, 137},
		"Stop":           {ignores, func(c *process.Child) { c.Stop(50 * time.Millisecond) }, 137},
		"Stop, obedient": {"trap 'exit 3' TERM; (trap '' TERM; exec sleep 1000) & echo $!; wait", func(c *process.Child) { c.Stop(patience) }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reaper := process.NewReaper()
			t.Cleanup(reaper.Close)
			child, read := startShell(t, reaper, test.script)
			line, err := bufio.NewReader(read).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			test.end(child)
			await(t, child)
			if child.ExitCode() != test.code {
				t.Errorf("it ended with %d", child.ExitCode())
			}
			for began := time.Now(); alive(pid); <-time.After(5 * time.Millisecond) {
				if time.Since(began) > patience {
					_ = syscall.Kill(pid, syscall.SIGKILL)
					t.Fatal("the process of the child outlived it")
				}
			}
			child.Kill()
		})
	}
}

func TestManyChildrenEndAtOnce(t *testing.T) {
	t.Parallel()
	reaper := process.NewReaper()
	t.Cleanup(reaper.Close)
	var children []*process.Child
	for range 30 {
		child, err := reaper.Start(process.Program{Path: "/bin/true"})
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, child)
	}
	for _, child := range children {
		await(t, child)
	}
}

func TestStartReturnsAnError(t *testing.T) {
	t.Parallel()
	reaper := process.NewReaper()
	t.Cleanup(reaper.Close)
	_, err := reaper.Start(process.Program{Path: "/no/such/program"})
	if err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("the error is %v", err)
	}
}

// TestSharedFate kills the parent with SIGKILL.
func TestSharedFate(t *testing.T) {
	t.Parallel()
	parent := exec.CommandContext(context.Background(), os.Args[0])
	parent.Env = append(os.Environ(), helper+"=yes")
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if !alive(pid) {
		t.Fatal("the child did not start")
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	for began := time.Now(); alive(pid); <-time.After(5 * time.Millisecond) {
		if time.Since(began) > patience {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the child outlived its parent")
		}
	}
}

// alive returns true if the process runs and is no zombie.
func alive(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(status, []byte(") "))
	return !bytes.HasPrefix(rest, []byte("Z")) && !bytes.HasPrefix(rest, []byte("X"))
}

// startShell starts a shell with a script, and returns its output.
func startShell(t *testing.T, reaper *process.Reaper, script string) (*process.Child, *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = read.Close() })
	child, err := reaper.Start(process.Program{Path: "/bin/sh", Arguments: []string{"-c", script}, Output: write})
	_ = write.Close()
	if err != nil {
		t.Fatal(err)
	}
	return child, read
}
