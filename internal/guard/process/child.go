package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Child is a started program.
type Child struct {
	pid    int
	reaper *Reaper
	done   chan struct{}
	status syscall.WaitStatus
}

// PID of the child. After the child is done the PID may belong to another process.
func (c *Child) PID() int {
	return c.pid
}

// Done is closed when the child has ended and was collected.
func (c *Child) Done() <-chan struct{} {
	return c.done
}

// Signal sends a signal. After the child has ended it sends none, so that it cannot reach another process.
func (c *Child) Signal(number syscall.Signal) error {
	return c.send(c.pid, number)
}

// send sends a signal to the target, an argument of kill, unless the child has ended.
func (c *Child) send(target int, number syscall.Signal) error {
	c.reaper.mutex.Lock()
	defer c.reaper.mutex.Unlock()
	if c.reaper.children[c.pid] != c {
		return nil
	}
	if err := syscall.Kill(target, number); err != nil {
		return fmt.Errorf("sending %s to process %d: %w", number, target, err)
	}
	return nil
}

// Catches returns true if the child handles a signal. It returns false for a child that has ended.
func (c *Child) Catches(number syscall.Signal) bool {
	c.reaper.mutex.Lock()
	defer c.reaper.mutex.Unlock()
	if c.reaper.children[c.pid] != c {
		return false
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(status), "\nSigCgt:\t")
	mask, err := strconv.ParseUint(strings.TrimSpace(rest[:min(len(rest), 16)]), 16, 64)
	return err == nil && mask>>(number-1)&1 == 1
}

// Kill kills the child and its process group. It does not block. After the child has ended it does nothing: see
// KillLeft.
func (c *Child) Kill() {
	// The only possible error is that the process group is empty.
	_ = c.send(-c.pid, syscall.SIGKILL)
}

// KillLeft kills the process group of a child that has ended, and in process 1 of a container all other processes. It
// returns true while some of them exist, which only process 1 can detect.
func (c *Child) KillLeft() bool {
	c.reaper.mutex.Lock()
	defer c.reaper.mutex.Unlock()
	return c.reaper.children[c.pid] != c && syscall.Kill(c.target(), syscall.SIGKILL) == nil && c.reaper.adopts
}

// Freeze stops the child and its process group with SIGSTOP. Process 1 of a container stops all other processes,
// because a process may have left the group.
func (c *Child) Freeze() error {
	return c.send(c.target(), syscall.SIGSTOP)
}

// Thaw continues the processes that Freeze stopped.
func (c *Child) Thaw() error {
	return c.send(c.target(), syscall.SIGCONT)
}

// target returns the argument of kill for the child and all its processes.
func (c *Child) target() int {
	if c.reaper.adopts {
		return -1
	}
	return -c.pid
}

// Stop sends SIGTERM and blocks until the child has ended. After the grace period it kills the child and returns
// false. It kills processes that the child leaves in its group.
func (c *Child) Stop(grace time.Duration) bool {
	_ = c.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
		// The only possible error is that the process group is empty.
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
		return true
	case <-time.After(grace):
		c.Kill()
		<-c.done
		return false
	}
}

// ExitCode returns the exit code as in a shell: 128 plus the signal for a killed child. Valid only after Done.
func (c *Child) ExitCode() int {
	if c.status.Signaled() {
		return 128 + int(c.status.Signal())
	}
	return c.status.ExitStatus()
}

// Ending describes how the child ended. Valid only after Done.
func (c *Child) Ending() string {
	if c.status.Signaled() {
		return "killed by " + c.status.Signal().String()
	}
	return fmt.Sprintf("exit code %d", c.status.ExitStatus())
}
