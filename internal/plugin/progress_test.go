package plugin

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestProgress(t *testing.T) {
	now := time.Unix(100, 0)
	for name, tc := range map[string]struct {
		reason   string
		terminal bool
		want     string
	}{
		"Plain": {
			"a log gets lines, and not many", false,
			"Copying...\nCopying     [######..................] 10/40 objects  1.0/s  30s left  Machine m\n" +
				"Copying: 20 of 40 objects in 11.0s\nDeleting...\nDeleting: done in 0.0s\n",
		},
		"Terminal": {
			"one line is drawn again and again", true,
			clearLine + "Copying     [........................] 0/40 objects" +
				clearLine + "Copying     [######..................] 10/40 objects  1.0/s  30s left  Machine m" +
				clearLine + "Copying     [############............] 20/40 objects  1.8/s  11s left" +
				clearLine + "Copying: 20 of 40 objects in 11.0s\n" +
				clearLine + "Deleting    0.0s" + clearLine + "Deleting: done in 0.0s\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var printed bytes.Buffer
			clock := now
			p := &progress{writer: &printed, terminal: tc.terminal, now: func() time.Time { return clock }}
			p.begin(stageCopying, "objects", 40)
			clock = clock.Add(10 * time.Second)
			p.at(10, "Machine m")
			clock = clock.Add(time.Second)
			p.at(20, "")
			p.begin(stageDeleting, "", 0)
			p.end()
			p.end()
			if diff := cmp.Diff(tc.want, printed.String()); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestProgressIsPrintable(t *testing.T) {
	p := newProgress(&bytes.Buffer{})
	p.begin(stageCopying, "objects", 1)
	p.at(0, "Machine "+hostile)
	want := "Copying     [........................] 0/1 objects  Machine " + hostileText
	if diff := cmp.Diff(want, p.line()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestMoveLog reads the log of a clusterctl that repeats a write.
func TestMoveLog(t *testing.T) {
	log := &moveLog{stage: stageDiscovery, done: map[string]bool{}}
	log.Info(0, "Waiting for all resources to be ready to move")
	log.Info(0, "Creating objects in the target cluster")
	for _, name := range []string{"a", "a", "b"} {
		log.Info(1, "Creating", "Machine", name, "Namespace", "n")
	}
	if stage, done, last := log.state(); stage != stageCopying || done != 2 || last != "Machine b" {
		t.Errorf("got %s, %d, %s", stage, done, last)
	}
	log.Info(0, "Deleting objects from the source cluster")
	log.Info(1, "Deleting", "Machine", "b", "Namespace", "n")
	if stage, done, _ := log.state(); stage != stageDeleting || done != 1 || log.copied() != 2 {
		t.Errorf("got %s, %d of %d", stage, done, log.copied())
	}
}
