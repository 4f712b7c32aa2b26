package guard

import (
	"log/slog"
	"os"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/process"
)

// TestResumedKeepalived has a keepalived that followed one which died read its usual configuration. With the first one
// it takes the VIP after one advertisement that it did not hear.
func TestResumedKeepalived(t *testing.T) {
	reaper := process.NewReaper()
	defer reaper.Close()
	s := newSupervisor(reaper, "/bin/true", t.TempDir(), newFacts(), slog.New(slog.DiscardHandler))
	s.resuming = true
	s.Want(target{page: page{config: []byte("usual"), resume: []byte("resume"), span: 1}, incarnation: "first"})
	wait := s.settle()
	if read, err := os.ReadFile(s.path()); err != nil || string(read) != "resume" {
		t.Fatalf("keepalived starts with %q, %v", read, err)
	}
	if wait == nil {
		t.Fatal("nothing makes keepalived read its usual configuration")
	}
	<-wait
	s.settle()
	if read, err := os.ReadFile(s.path()); err != nil || string(read) != "usual" {
		t.Errorf("keepalived goes on with %q, %v", read, err)
	}
}
