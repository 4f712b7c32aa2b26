package guard_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// maxResident is what the guard may take of a node's memory, in KiB.
const maxResident = 15 << 10

// TestFootprint measures a guard that holds the address, is asked for its metrics, and has nothing else to do.
func TestFootprint(t *testing.T) {
	if raced {
		t.Skip("the race detector takes more than the guard")
	}
	_, n := alone(t)
	const span = 20 * time.Second
	before := processorTime(t, n.process.Process.Pid)
	asked := 0
	throughout(t, span, "the address stays", func() string {
		asked++
		if asked%500 == 0 {
			_ = n.metric("vip_holder")
		}
		return heldBy(n, n)()
	})
	used := processorTime(t, n.process.Process.Pid) - before
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.process.Process.Pid))
	must(t, err)
	var resident int
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "Rss") {
			t.Log(strings.TrimSpace(line))
		}
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			_, err = fmt.Sscan(value, &resident)
			must(t, err)
		}
	}
	t.Logf("%d KiB resident, %.2f %% of a core", resident, 100*used.Seconds()/span.Seconds())
	if resident > maxResident {
		t.Errorf("the guard takes %d KiB, more than %d KiB", resident, maxResident)
	}
}

// processorTime is how long the process has run on a processor, with a resolution of a nanosecond.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	must(t, err)
	var sum int64
	for _, entry := range entries {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, entry.Name()))
		if err != nil {
			continue
		}
		var ran int64
		_, err = fmt.Sscan(string(content), &ran)
		must(t, err)
		sum += ran
	}
	return time.Duration(sum)
}
