package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// probeEvery is the interval of the readiness probes of a child.
const probeEvery = 25 * time.Millisecond

// tailSize is the length of a log in an error.
const tailSize = 4 << 10

// Child is a program that a group started.
type Child struct {
	name    string
	command *exec.Cmd
	logFile string
	// done is closed when the child has ended and err is set.
	done chan struct{}
	err  error
}

// PID is the process ID of the child.
func (c *Child) PID() int { return c.command.Process.Pid }

// LogFile returns the file with the output of the child.
func (c *Child) LogFile() string { return c.logFile }

// Done is closed when the child has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Kill kills the child and blocks until it has ended. A second call does nothing.
func (c *Child) Kill() {
	// The only possible error is that the child has ended already.
	_ = c.command.Process.Kill()
	<-c.done
}

// WaitReady calls probe until it returns nil. It returns an error with the end of the log when the child or the
// context ends.
func (c *Child) WaitReady(ctx context.Context, probe func(context.Context) error) error {
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	var last error
	for {
		if last = probe(ctx); last == nil {
			return nil
		}
		select {
		case <-c.done:
			return fmt.Errorf("%s ended before it was ready: %w\n%s", c.name, errors.Join(c.err, last), c.LogTail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", c.name, errors.Join(ctx.Err(), last), c.LogTail())
		case <-ticker.C:
		}
	}
}

// LogTail returns the end of the output of the child.
func (c *Child) LogTail() string {
	content, err := os.ReadFile(c.logFile)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	if len(content) > tailSize {
		content = content[len(content)-tailSize:]
		if _, rest, found := bytes.Cut(content, []byte("\n")); found {
			content = rest
		}
	}
	return string(content)
}

func (c *Child) wait() {
	c.err = c.command.Wait()
	close(c.done)
}
