package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Child is a program that was started.
type Child struct {
	pid    int
	reaper *Reaper
	done   chan struct{}
	status syscall.WaitStatus
}

// PID of the child. After the child is done the number may belong to another process.
func (c *Child) PID() int {
	return c.pid
}

// Done is closed when the child has ended and was collected.
func (c *Child) Done() <-chan struct{} {
	return c.done
}

// Signal sends a signal. A child that has ended gets none, and no other process with its number does.
func (c *Child) Signal(number syscall.Signal) error {
	c.reaper.mutex.Lock()
	defer c.reaper.mutex.Unlock()
	if c.reaper.children[c.pid] != c {
		return nil
	}
	if err := syscall.Kill(c.pid, number); err != nil {
		return fmt.Errorf("sending %s to process %d: %w", number, c.pid, err)
	}
	return nil
}

// Catches returns true once the child does something of its own with a signal, instead of ending. It returns false for
// a child that has ended.
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

// Kill ends the child and all of its process group at once, without asking. It does not wait for that. A child that has
// ended is left alone: see KillLeft for what it left behind.
func (c *Child) Kill() {
	c.reaper.mutex.Lock()
	defer c.reaper.mutex.Unlock()
	if c.reaper.children[c.pid] == c {
		// The only possible error says that the process group is empty.
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	}
}

// KillLeft ends what a child that has ended has left behind: its process group, and in process 1 of a container all
// others there. It returns true while some of it is there, which only process 1 can tell.
func (c *Child) KillLeft() bool {
	c.reaper.mutex.Lock()
	defer c.reaper.mutex.Unlock()
	return c.reaper.children[c.pid] != c && syscall.Kill(c.target(), syscall.SIGKILL) == nil && c.reaper.adopts
}

// Freeze stops the child and all of its process group where they are. Process 1 of a container stops all others there:
// a process may have left the group.
func (c *Child) Freeze() error {
	return c.signalAll(syscall.SIGSTOP)
}

// Thaw lets what Freeze stopped continue.
func (c *Child) Thaw() error {
	return c.signalAll(syscall.SIGCONT)
}

func (c *Child) signalAll(number syscall.Signal) error {
	c.reaper.mutex.Lock()
	defer c.reaper.mutex.Unlock()
	if c.reaper.children[c.pid] != c {
		return nil
	}
	if err := syscall.Kill(c.target(), number); err != nil {
		return fmt.Errorf("sending %s to process %d and what it started: %w", number, c.pid, err)
	}
	return nil
}

// target is the argument of kill for the child and all processes that it has started.
func (c *Child) target() int {
	if c.reaper.adopts {
		return -1
	}
	return -c.pid
}

// Stop asks the child to end and returns when it has. After the grace period it is killed, and false is returned.
func (c *Child) Stop(grace time.Duration) bool {
	_ = c.Signal(syscall.SIGTERM)
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case <-c.done:
		return true
	case <-patience.C:
		_ = c.Signal(syscall.SIGKILL)
		<-c.done
		return false
	}
}

// ExitCode is the code as a shell counts it: 128 and the signal for a child that was killed. Only valid after Done.
func (c *Child) ExitCode() int {
	if c.status.Signaled() {
		return 128 + int(c.status.Signal())
	}
	return c.status.ExitStatus()
}

// Ending says in words how the child ended. Only valid after Done.
func (c *Child) Ending() string {
	if c.status.Signaled() {
		return "killed by " + c.status.Signal().String()
	}
	return fmt.Sprintf("exit code %d", c.status.ExitStatus())
}
