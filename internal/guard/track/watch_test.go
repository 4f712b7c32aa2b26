package track_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/track"
)

// alarm is a Watch that goes on.
type alarm struct {
	t     *testing.T
	rings chan struct{}
	ended chan error
	stop  context.CancelFunc
}

func watch(t *testing.T, directories ...string) *alarm {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	a := &alarm{t: t, rings: make(chan struct{}, 1), ended: make(chan error, 1), stop: cancel}
	ring := func() {
		select {
		case a.rings <- struct{}{}:
		default:
		}
	}
	go func() { a.ended <- track.Watch(ctx, ring, directories...) }()
	a.heard("the beginning")
	return a
}

func (a *alarm) heard(what string) {
	a.t.Helper()
	select {
	case <-a.rings:
	case <-time.After(10 * time.Second):
		a.t.Fatalf("%s: nothing was told", what)
	}
}

// quiet takes what is told of one change in several parts.
func (a *alarm) quiet() {
	for {
		select {
		case <-a.rings:
		case <-time.After(20 * time.Millisecond):
			return
		}
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	one, other := t.TempDir(), t.TempDir()
	path := filepath.Join(one, track.Armed)
	alarm := watch(t, one, other)
	for _, step := range []struct {
		what   string
		change func() error
	}{
		{"a new file", func() error { return track.Ensure(path, true) }},
		{"another word", func() error { return track.Ensure(path, false) }},
		{"a file that is written in place", func() error { return os.WriteFile(path, []byte("perhaps"), 0o600) }},
		{"a file that is emptied", func() error { return os.Truncate(path, 0) }},
		{"a file that is moved away", func() error { return os.Rename(path, filepath.Join(t.TempDir(), "away")) }},
		{"a file in the other directory", func() error { return track.Ensure(filepath.Join(other, track.Holder), true) }},
		{"a file that is removed", func() error { return os.Remove(filepath.Join(other, track.Holder)) }},
		{"a link", func() error { return os.Symlink("nowhere", filepath.Join(one, "..data")) }},
	} {
		alarm.quiet()
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		alarm.heard(step.what)
	}
	alarm.stop()
	if err := <-alarm.ended; err != nil {
		t.Errorf("in the end: %v", err)
	}
}

// TestWatchEnds: a directory that was replaced is not watched any more, which has to be told.
func TestWatchEnds(t *testing.T) {
	t.Parallel()
	for what, replace := range map[string]func(directory string) error{
		"moved":   func(directory string) error { return os.Rename(directory, directory+"-old") },
		"removed": os.RemoveAll,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			directory := filepath.Join(t.TempDir(), "state")
			if err := track.Ensure(filepath.Join(directory, track.Armed), true); err != nil {
				t.Fatal(err)
			}
			alarm := watch(t, t.TempDir(), directory)
			alarm.quiet()
			if err := replace(directory); err != nil {
				t.Fatal(err)
			}
			alarm.heard("the end of the directory")
			select {
			case err := <-alarm.ended:
				if err == nil {
					t.Error("it ended without an error")
				}
			case <-time.After(10 * time.Second):
				t.Error("it goes on")
			}
		})
	}
	if err := track.Watch(t.Context(), func() { t.Error("something was told") }, filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a directory that is not there is watched")
	}
}
