// Package member says what keepalived is told on one node of a group. The settings of the group are the same
// everywhere; what only the node itself knows, its name and its own addresses, gives it a rank and a voice.
//
// The guard renders with it on the node, and whoever wants to see what a node will run asks the same function. Packages
// vip and keepalived do not know one another, so it stands above both. It is linked into the guard, so it keeps to the
// standard library as they do.
//
// It returns an error for a node that has no address of its own in mode Unicast, or one that is not among the peers.
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

// Keepalived is the configuration of the node of that name. Own returns the node's own address that it speaks from
// beside a virtual address, and false when it has none, which is an error. In mode Multicast nobody asks: keepalived
// speaks from what it finds, and the name of the node ranks it instead of its address.
func Keepalived(settings vip.NodeSettings, node string, own func(vip.Address) (netip.Addr, bool)) (
	keepalived.Config, error,
) {
	config := keepalived.Config{
		Name:                  plainName(settings.Conductor(node)),
		Role:                  keepalived.ControlPlane,
		Ordinal:               vip.OrdinalOfName(node),
		Interface:             settings.Interface,
		VirtualRouterID:       settings.VirtualRouterID,
		Unicast:               settings.Mode == vip.Unicast,
		AdvertisementInterval: time.Duration(settings.AdvertisementInterval),
		HealthFile:            path.Join(settings.Files.State, vip.HealthFile),
		ArmedFile:             path.Join(settings.Files.State, vip.ArmedFile),
	}
	if settings.Role == vip.Management {
		config.Role = keepalived.Management
	}
	for i, virtual := range settings.VirtualIPs {
		instance := keepalived.Instance{Address: virtual.OnInterface()}
		if config.Unicast {
			source, found := own(virtual)
			if !found {
				return keepalived.Config{}, fmt.Errorf("interface %s has no address of its own beside %s yet; give the node one",
					settings.Interface, virtual.Address)
			}
			if !slices.Contains(settings.Peers, source) {
				// The peers neither send to this node nor believe it. It would hear nobody and hold the VIP beside the holder.
				return keepalived.Config{}, fmt.Errorf("the node's own address %s is not among spec.ironic.vrrp.peers; "+
					"add it there, and roll the control plane out", source)
			}
			instance.Source, instance.Peers = source, settings.Peers
			// The first family ranks the node for both: they move together.
			if i == 0 {
				config.Ordinal = vip.Ordinal(source, settings.Peers)
			}
		}
		config.Instances = append(config.Instances, instance)
	}
	return config, nil
}

// plainName keeps what keepalived takes for a name.
func plainName(name string) string {
	return strings.Trim(strings.Map(func(char rune) rune {
		if char < 128 && (char == '.' || char == '-' || char >= '0' && char <= '9' ||
			char >= 'a' && char <= 'z' || char >= 'A' && char <= 'Z') {
			return char
		}
		return '-'
	}, name), "-")
}
