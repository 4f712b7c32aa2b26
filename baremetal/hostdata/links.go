package hostdata

import (
	"maps"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// smallestMTU is the minimum of IPv4.
const smallestMTU = 68

// link has the common fields of all types of links.
type link struct {
	kind, id, name string
	mtu            int32
	mac            *infrav1.LinkMAC
	macKey         string
}

// links renders bonds, then physical interfaces, then VLANs.
func (n *network) links(path *field.Path, links infrav1.NetworkLinks) []document {
	all := []document{}
	for i := range links.Bonds {
		bond, at := &links.Bonds[i], path.Child("bonds").Key(links.Bonds[i].ID)
		rendered := n.link(at, link{"bond", bond.ID, bond.Name, bond.MTU, bond.MACAddress, "ethernet_mac_address"}, document{
			"bond_mode": bond.BondMode, "bond_xmit_hash_policy": bond.BondXmitHashPolicy, "bond_links": bond.BondLinks,
		})
		maps.Copy(rendered, n.parameters(at.Child("parameters"), bond.Parameters, rendered))
		all = append(all, rendered)
	}
	for i := range links.Ethernets {
		nic, at := &links.Ethernets[i], path.Child("ethernets").Key(links.Ethernets[i].ID)
		all = append(all, n.link(at,
			link{nic.Type, nic.ID, nic.Name, nic.MTU, nic.MACAddress, "ethernet_mac_address"}, document{}))
	}
	for i := range links.Vlans {
		vlan, at := &links.Vlans[i], path.Child("vlans").Key(links.Vlans[i].ID)
		all = append(all, n.link(at, link{"vlan", vlan.ID, vlan.Name, vlan.MTU, vlan.MACAddress, "vlan_mac_address"},
			document{"vlan_link": vlan.VlanLink, "vlan_id": vlan.VlanID}))
	}
	return all
}

// link adds the common properties of a link to its own.
func (n *network) link(path *field.Path, common link, own document) document {
	own["type"], own["id"], own["mtu"] = common.kind, common.id, common.mtu
	if common.mtu < smallestMTU {
		n.report(field.Invalid(path.Child("mtu"), common.mtu,
			"is smaller than any network allows; use 68 to 9000 in a new Metal3DataTemplate"))
	}
	if common.name != "" {
		own["name"] = common.name
	}
	if common.mac != nil {
		own[common.macKey] = n.mac(path.Child("macAddress"), common.mac)
	}
	return own
}

// parameters returns the further settings of a bond. It returns an error for a setting that has its own field.
func (n *network) parameters(path *field.Path, parameters []infrav1.BondParameter, fields document) document {
	all := document{}
	for _, parameter := range parameters {
		key := "bond_" + parameter.Name
		if _, structured := fields[key]; structured {
			n.report(field.Invalid(path.Key(parameter.Name).Child("name"), parameter.Name,
				"has a field of its own; use that in a new Metal3DataTemplate"))
			continue
		}
		all[key] = parameter.Value
	}
	return all
}

// mac returns the MAC address of a link. A string has precedence over an interface of the host, and an interface over
// an annotation.
func (n *network) mac(path *field.Path, from *infrav1.LinkMAC) string {
	var address string
	var err *field.Error
	switch {
	case from.String != "":
		address = from.String
		if !macPattern.MatchString(address) {
			err = field.Invalid(path.Child("string"), address,
				"is not a MAC address; use "+macFormat+", in a new Metal3DataTemplate")
		}
	case from.FromHostInterface != "":
		address, err = n.subject.ethernet(path.Child("fromHostInterface"), from.FromHostInterface)
	case from.FromAnnotation != nil:
		address, err = n.subject.annotatedMAC(path.Child("fromAnnotation"), from.FromAnnotation)
	default:
		err = field.Required(path, "set string, fromHostInterface or fromAnnotation in a new Metal3DataTemplate")
	}
	if err != nil {
		n.report(err)
	}
	return address
}
