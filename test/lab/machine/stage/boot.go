package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine/cgroup"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

const (
	// statusFile is the pipe to the lab for the id of the first process.
	statusFile = 3
	// powerOffSignal makes systemd power the machine off: SIGRTMIN+4 of the C library.
	powerOffSignal = syscall.Signal(34 + 4)
	// drainLimit is the time to read the remaining output of the system.
	drainLimit = time.Second
)

// boot starts an operating system and returns its exit code. SIGTERM is the power button.
func boot(planFile string) (int, error) {
	plan, err := machine.ReadPlan(planFile)
	if err != nil {
		return 1, err
	}
	group, err := cgroup.Open(plan.Group)
	if err != nil {
		return 1, err
	}
	console, terminal, err := openTerminal()
	if err != nil {
		return 1, fmt.Errorf("opening a terminal for the console: %w", err)
	}
	button := make(chan os.Signal, 1)
	signal.Notify(button, syscall.SIGTERM)

	// The first process inherits group and network of the thread that starts it.
	runtime.LockOSThread()
	if err := group.Child(machine.SystemGroup).Join(); err != nil {
		return 1, err
	}
	if err := enterNetwork(plan.Namespace); err != nil {
		return 1, err
	}
	system, release, err := startSystem(planFile, terminal)
	if err != nil {
		return 1, err
	}
	printed := make(chan struct{})
	go func() {
		// Reading fails when no process has the terminal open.
		_, _ = io.Copy(os.Stdout, console)
		close(printed)
	}()
	// In version 2 the system can delegate controllers only if its group has no other process.
	if err := group.Child(machine.LabGroup).Join(); err != nil {
		return 1, errors.Join(err, system.Process.Kill())
	}
	if err := errors.Join(report(system.Process.Pid), release.Close()); err != nil {
		return 1, errors.Join(fmt.Errorf("reporting to the lab: %w", err), system.Process.Kill())
	}
	go press(button, system.Process)
	code, err := ending(system.Wait())
	// A terminal without an open file ends for its reader, and the system opens it for each line, so it stays open until
	// now.
	_ = terminal.Close()
	select {
	case <-printed:
	case <-time.After(drainLimit):
	}
	return code, err
}

func enterNetwork(namespace string) error {
	fd, err := unix.Open(network.Path(namespace), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening network namespace %s: %w", namespace, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering network namespace %s: %w", namespace, err)
	}
	return nil
}

// startSystem starts the first process, which waits until the returned pipe is closed.
func startSystem(planFile string, terminal *os.File) (*exec.Cmd, io.Closer, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("finding the own program: %w", err)
	}
	//nolint:gosec // It starts itself, with the plan that the lab wrote.
	system := exec.CommandContext(context.Background(), program, "init", planFile, terminal.Name())
	system.Stdout, system.Stderr = terminal, terminal
	system.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWCGROUP,
		Setsid:     true,
	}
	release, err := system.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := system.Start(); err != nil {
		return nil, nil, fmt.Errorf("starting the first process: %w", err)
	}
	return system, release, nil
}

func report(id int) error {
	status := os.NewFile(statusFile, "status")
	_, err := fmt.Fprintln(status, id)
	return errors.Join(err, status.Close())
}

func press(button <-chan os.Signal, system *os.Process) {
	for range button {
		// The system may have ended.
		_ = system.Signal(powerOffSignal)
	}
}

// ending returns the exit code of the first process: the kernel kills it with a signal for the request of the system.
func ending(err error) (int, error) {
	var failed *exec.ExitError
	if !errors.As(err, &failed) {
		return 1, errors.Join(errors.New("the first process exited"), err)
	}
	status, isStatus := failed.Sys().(syscall.WaitStatus)
	switch {
	case isStatus && status.Signaled() && status.Signal() == syscall.SIGINT:
		return machine.ExitPoweredOff, nil
	case isStatus && status.Signaled() && status.Signal() == syscall.SIGHUP:
		return machine.ExitRebooting, nil
	}
	return 1, fmt.Errorf("the operating system failed: %w", failed)
}
