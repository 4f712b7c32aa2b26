package lab

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestControl has both sides: the process of a lab, and a process that stops it.
func TestControl(t *testing.T) {
	folder := t.TempDir()
	served, err := newControl(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-served.requested:
		t.Fatal("no request was sent yet")
	default:
	}
	connection, err := dialControl(t.Context(), folder)
	if err != nil || connection == nil {
		t.Fatalf("connection %v, error %v", connection, err)
	}
	defer func() { _ = connection.Close() }()
	select {
	case <-served.requested:
	case <-time.After(10 * time.Second):
		t.Fatal("the request did not arrive")
	}
	testEnd(t, served, folder, connection)
	if connection, err := dialControl(t.Context(), folder); connection != nil || err != nil {
		t.Errorf("connection %v and error %v after the end, want neither", connection, err)
	}
}

// testEnd requires that a connection ends only when the lab has stopped. A later request shows that the first one was
// handled.
func testEnd(t *testing.T, served *control, folder string, connection net.Conn) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, connection)
		ended <- err
	}()
	later, err := dialControl(t.Context(), folder)
	if err != nil || later == nil {
		t.Fatalf("connection %v, error %v", later, err)
	}
	defer func() { _ = later.Close() }()
	for requests := 0; requests < 2; {
		served.mutex.Lock()
		requests = len(served.open)
		served.mutex.Unlock()
	}
	select {
	case err := <-ended:
		t.Fatalf("the answer came before the lab had stopped (%v)", err)
	default:
	}
	if err := served.close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestKilled leaves a socket without a server, as a killed process does.
func TestKilled(t *testing.T) {
	folder := t.TempDir()
	served, err := newControl(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	socket, kept := filepath.Join(folder, controlSocket), filepath.Join(folder, "kept")
	if err := os.Rename(socket, kept); err != nil {
		t.Fatal(err)
	}
	if err := served.close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(kept, socket); err != nil {
		t.Fatal(err)
	}
	if connection, err := dialControl(t.Context(), folder); connection != nil || err != nil {
		t.Errorf("connection %v and error %v, want neither", connection, err)
	}
}

// TestSweepFiles removes the files of a lab without other leftovers.
func TestSweepFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("requires root to find parts of a lab")
	}
	t.Setenv("METAL3_CACHE", t.TempDir())
	folder, err := stateFolder("sweep-test")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(folder, "machines", "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	left, err := Leftovers("sweep-test")
	if err != nil || strings.Join(left, "|") != "folder "+folder {
		t.Errorf("leftovers %q and error %v, want the folder", left, err)
	}
	for name, remove := range map[string]func(context.Context, string) error{"Sweep": Sweep, "Down": Down} {
		if err := remove(t.Context(), "sweep-test"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := Leftovers("sweep-test"); err != nil || len(left) != 0 {
		t.Errorf("leftovers %q and error %v, want none", left, err)
	}
}
