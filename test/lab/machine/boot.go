package machine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// boot is one run of an operating system.
type boot struct {
	command *exec.Cmd
	// id is the PID of the first process of the machine on this computer.
	id int
	// done is closed when the system has ended.
	done chan struct{}
	// code is the exit code. It is set before done is closed.
	code int
}

// startBoot starts a system and blocks until its first process exists. The output of the system is appended to the
// console.
func startBoot(ctx context.Context, program, plan, consoleFile string) (*boot, error) {
	console, err := os.OpenFile(consoleFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the console: %w", err)
	}
	defer func() { _ = console.Close() }()
	status, report, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	defer func() { _ = status.Close() }()
	defer func() { _ = report.Close() }()
	// The system outlives the context and the terminal of the caller.
	command := exec.CommandContext(context.WithoutCancel(ctx), program, "boot", plan)
	command.Stdout, command.Stderr = console, console
	command.ExtraFiles = []*os.File{report}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	started := &boot{command: command, done: make(chan struct{})}
	go started.wait()
	_ = report.Close()
	release := context.AfterFunc(ctx, func() { _ = status.Close() })
	defer release()
	line, err := bufio.NewReader(status).ReadString('\n')
	if err == nil {
		started.id, err = strconv.Atoi(strings.TrimSpace(line))
	}
	if err != nil {
		_ = command.Process.Kill()
		<-started.done
		return nil, fmt.Errorf("setting the machine up, see %s: %w", consoleFile, errors.Join(err, ctx.Err()))
	}
	return started, nil
}

func (b *boot) wait() {
	// The exit code is in the state of the process.
	_ = b.command.Wait()
	b.code = b.command.ProcessState.ExitCode()
	close(b.done)
}

func (b *boot) ended() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// signal sends a signal to the process that waits for the system. It returns no error if that has ended.
func (b *boot) signal(signal os.Signal) error {
	if err := b.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signalling the operating system: %w", err)
	}
	return nil
}
