package v1beta1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// NetworkData describes links, networks and services in the format of OpenStack's network_data.json.
type NetworkData struct {
	// links are the interfaces of the host.
	// +optional
	Links NetworkLinks `json:"links,omitempty,omitzero"`

	// networks are the addresses and routes on the links.
	// +optional
	Networks NetworkAddresses `json:"networks,omitempty,omitzero"`

	// services are DNS servers of the host.
	// +optional
	Services NetworkServices `json:"services,omitempty,omitzero"`
}

// NetworkLinks are the interfaces of the host.
type NetworkLinks struct {
	// ethernets are physical interfaces.
	// +optional
	Ethernets []EthernetLink `json:"ethernets,omitempty"`

	// bonds are bonded interfaces.
	// +optional
	Bonds []BondLink `json:"bonds,omitempty"`

	// vlans are VLAN interfaces.
	// +optional
	Vlans []VlanLink `json:"vlans,omitempty"`
}

// EthernetLink is a physical interface.
type EthernetLink struct {
	// type of the interface.
	// +required
	// +kubebuilder:validation:Enum=bridge;dvs;hw_veb;hyperv;ovs;tap;vhostuser;vif;phy
	Type string `json:"type"`

	// id of the link.
	// +required
	ID string `json:"id"`

	// name of the interface on the host.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[a-zA-Z][a-zA-Z0-9._-]*$`
	Name string `json:"name,omitempty"`

	// mtu of the interface, in bytes.
	// +optional
	// +kubebuilder:default=1500
	// +kubebuilder:validation:Maximum=9000
	MTU int `json:"mtu,omitempty"`

	// macAddress of the interface.
	// +optional
	MACAddress *LinkMAC `json:"macAddress,omitempty"`
}

// BondLink is a bonded interface.
type BondLink struct {
	// bondMode of the bond.
	// +required
	// +kubebuilder:validation:Enum=balance-rr;active-backup;balance-xor;broadcast;balance-tlb;balance-alb;"802.3ad"
	BondMode string `json:"bondMode"`

	// bondXmitHashPolicy distributes the traffic over the links.
	// +optional
	// +kubebuilder:validation:Enum=layer2;layer3+4;layer2+3
	BondXmitHashPolicy string `json:"bondXmitHashPolicy,omitempty"`

	// id of the link.
	// +required
	ID string `json:"id"`

	// name of the interface on the host.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[a-zA-Z][a-zA-Z0-9._-]*$`
	Name string `json:"name,omitempty"`

	// mtu of the interface, in bytes.
	// +optional
	// +kubebuilder:default=1500
	// +kubebuilder:validation:Maximum=9000
	MTU int `json:"mtu,omitempty"`

	// macAddress of the interface.
	// +optional
	MACAddress *LinkMAC `json:"macAddress,omitempty"`

	// parameters are additional settings of the bond by name, without the prefix bond_. A value is any JSON value.
	// +optional
	Parameters map[string]apiextensionsv1.JSON `json:"parameters,omitempty"`

	// bondLinks are the IDs of the bonded links.
	// +optional
	BondLinks []string `json:"bondLinks,omitempty"`
}

// VlanLink is a VLAN interface.
type VlanLink struct {
	// vlanID of the interface.
	// +required
	// +kubebuilder:validation:Maximum=4096
	VlanID int `json:"vlanID"`

	// id of the link.
	// +required
	ID string `json:"id"`

	// name of the interface on the host.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[a-zA-Z][a-zA-Z0-9._-]*$`
	Name string `json:"name,omitempty"`

	// mtu of the interface, in bytes.
	// +optional
	// +kubebuilder:default=1500
	// +kubebuilder:validation:Maximum=9000
	MTU int `json:"mtu,omitempty"`

	// macAddress of the interface.
	// +optional
	MACAddress *LinkMAC `json:"macAddress,omitempty"`

	// vlanLink is the ID of the parent link of the VLAN.
	// +required
	VlanLink string `json:"vlanLink"`
}

// LinkMAC is the source of the MAC address of a link.
type LinkMAC struct {
	// string is the MAC address.
	// +optional
	String *string `json:"string,omitempty"`

	// fromHostInterface is the name of the interface of the host that has the MAC address.
	// +optional
	FromHostInterface *string `json:"fromHostInterface,omitempty"`

	// fromAnnotation is the annotation that has the MAC address.
	// +optional
	FromAnnotation *AnnotationSource `json:"fromAnnotation,omitempty"`
}

