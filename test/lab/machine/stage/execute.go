package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine/cgroup"
)

// path is the PATH of a machine.
const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// all are the namespaces of a machine.
const all = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET |
	unix.CLONE_NEWCGROUP

// execute runs a command on the machine of a first process, and returns its exit code. SIGTERM kills the command.
func execute(groupPath, id string, args []string) (int, error) {
	group, err := cgroup.Open(groupPath)
	if err != nil {
		return 1, err
	}
	// The thread that starts the command must be in the namespaces until the command has ended.
	runtime.LockOSThread()
	if err := enter(group, id); err != nil {
		return 1, fmt.Errorf("entering the machine: %w", err)
	}
	environment := []string{"PATH=" + path, "HOME=/root", "USER=root", "LANG=C.UTF-8", "TERM=dumb"}
	if err := os.Setenv("PATH", path); err != nil {
		return 1, err
	}
	//nolint:gosec // Running any command is what it is for.
	command := exec.CommandContext(context.Background(), args[0], args[1:]...)
	command.Env = environment
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	if err := command.Start(); err != nil {
		return 1, err
	}
	go func() {
		<-end
		// Kill fails only for an ended command.
		_ = command.Process.Kill()
	}()
	err = command.Wait()
	var failed *exec.ExitError
	if errors.As(err, &failed) && failed.ExitCode() > 0 {
		return failed.ExitCode(), nil
	}
	return 0, err
}

// enter moves the process into the group of the machine, so that it ends with the machine, and the thread into the
// namespaces of the machine.
func enter(group cgroup.Group, idText string) error {
	id, err := strconv.Atoi(idText)
	if err != nil {
		return fmt.Errorf("the process id: %w", err)
	}
	handle, err := unix.PidfdOpen(id, 0)
	if err != nil {
		return fmt.Errorf("opening process %d: %w", id, err)
	}
	defer func() { _ = unix.Close(handle) }()
	// The id may have been reused before it was opened.
	if !group.Holds(id) {
		return fmt.Errorf("process %d is not of the machine: the machine was powered off", id)
	}
	if err := group.Child(machine.LabGroup).Join(); err != nil {
		return err
	}
	// A thread that shares its root and working folder with others must not enter a mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("separating the thread: %w", err)
	}
	if err := unix.Setns(handle, all); err != nil {
		return fmt.Errorf("entering the namespaces: %w", err)
	}
	return nil
}
