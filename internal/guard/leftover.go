package guard

import (
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
)

const (
	// releasePatience is the time for keepalived to release the VIP. It requires some milliseconds.
	releasePatience = 200 * time.Millisecond

	// hungPatience is the time for keepalived to log that it changes its state.
	hungPatience = time.Second
)

// leftover follows a VIP that this node must not hold and that keepalived does not release. The zero value is ready to
// use.
type leftover struct {
	// since is when the VIP was first such a VIP. Zero if there is none.
	since time.Time

	// removed is true after the guard removed the VIP.
	removed bool
}

// judge returns whether the guard removes the VIP, and whether keepalived should have logged a change by now.
func (l *leftover) judge(isHere, mayHold bool, now time.Time) (removes, isDue bool) {
	isLeft := isHere && !mayHold
	if l.since.IsZero() && isLeft {
		l.since = now
	}
	lasted := now.Sub(l.since)
	switch {
	case l.since.IsZero():
		return false, false
	case !isLeft && !l.removed:
		*l = leftover{}
		return false, false
	case isLeft && lasted >= releasePatience:
		l.removed, removes = true, true
	}
	return removes, l.removed && lasted >= hungPatience
}

// endLeftover removes VIPs that keepalived does not release, and replaces a keepalived that hangs. Without the guard,
// the VIP of a hung keepalived would stay until the end of its lease, beside that of the next holder.
func (g *guard) endLeftover(left *leftover, settings vip.NodeSettings, mayHold bool) {
	virtual := virtualAddresses(settings)
	removes, isDue := left.judge(g.facts.snapshot().seen.HasAny(virtual), mayHold, time.Now())
	if removes {
		removed, err := address.Remove(settings.Interface, virtual)
		g.log.once("leftover", "Cannot remove a VIP that keepalived does not release", err)
		if len(removed) > 0 {
			g.log.Warn("Removed VIPs that keepalived does not release", "addresses", removed)
		}
	}
	if isDue {
		g.keeper.ReplaceHung(left.since)
		*left = leftover{}
	}
}
