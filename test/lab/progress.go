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
	// pollEvery is how often a lab looks whether what it waits for has come about.
	pollEvery = 500 * time.Millisecond

	// progressEvery is how often it says that it still waits, and for what.
	progressEvery = 10 * time.Second
)

// Progress is told what goes on, in the way of fmt.Printf, a line at a time.
type Progress func(format string, args ...any)

// WaitFor calls check until it returns nil. The error that check returns says what is still missing; it is shown every
// ten seconds, and it is part of the error when the limit is over.
func (p Progress) WaitFor(
	ctx context.Context, what string, limit time.Duration, check func(context.Context) error,
) error {
	started := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %s", limit))
	defer cancel()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	told := started
	for {
		missing := check(ctx)
		if missing == nil {
			p("%s: after %s", what, time.Since(started).Round(100*time.Millisecond))
			return nil
		}
		if time.Since(told) >= progressEvery {
			told = time.Now()
			p("waiting until %s, %s so far: %v", what, time.Since(started).Round(time.Second), missing)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, errors.Join(context.Cause(ctx), missing))
		case <-poll.C:
		}
	}
}

// lines passes what programs write on as progress, line by line.
type lines struct {
	progress Progress

	mutex sync.Mutex
	// rest is the beginning of a line whose end was not written yet.
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
