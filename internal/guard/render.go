package guard

import (
	"net/netip"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/member"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
)

// pages remembers what was rendered last, because it is asked for all the time and changes hardly ever. It is good for
// one version of the settings.
type pages struct {
	rendered bool
	seen     address.Interface
	config   []byte
	err      error
}

func (p *pages) render(settings vip.NodeSettings, node string, seen address.Interface) ([]byte, error) {
	if !p.rendered || !p.seen.Equal(seen) {
		p.rendered, p.seen = true, seen
		p.config, p.err = renderFor(settings, node, seen)
	}
	return p.config, p.err
}

// renderFor fills what only the node knows into keepalived.conf: its name, its own addresses and its rank.
func renderFor(settings vip.NodeSettings, node string, seen address.Interface) ([]byte, error) {
	config, err := member.Keepalived(settings, node, func(virtual vip.Address) (netip.Addr, bool) {
		network := netip.PrefixFrom(virtual.Address, virtual.Network.Bits())
		return seen.Source(network, virtualAddresses(settings), settings.Peers)
	})
	if err != nil {
		return nil, err
	}
	return keepalived.Render(config)
}
