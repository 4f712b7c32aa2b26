package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// pollEvery is the interval between two checks of WaitFor.
	pollEvery = 2 * time.Second

	// progressEvery is the interval between two progress reports of WaitFor.
	progressEvery = 10 * time.Second
)

// Progress reports a line, formatted as fmt.Printf does.
type Progress func(format string, args ...any)

// WaitFor calls check until it returns nil. Every ten seconds WaitFor reports the error that check returned last, which
// says what is missing. When the time limit is over, WaitFor returns an error that wraps the last one.
func (p Progress) WaitFor(
	ctx context.Context, what string, limit time.Duration, check func(context.Context) error,
) error {
	started := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %s", limit))
	defer cancel()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	reported := started
	for {
		missing := check(ctx)
		if missing == nil {
			p("%s: after %s", what, time.Since(started).Round(100*time.Millisecond))
			return nil
		}
		if time.Since(reported) >= progressEvery {
			reported = time.Now()
			p("waiting until %s, %s so far: %v", what, time.Since(started).Round(time.Second), missing)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, errors.Join(context.Cause(ctx), missing))
		case <-poll.C:
		}
	}
}

// lines reports each line of the output of programs.
type lines struct {
	progress Progress

	mutex sync.Mutex
	// rest is the beginning of an incomplete line.
	rest []byte
}

func (l *lines) Write(content []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.rest = append(l.rest, content...)
	for {
		line, rest, complete := bytes.Cut(l.rest, []byte("\n"))
		if !complete {
			return len(content), nil
		}
		l.progress("%s", line)
		l.rest = rest
	}
}
