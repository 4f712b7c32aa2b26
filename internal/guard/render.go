package guard

import (
	"net/netip"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/member"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
)

// pages keeps the last rendered configuration, which is requested often and changes rarely. It is valid for one
// version of the settings.
type pages struct {
	rendered, handedOver bool

	seen address.Interface
	page page
	err  error
}

// page is keepalived.conf. A keepalived that replaces one that died with the VIP starts with resume, and reads config
// after the span.
type page struct {
	config, resume []byte
	span           time.Duration
}

func (p *pages) render(settings vip.NodeSettings, node string, seen address.Interface) (page, error) {
	handedOver := settings.Role == vip.Management && isHandedOver(settings)
	if !p.rendered || !p.seen.Equal(seen) || p.handedOver != handedOver {
		p.rendered, p.seen, p.handedOver = true, seen, handedOver
		p.page, p.err = renderFor(settings, node, seen, handedOver)
	}
	return p.page, p.err
}

// renderFor renders keepalived.conf with the values of the node: its name, addresses and rank.
func renderFor(settings vip.NodeSettings, node string, seen address.Interface, handedOver bool) (page, error) {
	config, err := member.Keepalived(settings, node, func(virtual vip.Address) (netip.Addr, bool) {
		network := netip.PrefixFrom(virtual.Address, virtual.Network.Bits())
		return seen.Source(network, virtualAddresses(settings), settings.Peers)
	})
	if err != nil {
		return page{}, err
	}
	if handedOver {
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