// AnnotationSource is an annotation of an object.
type AnnotationSource struct {
	// object that has the annotation.
	// +required
	// +kubebuilder:validation:Enum=machine;metal3machine;baremetalhost
	Object string `json:"object"`

	// annotation whose value is used.
	// +required
	Annotation string `json:"annotation"`
}

// PoolRef names an address pool.
type PoolRef struct {
	// apiGroup of the pool.
	// +optional
	// +kubebuilder:default=ipam.metal3.io
	APIGroup string `json:"apiGroup,omitempty"`

	// kind of the pool.
	// +optional
	// +kubebuilder:default=IPPool
	Kind string `json:"kind,omitempty"`

	// name of the pool.
	// +required
	Name string `json:"name"`
}

// NetworkAddresses are the addresses and routes on the links.
type NetworkAddresses struct {
	// ipv4 are static IPv4 addresses.
	// +optional
	IPv4 []StaticNetwork `json:"ipv4,omitempty"`

	// ipv6 are static IPv6 addresses.
	// +optional
	IPv6 []StaticNetwork `json:"ipv6,omitempty"`

	// ipv4DHCP are IPv4 addresses from DHCP.
	// +optional
	IPv4DHCP []DynamicNetwork `json:"ipv4DHCP,omitempty"`

	// ipv6DHCP are IPv6 addresses from DHCP.
	// +optional
	IPv6DHCP []DynamicNetwork `json:"ipv6DHCP,omitempty"`

	// ipv6SLAAC are IPv6 addresses from router advertisements.
	// +optional
	IPv6SLAAC []DynamicNetwork `json:"ipv6SLAAC,omitempty"`
}

// StaticNetwork is a static address on a link.
type StaticNetwork struct {
	// id of the network.
	// +required
	ID string `json:"id"`

	// link that carries the address.
	// +required
	Link string `json:"link"`

	// ipAddressFromIPPool is the name of an IPPool of Metal3.
	// +optional
	IPAddressFromIPPool string `json:"ipAddressFromIPPool,omitempty"`

	// fromPoolRef is the pool of the address.
	// +optional
	FromPoolRef *PoolRef `json:"fromPoolRef,omitempty"`

	// fromPoolAnnotation is the annotation that names an IPPool of Metal3.
	// +optional
	FromPoolAnnotation *AnnotationSource `json:"fromPoolAnnotation,omitempty"`

	// routes through this network.
	// +optional
	Routes []NetworkRoute `json:"routes,omitempty"`
}

// DynamicNetwork is an address on a link that the network assigns.
type DynamicNetwork struct {
	// id of the network.
	// +required
	ID string `json:"id"`

	// link that carries the address.
	// +required
	Link string `json:"link"`

	// routes through this network.
	// +optional
	Routes []NetworkRoute `json:"routes,omitempty"`
}

// NetworkRoute is a route.
type NetworkRoute struct {
	// network is the destination address.
	// +required
	Network string `json:"network"`

	// prefix length of the destination.
	// +optional
	// +kubebuilder:validation:Maximum=128
	Prefix *int `json:"prefix,omitempty"`

	// gateway of the route.
	// +required
	Gateway NetworkGateway `json:"gateway"`

	// services that are reached through the route.
	// +optional
	Services NetworkServices `json:"services,omitempty,omitzero"`
}

// NetworkGateway is the source of the address of a gateway.
type NetworkGateway struct {
	// string is the address.
	// +optional
	String *string `json:"string,omitempty"`

	// fromIPPool is the name of an IPPool of Metal3 whose gateway is used.
	// +optional
	FromIPPool *string `json:"fromIPPool,omitempty"`

	// fromPoolRef is the pool whose gateway is used.
	// +optional
	FromPoolRef *PoolRef `json:"fromPoolRef,omitempty"`

	// fromPoolAnnotation is the annotation that names the IPPool of Metal3 whose gateway is used.
	// +optional
	FromPoolAnnotation *AnnotationSource `json:"fromPoolAnnotation,omitempty"`
}

// NetworkServices are services of the network.
type NetworkServices struct {
	// dns are addresses of DNS servers.
	// +optional
	DNS []string `json:"dns,omitempty"`

	// dnsFromIPPool is the name of an IPPool of Metal3 whose DNS servers are used.
	// +optional
	DNSFromIPPool *string `json:"dnsFromIPPool,omitempty"`
}
