package v1beta1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Limits of v1beta2 on numbers that v1beta1 bounds on one side only.
const (
	maxVlanID = 4096
	maxPrefix = 128
)

func networkDataToHub(in NetworkData) infrav1.NetworkData {
	return infrav1.NetworkData{
		Links: infrav1.NetworkLinks{
			Ethernets: convertList(in.Links.Ethernets, ethernetToHub),
			Bonds:     convertList(in.Links.Bonds, bondToHub),
			Vlans:     convertList(in.Links.Vlans, vlanToHub),
		},
		Networks: infrav1.NetworkAddresses{
			IPv4:      convertList(in.Networks.IPv4, staticNetworkToHub),
			IPv6:      convertList(in.Networks.IPv6, staticNetworkToHub),
			IPv4DHCP:  convertList(in.Networks.IPv4DHCP, dynamicNetworkToHub),
			IPv6DHCP:  convertList(in.Networks.IPv6DHCP, dynamicNetworkToHub),
			IPv6SLAAC: convertList(in.Networks.IPv6SLAAC, dynamicNetworkToHub),
		},
		Services: servicesToHub(in.Services),
	}
}

func ethernetToHub(in EthernetLink) infrav1.EthernetLink {
	return infrav1.EthernetLink{
		Type: in.Type, ID: in.ID, Name: in.Name, MTU: toInt32(in.MTU),
		MACAddress: convertOptional(in.MACAddress, macToHub),
	}
}

func bondToHub(in BondLink) infrav1.BondLink {
	return infrav1.BondLink{
		BondMode: in.BondMode, BondXmitHashPolicy: in.BondXmitHashPolicy, ID: in.ID, Name: in.Name,
		MTU: toInt32(in.MTU), MACAddress: convertOptional(in.MACAddress, macToHub),
		BondLinks: in.BondLinks, Parameters: parametersToHub(in.Parameters),
	}
}

// parametersToHub turns a map into a list in the order of the names.
func parametersToHub(in map[string]apiextensionsv1.JSON) []infrav1.BondParameter {
	if in == nil {
		return nil
	}
	return convertList(sortedKeys(in), func(name string) infrav1.BondParameter {
		return infrav1.BondParameter{Name: name, Value: in[name]}
	})
}

func vlanToHub(in VlanLink) infrav1.VlanLink {
	return infrav1.VlanLink{
		VlanID: bounded(in.VlanID, 0, maxVlanID), VlanLink: in.VlanLink, ID: in.ID, Name: in.Name,
		MTU: toInt32(in.MTU), MACAddress: convertOptional(in.MACAddress, macToHub),
	}
}

func macToHub(in LinkMAC) infrav1.LinkMAC {
	return infrav1.LinkMAC{
		String: ptr.Deref(in.String, ""), FromHostInterface: ptr.Deref(in.FromHostInterface, ""),
		FromAnnotation: convertOptional(in.FromAnnotation, annotationToHub),
	}
}

func annotationToHub(in AnnotationSource) infrav1.AnnotationSource {
	return infrav1.AnnotationSource{Object: infrav1.SourceObject(in.Object), Annotation: in.Annotation}
}

func staticNetworkToHub(in StaticNetwork) infrav1.StaticNetwork {
	return infrav1.StaticNetwork{
		ID: in.ID, Link: in.Link, IPAddressFromIPPool: in.IPAddressFromIPPool,
		FromPoolRef:        (*infrav1.PoolRef)(in.FromPoolRef),
		FromPoolAnnotation: convertOptional(in.FromPoolAnnotation, annotationToHub),
		Routes:             convertList(in.Routes, routeToHub),
	}
}

func dynamicNetworkToHub(in DynamicNetwork) infrav1.DynamicNetwork {
	return infrav1.DynamicNetwork{ID: in.ID, Link: in.Link, Routes: convertList(in.Routes, routeToHub)}
}

func routeToHub(in NetworkRoute) infrav1.NetworkRoute {
	return infrav1.NetworkRoute{
		Network: in.Network,
		Prefix:  convertOptional(in.Prefix, func(prefix int) int32 { return bounded(prefix, 0, maxPrefix) }),
		Gateway: infrav1.NetworkGateway{
			String: ptr.Deref(in.Gateway.String, ""), FromIPPool: ptr.Deref(in.Gateway.FromIPPool, ""),
			FromPoolRef:        (*infrav1.PoolRef)(in.Gateway.FromPoolRef),
			FromPoolAnnotation: convertOptional(in.Gateway.FromPoolAnnotation, annotationToHub),
		},
		Services: servicesToHub(in.Services),
	}
}

