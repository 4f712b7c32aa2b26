package process_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env/process"
)

const (
	// ownerVariable makes the test program an owner that waits to be killed.
	ownerVariable = "METAL3_TEST_PROCESS_OWNER"

	// patience is the time limit for the kernel or a shell.
	patience = 30 * time.Second

	// sleepForever outlives every test.
	sleepForever = "86400"
)

func TestMain(m *testing.M) {
	if os.Getenv(ownerVariable) != "" {
		if err := ownAndWait(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// ownAndWait creates a group with a child, prints that, and never returns.
func ownAndWait() error {
	group, err := process.NewGroup("metal3-process-test-")
	if err != nil {
		return err
	}
	child, err := group.Start(sleeper())
	if err != nil {
		return err
	}
	fmt.Println(child.PID(), group.Folder())
	select {}
}

func sleeper() process.Program {
	return process.Program{Name: "sleeper", Path: "/bin/sleep", Args: []string{sleepForever}}
}

func TestOwnerIsKilled(t *testing.T) {
	owner := exec.CommandContext(t.Context(), os.Args[0])
	owner.Env = append(os.Environ(), ownerVariable+"=1")
	owner.Stderr = os.Stderr
	output, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	first, folder, _ := strings.Cut(strings.TrimSpace(line), " ")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// The process was killed, so Wait returns an error.
	_ = owner.Wait()
	eventually(t, "the child dies", func() bool { return gone(pid) })
	eventually(t, "the folder is removed", func() bool {
		_, err := os.Stat(folder)
		return errors.Is(err, fs.ErrNotExist)
	})
}

func TestClose(t *testing.T) {
	group := newGroup(t)
	child, err := group.Start(sleeper())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := group.WriteFile("folder/file", []byte("content")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := group.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !gone(child.PID()) {
		t.Error("the child still runs")
	}
	if _, err := os.Stat(group.Folder()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder still exists (error: %v)", err)
	}
	if _, err := group.Start(sleeper()); err == nil {
		t.Error("starting a child in a closed group succeeds, want an error")
	}
}

func TestPort(t *testing.T) {
	group, other := newGroup(t), newGroup(t)
	seen := map[string]bool{}
	for range 20 {
		for _, group := range []*process.Group{group, other} {
			address, err := group.Address()
			if err != nil {
				t.Fatal(err)
			}
			if seen[address] {
				t.Fatalf("got %s twice", address)
			}
			seen[address] = true
		}
	}
	for address := range seen {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Fatalf("a child cannot listen on the port that is reserved for it: %v", err)
		}
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWaitReady(t *testing.T) {
	notReady := errors.New("no answer")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	cases := map[string]struct {
		reason string
		ctx    context.Context //nolint:containedctx // it is what differs between the cases
		script string
		probe  error
		want   []string
	}{
		"Ready": {"the probe succeeds", t.Context(), "exec sleep " + sleepForever, nil, nil},
		"Ended": {
			"the child has ended", t.Context(), "echo because; exit 3", notReady,
			[]string{"because", "exit status 3", "no answer"},
		},
		"NoTime": {
			"the context has ended", ended, "exec sleep " + sleepForever, notReady,
			[]string{"context canceled", "no answer"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			child, err := newGroup(t).Start(process.Program{Name: "child", Path: "/bin/sh", Args: []string{"-c", tc.script}})
			if err != nil {
				t.Fatal(err)
			}
			err = child.WaitReady(tc.ctx, func(context.Context) error { return tc.probe })
			if (err == nil) != (tc.want == nil) {
				t.Fatalf("%s: error %v", tc.reason, err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: error %q does not contain %q", tc.reason, err, want)
				}
			}
		})
	}
}

func TestLogsAreKept(t *testing.T) {
	kept := t.TempDir()
	t.Setenv(process.LogsVariable, kept)
	group := newGroup(t)
	child, err := group.Start(process.Program{
		Name: "talker", Path: "/bin/sh", Args: []string{"-c", "echo $GREETING"}, Env: []string{"GREETING=hello"},
	})
	if err != nil {
		t.Fatal(err)
	}
	<-child.Done()
	if err := group.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(kept, filepath.Base(group.Folder()), "talker.log"))
	if err != nil || string(content) != "hello\n" {
		t.Errorf("log %q (error: %v), want hello", content, err)
	}
}

func TestMissingProgram(t *testing.T) {
	if _, err := newGroup(t).Start(process.Program{Name: "missing", Path: "/no/such/program"}); err == nil {
		t.Error("starting a missing program succeeds, want an error")
	}
}

func newGroup(t *testing.T) *process.Group {
	t.Helper()
	group, err := process.NewGroup("metal3-process-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := group.Close(); err != nil {
			t.Error(err)
		}
	})
	return group
}

func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for !done() {
		select {
		case <-limit.C:
			t.Fatalf("%s: not within %s", what, patience)
		case <-again.C:
		}
	}
}
