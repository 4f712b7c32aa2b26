package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/precondition"
)

// TestMemory knows what the documentation says about the demo without any variables.
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
		t.Skip("looking for what is left of a lab needs root")
	}
	cache := t.TempDir()
	t.Setenv("METAL3_CACHE", cache)
	var out strings.Builder
	told := &screen{out: &out, started: time.Now()}
	if err := expectNothing("left-test", told); err != nil || !strings.Contains(out.String(), "nothing is left of lab left-test") {
		t.Errorf("of no lab: error %v, and it said %q", err, out.String())
	}
	out.Reset()
	folder := filepath.Join(cache, "labs", "left-test")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := expectNothing("left-test", told); err == nil || !strings.Contains(err.Error(), folder) || out.Len() > 0 {
		t.Errorf("of a lab with files: error %v, want one that names them; and it said %q", err, out.String())
	}
}
