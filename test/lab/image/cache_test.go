package image

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func shop(t *testing.T) workshop {
	t.Helper()
	return workshop{cache: t.TempDir(), progress: io.Discard}
}

func writeOne(_ context.Context, target string) error {
	return os.WriteFile(target, []byte("one"), 0o600)
}

func TestEnsureMakesOnceForSeveralCallers(t *testing.T) {
	shop := shop(t)
	var made atomic.Int32
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			path, err := shop.ensure(t.Context(), step{name: "thing", limit: time.Minute,
				make: func(ctx context.Context, target string) error {
					made.Add(1)
					return writeOne(ctx, target)
				}})
			if err != nil {
				t.Error(err)
			}
			if content, err := os.ReadFile(path); err != nil || string(content) != "one" {
				t.Errorf("%s has %q, %v", path, content, err)
			}
		})
	}
	callers.Wait()
	if made.Load() != 1 {
		t.Errorf("made %d times", made.Load())
	}
}

func TestFailedEnsureLeavesNoFiles(t *testing.T) {
	shop := shop(t)
	broken := errors.New("broken")
	_, err := shop.ensure(t.Context(), step{name: "thing", label: "making a thing", limit: time.Minute,
		make: func(ctx context.Context, target string) error { return errors.Join(writeOne(ctx, target), broken) }})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "making a thing") {
		t.Errorf("got %v", err)
	}
	left, err := filepath.Glob(filepath.Join(shop.cache, "thing*"))
	if err != nil || len(left) != 1 || !strings.HasSuffix(left[0], ".lock") {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestEnsureStartsAnewAfterAnInterruption(t *testing.T) {
	shop := shop(t)
	if err := os.Mkdir(filepath.Join(shop.cache, "thing.partial"), 0o700); err != nil {
		t.Fatal(err)
	}
	path, err := shop.ensure(t.Context(), step{name: "thing", limit: time.Minute, make: writeOne})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := os.Stat(path); err != nil || status.IsDir() {
		t.Errorf("got %v, %v", status, err)
	}
}

func TestEnsureStopsWaitingForALock(t *testing.T) {
	shop := shop(t)
	unlock, err := shop.lock(t.Context(), filepath.Join(shop.cache, "thing.lock"), "")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), lockPollEvery/2)
	defer cancel()
	if _, err := shop.ensure(ctx, step{name: "thing", limit: time.Minute, make: writeOne}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestEnsureLimitsTheTime(t *testing.T) {
	_, err := shop(t).ensure(t.Context(), step{name: "thing", limit: time.Millisecond,
		make: func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestKeyChangesWithEachPart(t *testing.T) {
	keys := map[string]string{}
	for name, parts := range map[string][]any{
		"one": {"a"}, "two": {"a", "b"}, "joined": {"ab"}, "list": {[]string{"a", "b"}}, "none": {},
	} {
		made := key(parts...)
		if len(made) != 16 || made != key(parts...) {
			t.Errorf("%s: %q", name, made)
		}
		if other, taken := keys[made]; taken {
			t.Errorf("%s and %s have the same key", name, other)
		}
		keys[made] = name
	}
}

func TestCheckRoomNamesTheRemedy(t *testing.T) {
	shop := shop(t)
	if err := shop.checkRoom(0.001); err != nil {
		t.Error(err)
	}
	err := shop.checkRoom(1 << 32)
	if err == nil || !strings.Contains(err.Error(), shop.cache) || !strings.Contains(err.Error(), "METAL3_CACHE") {
		t.Errorf("got %v", err)
	}
}

func TestCheckMirror(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if request.URL.Path != "/debian/dists/"+suite+"/Release" {
			http.NotFound(response, request)
		}
	}))
	defer server.Close()
	if err := checkMirror(t.Context(), server.URL+"/debian"); err != nil {
		t.Error(err)
	}
	if err := checkMirror(t.Context(), server.URL+"/other"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("got %v", err)
	}
	server.Close()
	if err := checkMirror(t.Context(), server.URL+"/debian"); err == nil || !strings.Contains(err.Error(), "http_proxy") {
		t.Errorf("got %v", err)
	}
}
