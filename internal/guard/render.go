package guard

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/track"
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
	config := keepalived.Config{
		Name:                  plainName(settings.ClusterID, node),
		Role:                  keepalived.ControlPlane,
		Ordinal:               vip.OrdinalOfName(node),
		Interface:             settings.Interface,
		VirtualRouterID:       settings.VirtualRouterID,
		Unicast:               settings.Mode == vip.Unicast,
		AdvertisementInterval: time.Duration(settings.AdvertisementInterval),
		HealthFile:            inState(settings, track.IronicOK),
		ArmedFile:             inState(settings, track.Armed),
	}
	if settings.Role == vip.Management {
		config.Role = keepalived.Management
	}
	for i, virtual := range settings.VirtualIPs {
		instance := keepalived.Instance{Address: virtual.OnInterface()}
		source, found := sourceOf(settings, virtual, seen)
		if !found {
			return nil, fmt.Errorf("interface %s has no address of its own beside %s yet; give the node one",
				settings.Interface, virtual.Address)
		}
		if config.Unicast {
			instance.Source, instance.Peers = source, settings.Peers
			// The first family ranks the node for both: they move together.
			if i == 0 {
				config.Ordinal = vip.Ordinal(source, settings.Peers)
			}
		}
		config.Instances = append(config.Instances, instance)
	}
	return keepalived.Render(config)
}

func sourceOf(settings vip.NodeSettings, virtual vip.Address, seen address.Interface) (netip.Addr, bool) {
	network := netip.PrefixFrom(virtual.Address, virtual.Network.Bits())
	source, found := seen.Source(network, virtualAddresses(settings), settings.Peers)
	if !found && settings.Mode == vip.Multicast {
		// keepalived speaks from the link-local address, or from whatever there is.
		return netip.Addr{}, true
	}
	return source, found
}

// plainName keeps what keepalived takes for a name.
func plainName(clusterID, node string) string {
	name := strings.Map(func(char rune) rune {
		if char < 128 && (char == '.' || char == '-' || char >= '0' && char <= '9' ||
			char >= 'a' && char <= 'z' || char >= 'A' && char <= 'Z') {
			return char
		}
		return '-'
	}, vip.Conductor(clusterID, node))
	return strings.Trim(name, "-")
}
