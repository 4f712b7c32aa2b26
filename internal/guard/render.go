package guard

import (
	"net/netip"
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
	return page{normal, resume, config.Missed()}, err
}
