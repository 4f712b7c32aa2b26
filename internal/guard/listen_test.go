package guard

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/advert"
)

// TestListenFailsAgain has a listener that fails, listens, and fails with the same error. The log has both failures.
// The node counts as deaf until it listens again.
func TestListenFailsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		g := &guard{
			log: newLogger(slog.New(slog.NewTextHandler(&said, nil))), facts: newFacts(), ledger: advert.NewLedger(time.Now()),
		}
		ctx, cancel := context.WithCancel(t.Context())
		attempts := 0
		g.keepListening(ctx, time.Hour, "IPv4", func(ready func()) error {
			attempts++
			switch attempts {
			case 1, 3, 4:
				return errors.New("no descriptor")
			case 2:
				ready()
				if deaf := g.ledger.MayHaveHeld(); !deaf.Equal(time.Now()) {
					t.Errorf("the node listens at %s, and counts as deaf until %s", time.Now(), deaf)
				}
				<-time.After(time.Hour)
				return errors.New("no descriptor")
			default:
				cancel()
				return nil
			}
		})
		for text, want := range map[string]int{"no descriptor": 2, "No longer": 1} {
			if count := strings.Count(said.String(), text); count != want {
				t.Errorf("the log has %q %d times, want %d: %s", text, count, want, said.String())
			}
		}
	})
}
