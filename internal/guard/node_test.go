package guard

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/node"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/policy"
)

// TestOldAnswer has an old answer in the cache that survives a reboot, because its disk cannot be written.
func TestOldAnswer(t *testing.T) {
	t.Parallel()
	settings := vip.NodeSettings{ArmedAnnotation: vip.Annotation{Name: "armed", Value: "true"}}
	settings.Files.State = t.TempDir()
	persistent := t.TempDir()
	store := func(folder string, answer policy.Answer) {
		reader := node.Reader{Node: "n", Annotation: "armed", Caches: []string{filepath.Join(folder, "armed-answer.json")}}
		if err := reader.Store(node.Said{Armed: answer}); err != nil {
			t.Fatal(err)
		}
	}
	newGuard := func() *guard {
		return &guard{
			options: Options{Node: "n", Cache: persistent}, log: newLogger(slog.New(slog.DiscardHandler)), facts: newFacts(),
			settings: settings,
		}
	}
	// No API server answers.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	answers := func(g *guard, reason string, want policy.Answer) {
		t.Helper()
		g.readNode(ended, settings)
		if got := g.facts.snapshot().annotation; got != want {
			t.Errorf("%s: the answer is %q, want %q", reason, got, want)
		}
	}
	store(persistent, policy.Yes)
	g := newGuard()
	answers(g, "the node has rebooted", policy.Yes)
	g.enterAnswer(node.Said{Armed: policy.No})
	g.reset(settings)
	answers(g, "the settings changed, and no cache could be written", policy.No)
	renamed := settings
	renamed.ArmedAnnotation.Name = "other"
	g.reset(renamed)
	answers(g, "another annotation was configured before", policy.Yes)
	store(settings.Files.State, policy.No)
	answers(newGuard(), "the guard restarts, and the state has a later answer", policy.No)
}
