package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/reports"
)

// longLine is the maximum length of a line of output.
const longLine = 16 << 20

// lowestPriority is the nice value of steps that use only what the steps beside them do not need.
const lowestPriority = 19

// The nice values of the processes of such a step, which count only among themselves: of the package that takes
// longest, and of the others.
const (
	priorityAhead  = 10
	priorityBehind = 13
)

// execCommand is the argument of this program with which go test runs test binaries.
const execCommand = "exec"

// killAfter is the time for tests to clean up after an interrupt.
const killAfter = 10 * time.Minute

// run runs the steps, prints the summary and stores the times.
func (t *tier) run(ctx context.Context) error {
	before, err := loadTimes(t.name)
	if err != nil {
		return err
	}
	total := summary{tier: t.name, started: time.Now(), notes: t.notes, omitted: t.omitted}
	var failed error
	for _, together := range t.rounds() {
		for _, step := range together {
			slices.SortStableFunc(step.packages, func(a, b string) int {
				return int(before.of(b) - before.of(a))
			})
			fmt.Printf("\n==> %s%s\n", step.name, step.scope())
		}
		outcomes, err := runTogether(ctx, together)
		total.steps = append(total.steps, outcomes...)
		failed = errors.Join(failed, err)
		if ctx.Err() != nil || (err != nil && !t.goOn) {
			break
		}
	}
	total.took = time.Since(total.started)
	total.print(os.Stdout)
	if failed == nil && total.failures() > 0 {
		failed = errors.New("see above")
	}
	if failed != nil {
		return fmt.Errorf("running tier %s: %w", t.name, failed)
	}
	return total.times().store(t.name)
}

// rounds returns the steps that run at the same time, in their order.
func (t *tier) rounds() [][]step {
	var rounds [][]step
	for _, one := range t.steps {
		if one.beside && len(rounds) > 0 {
			rounds[len(rounds)-1] = append(rounds[len(rounds)-1], one)
			continue
		}
		rounds = append(rounds, []step{one})
	}
	return rounds
}

// runTogether runs steps at the same time, and returns their results, in their order.
func runTogether(ctx context.Context, steps []step) ([]*result, error) {
	outcomes, problems := make([]*result, len(steps)), make([]error, len(steps))
	out := &turns{to: os.Stdout}
	var running sync.WaitGroup
	for i, one := range steps {
		running.Go(func() { outcomes[i], problems[i] = one.run(ctx, out) })
	}
	running.Wait()
	return outcomes, errors.Join(problems...)
}

// turns writes the output of several steps, one after the other.
type turns struct {
	mutex sync.Mutex
	to    io.Writer
}

// Write implements io.Writer.
func (t *turns) Write(content []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.to.Write(content)
}

// scope describes the tests of a step.
func (s step) scope() string {
	switch {
	case s.command != nil:
		return ""
	case s.race:
		return fmt.Sprintf(": %d packages, with the race detector", len(s.packages))
	}
	return fmt.Sprintf(": %d packages", len(s.packages))
}

