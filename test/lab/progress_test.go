package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestWaitFor(t *testing.T) {
	var reported []string
	progress := Progress(func(format string, args ...any) { reported = append(reported, fmt.Sprintf(format, args...)) })
	left := 2
	err := progress.WaitFor(t.Context(), "it is there", time.Minute, func(context.Context) error {
		if left--; left > 0 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(reported) != 1 || !strings.Contains(reported[0], "it is there") {
		t.Errorf("progress %q, want one line that says what happened", reported)
	}
}

func TestWaitForTooLong(t *testing.T) {
	progress := Progress(func(string, ...any) {})
	err := progress.WaitFor(t.Context(), "it is there", time.Millisecond, func(context.Context) error {
		return errors.New("the door is closed")
	})
	for _, want := range []string{"it is there", "longer than 1ms", "the door is closed"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to contain %q", err, want)
		}
	}
	stopped := errors.New("the user pressed Ctrl-C")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	err = progress.WaitFor(ctx, "it is there", time.Minute, func(ctx context.Context) error { return ctx.Err() })
	if !errors.Is(err, stopped) {
		t.Errorf("error %v, want the reason of the context", err)
	}
}

func TestLines(t *testing.T) {
	var reported []string
	output := &lines{progress: func(format string, args ...any) { reported = append(reported, fmt.Sprintf(format, args...)) }}
	for _, part := range []string{"one", " line\ntwo", " lines\n100%", " sure\nrest"} {
		if _, err := fmt.Fprint(output, part); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := strings.Join(reported, "|"), "one line|two lines|100% sure"; got != want {
		t.Errorf("lines %q, want %q", got, want)
	}
}
