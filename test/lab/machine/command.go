package machine

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// waitDelay is how long the output of a killed command is awaited.
const waitDelay = 5 * time.Second

// Command returns a command that runs on the machine as in a login shell of root: with the files, processes, network
// and environment of the machine. It ends with the power of the machine, and is killed when the context ends. Command
// returns ErrNotRunning if no system runs.
func (m *Machine) Command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	running := m.current()
	if running == nil {
		return nil, fmt.Errorf("machine %s: running %q: %w", m.spec.Name, strings.Join(args, " "), ErrNotRunning)
	}
	all := append([]string{"exec", m.group.Path(), strconv.Itoa(running.id)}, args...)
	command := exec.CommandContext(ctx, m.spec.Claim.program, all...)
	// SIGKILL for the waiting program would leave the command running.
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = waitDelay
	return command, nil
}

// Run runs a command on the machine and returns its standard output. An error has its standard error.
func (m *Machine) Run(ctx context.Context, args ...string) ([]byte, error) {
	command, err := m.Command(ctx, args...)
	if err != nil {
		return nil, err
	}
	var output, problems bytes.Buffer
	command.Stdout, command.Stderr = &output, &problems
	if err := command.Run(); err != nil {
		return output.Bytes(), fmt.Errorf("machine %s: running %q: %w: %s", m.spec.Name, strings.Join(args, " "), err,
			strings.TrimSpace(problems.String()))
	}
	return output.Bytes(), nil
}
