package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/precondition"
)

// TestMemory compares the memory of the demo without variables with the documentation.
func TestMemory(t *testing.T) {
	demo, err := readSize(func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	if got := precondition.Memory(demo.machines()); demo.machines() != 6 || got != 10 {
		t.Errorf("%d machines in %d GiB of memory, want 6 in 10 GiB", demo.machines(), got)
	}
}

func TestExpectNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("requires root to find parts of a lab")
	}
	cache := t.TempDir()
	t.Setenv("METAL3_CACHE", cache)
	var out strings.Builder
	output := &screen{out: &out, started: time.Now()}
	if err := expectNothing("left-test", output); err != nil || !strings.Contains(out.String(), "nothing is left of lab left-test") {
		t.Errorf("without a lab: error %v, output %q", err, out.String())
	}
	out.Reset()
	folder := filepath.Join(cache, "labs", "left-test")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := expectNothing("left-test", output); err == nil || !strings.Contains(err.Error(), folder) || out.Len() > 0 {
		t.Errorf("with files of a lab: error %v, want the files; output %q", err, out.String())
	}
}
