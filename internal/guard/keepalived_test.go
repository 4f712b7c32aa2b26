package guard

import (
	"log/slog"
	"os"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/process"
)

// TestResumedKeepalived replaces a keepalived that died. The next one starts with a configuration with which it
// claims the VIP after one missed advertisement, and then reads its usual one.
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
		t.Errorf("keepalived continues with %q, %v", read, err)
	}
}