func servicesToHub(in NetworkServices) infrav1.NetworkServices {
	return infrav1.NetworkServices{DNS: in.DNS, DNSFromIPPool: ptr.Deref(in.DNSFromIPPool, "")}
}

func networkDataFromHub(in infrav1.NetworkData) NetworkData {
	return NetworkData{
		Links: NetworkLinks{
			Ethernets: convertList(in.Links.Ethernets, ethernetFromHub),
			Bonds:     convertList(in.Links.Bonds, bondFromHub),
			Vlans:     convertList(in.Links.Vlans, vlanFromHub),
		},
		Networks: NetworkAddresses{
			IPv4:      convertList(in.Networks.IPv4, staticNetworkFromHub),
			IPv6:      convertList(in.Networks.IPv6, staticNetworkFromHub),
			IPv4DHCP:  convertList(in.Networks.IPv4DHCP, dynamicNetworkFromHub),
			IPv6DHCP:  convertList(in.Networks.IPv6DHCP, dynamicNetworkFromHub),
			IPv6SLAAC: convertList(in.Networks.IPv6SLAAC, dynamicNetworkFromHub),
		},
		Services: servicesFromHub(in.Services),
	}
}

func ethernetFromHub(in infrav1.EthernetLink) EthernetLink {
	return EthernetLink{
		Type: in.Type, ID: in.ID, Name: in.Name, MTU: int(in.MTU),
		MACAddress: convertOptional(in.MACAddress, macFromHub),
	}
}

func bondFromHub(in infrav1.BondLink) BondLink {
	return BondLink{
		BondMode: in.BondMode, BondXmitHashPolicy: in.BondXmitHashPolicy, ID: in.ID, Name: in.Name,
		MTU: int(in.MTU), MACAddress: convertOptional(in.MACAddress, macFromHub),
		BondLinks: in.BondLinks, Parameters: parametersFromHub(in.Parameters),
	}
}

func parametersFromHub(in []infrav1.BondParameter) map[string]apiextensionsv1.JSON {
	if in == nil {
		return nil
	}
	out := make(map[string]apiextensionsv1.JSON, len(in))
	for _, parameter := range in {
		out[parameter.Name] = parameter.Value
	}
	return out
}

func vlanFromHub(in infrav1.VlanLink) VlanLink {
	return VlanLink{
		VlanID: int(in.VlanID), VlanLink: in.VlanLink, ID: in.ID, Name: in.Name,
		MTU: int(in.MTU), MACAddress: convertOptional(in.MACAddress, macFromHub),
	}
}

func macFromHub(in infrav1.LinkMAC) LinkMAC {
	return LinkMAC{
		String: unlessZero(in.String), FromHostInterface: unlessZero(in.FromHostInterface),
		FromAnnotation: convertOptional(in.FromAnnotation, annotationFromHub),
	}
}

func annotationFromHub(in infrav1.AnnotationSource) AnnotationSource {
	return AnnotationSource{Object: string(in.Object), Annotation: in.Annotation}
}

func staticNetworkFromHub(in infrav1.StaticNetwork) StaticNetwork {
	return StaticNetwork{
		ID: in.ID, Link: in.Link, IPAddressFromIPPool: in.IPAddressFromIPPool,
		FromPoolRef:        (*PoolRef)(in.FromPoolRef),
		FromPoolAnnotation: convertOptional(in.FromPoolAnnotation, annotationFromHub),
		Routes:             convertList(in.Routes, routeFromHub),
	}
}

func dynamicNetworkFromHub(in infrav1.DynamicNetwork) DynamicNetwork {
	return DynamicNetwork{ID: in.ID, Link: in.Link, Routes: convertList(in.Routes, routeFromHub)}
}

func routeFromHub(in infrav1.NetworkRoute) NetworkRoute {
	return NetworkRoute{
		Network: in.Network,
		Prefix:  convertOptional(in.Prefix, func(prefix int32) int { return int(prefix) }),
		Gateway: NetworkGateway{
			String: unlessZero(in.Gateway.String), FromIPPool: unlessZero(in.Gateway.FromIPPool),
			FromPoolRef:        (*PoolRef)(in.Gateway.FromPoolRef),
			FromPoolAnnotation: convertOptional(in.Gateway.FromPoolAnnotation, annotationFromHub),
		},
		Services: servicesFromHub(in.Services),
	}
}

func servicesFromHub(in infrav1.NetworkServices) NetworkServices {
	return NetworkServices{DNS: in.DNS, DNSFromIPPool: unlessZero(in.DNSFromIPPool)}
}
