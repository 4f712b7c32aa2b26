package guard

import (
	"net/netip"
	"slices"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/member"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
)

// page is keepalived.conf. A keepalived that replaces one that died with the VIP starts with resume, and reads config
// after the span.
type page struct {
	config, resume []byte
	span           time.Duration

	// sources are the own addresses at which keepalived receives advertisements in mode Unicast. They are empty in mode
	// Multicast.
	sources []netip.Addr
}

// isDeaf returns true if keepalived receives no advertisement, because the interface has none of the sources.
func (p page) isDeaf(seen address.Interface) bool {
	return len(p.sources) > 0 && !seen.HasAny(p.sources)
}

// isMute returns true if keepalived sends no advertisement either: the kernel requires the source of an IPv6 packet.
func (p page) isMute(seen address.Interface) bool {
	return p.isDeaf(seen) && !slices.ContainsFunc(p.sources, netip.Addr.Is4)
}

// render renders keepalived.conf with the values of the node: its name, addresses and rank.
func render(settings vip.NodeSettings, node string, seen address.Interface) (page, error) {
	config, err := member.Keepalived(settings, node, func(virtual vip.Address) (netip.Addr, bool) {
		network := netip.PrefixFrom(virtual.Address, virtual.Network.Bits())
		return seen.Source(network, virtualAddresses(settings), settings.Peers)
	})
	if err != nil {
		return page{}, err
	}
	if config.Role == keepalived.Management && isHandedOver(settings) {
		config.Role = keepalived.HandedOver
	}
	normal, err := keepalived.Render(config)
	if err != nil {
		return page{}, err
	}
	config.Resume = true
	resume, err := keepalived.Render(config)
	rendered := page{config: normal, resume: resume, span: config.Missed()}
	for _, instance := range config.Instances {
		if config.Unicast {
			rendered.sources = append(rendered.sources, instance.Source)
		}
	}
	return rendered, err
}
