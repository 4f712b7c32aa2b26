package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/advert"
)

// listen records the VRRP advertisements of one IP family.
func (g *guard) listen(ctx context.Context, settings vip.NodeSettings, index int, isIPv4 bool) {
	device := net.Interface{Name: settings.Interface, Index: index}
	family := "IPv6"
	if isIPv4 {
		family = "IPv4"
	}
	g.keepListening(ctx, time.Duration(settings.TakeoverAfterSilence), family, func(ready func()) error {
		return advert.Listen(ctx, device, isIPv4, ready, func(source netip.Addr, heard advert.Advertisement) {
			g.ledger.Record(time.Now(), groupOf(settings, g.facts.snapshot().seen), source, heard)
		})
	})
}

// keepListening repeats a function that listens until it fails or the context ends. The function calls ready when it
// listens. limit is that of the silence of the management cluster.
func (g *guard) keepListening(
	ctx context.Context, limit time.Duration, family string, listen func(ready func()) error,
) {
	kind, message := "listen "+family, "Cannot listen to VRRP over "+family
	for ctx.Err() == nil {
		err := listen(func() {
			if g.log.once(kind, message, nil) {
				g.ledger.CannotHear(time.Now(), limit)
			}
		})
		if err != nil {
			g.log.once(kind, message, err)
			// A deaf node must not count silence.
			g.ledger.CannotHear(time.Now(), limit)
		}
		pause(ctx, listenPause)
	}
}

// groupOf returns the VRRP group of this node.
func groupOf(settings vip.NodeSettings, seen address.Interface) advert.Group {
	own := make([]netip.Addr, 0, len(seen.Addresses))
	for _, prefix := range seen.Addresses {
		own = append(own, prefix.Addr())
	}
	return advert.Group{
		RouterID: settings.VirtualRouterID, Virtual: virtualAddresses(settings), Own: own, Peers: settings.Peers,
	}
}

// loggedSpeakers is the maximum number of foreign speakers in a line of the log: any host of the network can be one.
const loggedSpeakers = 5

// reportSpeakers exports peers and foreign speakers as metrics, and logs changes of the foreign speakers.
func (g *guard) reportSpeakers(now time.Time) {
	for peer, seen := range g.ledger.Peers() {
		g.facts.peers.WithLabelValues(peer.String()).Set(float64(seen.UnixMilli()) / 1000)
	}
	speakers := g.ledger.ForeignSpeakers(now)
	if slices.Equal(speakers, g.foreign) {
		return
	}
	g.foreign = speakers
	g.facts.foreign.Reset()
	var collisions []error
	for i, speaker := range speakers {
		g.facts.foreign.WithLabelValues(speaker.Source.String()).Set(1)
		if i < loggedSpeakers {
			collisions = append(collisions, fmt.Errorf("%s %s", speaker.Source, speaker.Collision))
		}
	}
	if more := len(speakers) - loggedSpeakers; more > 0 {
		collisions = append(collisions, fmt.Errorf("and %d more", more))
	}
	g.log.once("foreign", "Another VRRP speaker collides with the VIP of Ironic; give one of the two another virtual "+
		"router ID, or list it as a peer", errors.Join(collisions...))
}
