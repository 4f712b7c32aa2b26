// Package member computes the keepalived configuration of one node from the settings of its group and the name and
// addresses of the node.
//
// It is part of the guard binary, so it imports only the standard library and the packages vip and keepalived.
package member

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// Keepalived returns the configuration of a node. It calls own for the source address of the node for each VIP, except
// for IPv6 in mode Multicast. It returns an error if there is none, or in mode Unicast if the address is not among the
// peers. In mode Multicast, the name of the node sets its priority.
func Keepalived(settings vip.NodeSettings, node string, own func(vip.Address) (netip.Addr, bool)) (
	keepalived.Config, error,
) {
	config := keepalived.Config{
		Name:            plainName(settings.Conductor(node)),
		Role:            keepalived.ControlPlane,
		Ordinal:         vip.OrdinalOfName(node),
		Interface:       settings.Interface,
		VirtualRouterID: settings.VirtualRouterID,
		Unicast:         settings.Mode == vip.Unicast,
		Timers:          Timers(settings),
		HealthFile:      path.Join(settings.Files.State, vip.HealthFile),
		ArmedFile:       path.Join(settings.Files.State, vip.ArmedFile),
	}
	if settings.Role == vip.Management {
		config.Role = keepalived.Management
	}
	for i, virtual := range settings.VirtualIPs {
		instance := keepalived.Instance{Address: virtual.OnInterface()}
		if config.Unicast || virtual.Address.Is4() {
			source, found := own(virtual)
			if !found {
				return keepalived.Config{}, fmt.Errorf("interface %s has no other address of the IP family of VIP %s; "+
					"configure one", settings.Interface, virtual.Address)
			}
			instance.Source = source
		}
		if config.Unicast {
			source := instance.Source
			if !slices.Contains(settings.Peers, source) {
				// The peers ignore this node. It would receive no advertisement and become a second VRRP master.
				return keepalived.Config{}, fmt.Errorf("address %s of the node is not in spec.ironic.vrrp.peers; add it, and "+
					"annotate all control-plane Nodes with %s=%s", source, vip.PeersAnnotation, source)
			}
			instance.Peers = settings.Peers
			// The first family sets the priority for both families, which move together.
			if i == 0 {
				config.Ordinal = vip.Ordinal(source, settings.Peers)
			}
		}
		config.Instances = append(config.Instances, instance)
	}
	return config, nil
}

// Timers returns the timers of the group.
func Timers(settings vip.NodeSettings) keepalived.Timers {
	return keepalived.Timers{
		Interval: time.Duration(settings.AdvertisementInterval), Within: time.Duration(settings.TakeoverWithin),
	}
}

// plainName replaces the characters that keepalived rejects in a name.
func plainName(name string) string {
	return strings.Trim(strings.Map(func(char rune) rune {
		if char < 128 && (char == '.' || char == '-' || char >= '0' && char <= '9' ||
			char >= 'a' && char <= 'z' || char >= 'A' && char <= 'Z') {
			return char
		}
		return '-'
	}, name), "-")
}
