// Package member returns the configuration of keepalived for one node of a group, from the settings of the group and
// the name and addresses of the node.
//
// The guard calls it on the node. Tests and the plugin call it to see what a node runs. It composes packages vip and
// keepalived, which do not import each other. The guard links it, so it imports only the standard library and these
// two.
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

// Keepalived returns the configuration of a node. Own returns the address of the node beside a VIP, and false if there
// is none, which is an error. In mode Multicast it is not called: keepalived chooses the source address itself, and the
// name of the node ranks it.
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

// plainName replaces the characters that keepalived does not accept in a name.
func plainName(name string) string {
	return strings.Trim(strings.Map(func(char rune) rune {
		if char < 128 && (char == '.' || char == '-' || char >= '0' && char <= '9' ||
			char >= 'a' && char <= 'z' || char >= 'A' && char <= 'Z') {
			return char
		}
		return '-'
	}, name), "-")
}