// run runs the step and returns its result. It returns an error if the step could not run, or was interrupted. Failed
// tests are part of the result.
func (s step) run(ctx context.Context, out io.Writer) (*result, error) {
	outcome := newResult(s)
	folder, err := os.MkdirTemp("", "test-reports-")
	if err != nil {
		return outcome, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if s.command != nil {
		err = s.start(ctx, s.command, folder, outcome, func(output io.Reader) error {
			_, err := io.Copy(out, output)
			return err
		})
		outcome.commandFailed = err != nil
		return outcome, nil
	}
	err = s.start(ctx, s.goTest(), folder, outcome, func(output io.Reader) error {
		lines := bufio.NewScanner(output)
		lines.Buffer(nil, longLine)
		for lines.Scan() {
			outcome.read(lines.Bytes(), out)
		}
		return lines.Err()
	})
	if readErr := outcome.readReports(folder); readErr != nil {
		return outcome, readErr
	}
	var status *exec.ExitError
	if err != nil && (!errors.As(err, &status) || outcome.failures() == 0) {
		return outcome, fmt.Errorf("running %s: %w", s.name, err)
	}
	if outcome.failures() == 0 && s.passed != nil {
		return outcome, s.passed()
	}
	if err := ctx.Err(); err != nil {
		return outcome, err
	}
	return outcome, outcome.missing()
}

// goTest returns the command of a step with tests. It does not use cached results of go test, which ignores the
// programs that tests start.
func (s step) goTest() []string {
	// The linters vet the code.
	command := []string{"go", "test", "-json", "-vet=off", "-count=1", "-timeout=" + s.timeout.String()}
	if !s.whole {
		command = append(command, "-short")
	}
	if s.race {
		// The project does no pointer arithmetic, so checks of it would only take time: 6 % of a suite.
		command = append(command, "-race", "-gcflags=all=-d=checkptr=0")
	}
	if s.parallel > 0 {
		command = append(command, "-p="+strconv.Itoa(s.parallel))
	}
	if self, err := os.Executable(); err == nil && s.ahead != "" {
		command = append(command, fmt.Sprintf("-exec=%s --ahead=%s %s", self, s.ahead, execCommand))
	}
	command = append(append(command, s.goFlags...), s.packages...)
	if len(s.args) > 0 {
		command = append(append(command, "-args"), s.args...)
	}
	return command
}

// lowerPriority sets the nice value of a new session. The kernel shares processors between sessions and control groups
// first, and applies the priorities of processes only inside of each.
func lowerPriority(session, nice int) {
	// Without these groups in the kernel, only the priority of the process counts.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", session), []byte(strconv.Itoa(nice)), 0)
	_ = syscall.Setpriority(syscall.PRIO_PGRP, session, priorityAhead)
}

// execTest becomes a test binary. All packages but one yield to that one: its suite runs one spec after the other, and
// would otherwise run alone at the end, on one processor.
func execTest(ahead string, command []string) error {
	if strings.TrimSuffix(filepath.Base(command[0]), ".test") != path.Base(ahead) {
		// The nice value is that of a thread, and the new program keeps it.
		runtime.LockOSThread()
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, priorityBehind); err != nil {
			return err
		}
	}
	return syscall.Exec(command[0], command, os.Environ())
}

// start runs a command and passes its output on. It sends an interrupt, so that tests clean up.
func (s step) start(ctx context.Context, command []string, folder string, outcome *result,
	read func(io.Reader) error,
) error {
	program := exec.CommandContext(ctx, command[0], command[1:]...)
	program.Env = append(append(os.Environ(), reports.Variable+"="+folder), s.environment...)
	if s.race {
		// The race detector is written in C.
		program.Env = append(program.Env, "CGO_ENABLED=1")
	}
	// A session is one process group: go test does not send signals to the test binaries.
	program.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	program.Cancel = func() error { return syscall.Kill(-program.Process.Pid, syscall.SIGINT) }
	program.WaitDelay = killAfter
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = reader.Close() }()
	program.Stdout, program.Stderr = writer, writer
	began := time.Now()
	if err := errors.Join(program.Start(), writer.Close()); err != nil {
		return err
	}
	if s.nice > 0 {
		lowerPriority(program.Process.Pid, s.nice)
	}
	// Test binaries keep the pipe open that a killed go test leaves.
	killed := context.AfterFunc(ctx, func() {
		time.AfterFunc(killAfter, func() { _ = syscall.Kill(-program.Process.Pid, syscall.SIGKILL) })
	})
	defer killed()
	readErr := read(reader)
	if readErr != nil {
		// A program that blocks on a full pipe never ends.
		_ = reader.Close()
	}
	err = program.Wait()
	outcome.took = time.Since(began)
	outcome.processor = program.ProcessState.UserTime() + program.ProcessState.SystemTime()
	return errors.Join(err, readErr)
}
