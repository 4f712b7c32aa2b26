package hostdata

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// smallestMTU is the minimum of IPv4.
const smallestMTU = 68

// The limits of the parameters of bonds, in bytes of JSON. The YAML of a nested value grows with the square of its
// JSON, because each line is indented.
const (
	maxParameter  = 1024
	maxParameters = 16 * maxParameter
)

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
	for _, err := range LargeParameters(path.Child("bonds"), links.Bonds) {
		err.Detail += " in a new Metal3DataTemplate"
		n.report(err)
	}
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

// LargeParameters returns an error for each parameter with a value over its limit. If the other values together are
// over the limit of all values, it also returns an error for the bonds.
func LargeParameters(path *field.Path, bonds []infrav1.BondLink) field.ErrorList {
	var errs field.ErrorList
	total := 0
	for _, bond := range bonds {
		for _, parameter := range bond.Parameters {
			size := len(parameter.Value.Raw)
			if size <= maxParameter {
				total += size
				continue
			}
			at := path.Key(bond.ID).Child("parameters").Key(parameter.Name).Child("value")
			errs = append(errs, tooLarge(at, "has", size, maxParameter, "use a shorter value"))
		}
	}
	if total > maxParameters {
		errs = append(errs, tooLarge(path, "have parameters with", total, maxParameters, "use shorter values"))
	}
	return errs
}

func tooLarge(path *field.Path, has string, size, limit int, remedy string) *field.Error {
	err := field.TooLong(path, nil, limit)
	err.Detail = fmt.Sprintf("%s %d bytes of JSON, the limit is %d; %s", has, size, limit, remedy)
	return err
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
