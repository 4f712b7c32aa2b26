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
	static := func(entry infrav1.StaticNetwork) (id, link string) { return entry.ID, entry.Link }
	dynamic := func(entry infrav1.DynamicNetwork) (id, link string) { return entry.ID, entry.Link }
	requireLinks(c, "networks.ipv4", data.Networks.IPv4, static)
	requireLinks(c, "networks.ipv6", data.Networks.IPv6, static)
	requireLinks(c, "networks.ipv4DHCP", data.Networks.IPv4DHCP, dynamic)
	requireLinks(c, "networks.ipv6DHCP", data.Networks.IPv6DHCP, dynamic)
	requireLinks(c, "networks.ipv6SLAAC", data.Networks.IPv6SLAAC, dynamic)
	if len(c.sentences) == 0 {
		return ""
	}
	return strings.Join(c.sentences, " ") + " cloud-init does not configure the network with such network data. " +
		replaceTemplate("spec.networkData", "a corrected Metal3DataTemplate")
}

// requireLinks requires the link of each entry of a list.
func requireLinks[T any](c *completeness, list string, entries []T, of func(T) (id, link string)) {
	for _, entry := range entries {
		id, link := of(entry)
		c.requireLink(list, id, link)
	}
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
