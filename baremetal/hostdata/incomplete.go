package hostdata

import (
	"fmt"
	"strings"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// IncompleteLinks returns a message about network-data that cloud-init cannot read. Empty if there is none. It is no
// error, because another program may read it.
//
//	entry                                       cloud-init
//	VLAN without macAddress                     ends with an error
//	ethernet with neither macAddress nor name   ends with an error
//	bond or VLAN on a link that does not exist  ends with an error
//	network on a link that does not exist       ignores the network
func IncompleteLinks(data *infrav1.NetworkData) string {
	if data == nil {
		return ""
	}
	c := &completeness{links: linkIDs(data.Links)}
	c.checkLinks(data.Links)
	networks := data.Networks
	for _, list := range []struct {
		name    string
		entries []infrav1.StaticNetwork
	}{{"ipv4", networks.IPv4}, {"ipv6", networks.IPv6}} {
		for _, entry := range list.entries {
			c.requireLink("networks."+list.name, entry.ID, entry.Link)
		}
	}
	for _, list := range []struct {
		name    string
		entries []infrav1.DynamicNetwork
	}{{"ipv4DHCP", networks.IPv4DHCP}, {"ipv6DHCP", networks.IPv6DHCP}, {"ipv6SLAAC", networks.IPv6SLAAC}} {
		for _, entry := range list.entries {
			c.requireLink("networks."+list.name, entry.ID, entry.Link)
		}
	}
	if len(c.sentences) == 0 {
		return ""
	}
	return strings.Join(c.sentences, " ") + " cloud-init does not configure the network with such network data. " +
		"spec.networkData is immutable: create a corrected Metal3DataTemplate, and name it in " +
		"spec.template.spec.dataTemplate of a new Metal3MachineTemplate."
}

// completeness collects sentences about incomplete entries. links are the IDs of all links.
type completeness struct {
	links     map[string]bool
	sentences []string
}

func linkIDs(links infrav1.NetworkLinks) map[string]bool {
	ids := map[string]bool{}
	for _, nic := range links.Ethernets {
		ids[nic.ID] = true
	}
	for _, bond := range links.Bonds {
		ids[bond.ID] = true
	}
	for _, vlan := range links.Vlans {
		ids[vlan.ID] = true
	}
	return ids
}

func (c *completeness) checkLinks(links infrav1.NetworkLinks) {
	for _, nic := range links.Ethernets {
		if nic.MACAddress == nil && nic.Name == "" {
			c.say("links.ethernets", nic.ID, "has neither macAddress nor name")
		}
	}
	for _, bond := range links.Bonds {
		for _, id := range bond.BondLinks {
			c.requireLink("links.bonds", bond.ID, id)
		}
	}
	for _, vlan := range links.Vlans {
		if vlan.MACAddress == nil {
			c.say("links.vlans", vlan.ID, "has no macAddress")
		}
		c.requireLink("links.vlans", vlan.ID, vlan.VlanLink)
	}
}

func (c *completeness) requireLink(list, id, link string) {
	if !c.links[link] {
		c.say(list, id, "has the link "+link+", which does not exist")
	}
}

func (c *completeness) say(list, id, what string) {
	c.sentences = append(c.sentences, fmt.Sprintf("spec.networkData.%s[%s] %s.", list, id, what))
}
