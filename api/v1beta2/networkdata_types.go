package v1beta2

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
	// +listType=atomic
	Ethernets []EthernetLink `json:"ethernets,omitempty"`

	// bonds are bonded interfaces.
	// +optional
	// +listType=atomic
	Bonds []BondLink `json:"bonds,omitempty"`

	// vlans are VLAN interfaces.
	// +optional
	// +listType=atomic
	Vlans []VlanLink `json:"vlans,omitempty"`
}

// EthernetLink is a physical interface.
type EthernetLink struct {
	// type of the interface.
	// +required
	// +kubebuilder:validation:Enum=bridge;dvs;hw_veb;hyperv;ovs;tap;vhostuser;vif;phy
	Type string `json:"type"`

	// id of the link. Programs that read network data expect each ID once.
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
	MTU int32 `json:"mtu,omitempty"`

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

	// id of the link. Programs that read network data expect each ID once.
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
	MTU int32 `json:"mtu,omitempty"`

	// macAddress of the interface.
	// +optional
	MACAddress *LinkMAC `json:"macAddress,omitempty"`

	// bondLinks are the IDs of the bonded links.
	// +optional
	// +listType=atomic
	BondLinks []string `json:"bondLinks,omitempty"`

	// parameters are additional settings of the bond, rendered as bond_<name>.
	// +optional
	// +listType=map
	// +listMapKey=name
	Parameters []BondParameter `json:"parameters,omitempty"`
}

// BondParameter is an additional setting of a bond.
type BondParameter struct {
	// name of the setting, without the prefix bond_.
	// +required
	Name string `json:"name"`

	// value of the setting: any JSON value.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Value apiextensionsv1.JSON `json:"value,omitempty,omitzero"`
}

// VlanLink is a VLAN interface.
type VlanLink struct {
	// vlanID of the interface.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4096
	VlanID int32 `json:"vlanID"`

	// vlanLink is the ID of the parent link of the VLAN.
	// +required
	VlanLink string `json:"vlanLink"`

	// id of the link. Programs that read network data expect each ID once.
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
	MTU int32 `json:"mtu,omitempty"`

	// macAddress of the interface.
	// +optional
	MACAddress *LinkMAC `json:"macAddress,omitempty"`
}

// LinkMAC is the source of the MAC address of a link. If several fields are set, string takes precedence over
// fromHostInterface, and fromHostInterface over fromAnnotation.
type LinkMAC struct {
	// string is the MAC address.
	// +optional
	String string `json:"string,omitempty"`

	// fromHostInterface is the name of the interface of the host that has the MAC address.
	// +optional
	FromHostInterface string `json:"fromHostInterface,omitempty"`

	// fromAnnotation is the annotation that has the MAC address.
	// +optional
	FromAnnotation *AnnotationSource `json:"fromAnnotation,omitempty"`
}

// AnnotationSource is an annotation of an object.
type AnnotationSource struct {
	// object that has the annotation.
	// +required
	Object SourceObject `json:"object"`

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
	// +listType=atomic
	IPv4 []StaticNetwork `json:"ipv4,omitempty"`

	// ipv6 are static IPv6 addresses.
	// +optional
	// +listType=atomic
	IPv6 []StaticNetwork `json:"ipv6,omitempty"`

	// ipv4DHCP are IPv4 addresses from DHCP.
	// +optional
	// +listType=atomic
	IPv4DHCP []DynamicNetwork `json:"ipv4DHCP,omitempty"`

	// ipv6DHCP are IPv6 addresses from DHCP.
	// +optional
	// +listType=atomic
	IPv6DHCP []DynamicNetwork `json:"ipv6DHCP,omitempty"`

	// ipv6SLAAC are IPv6 addresses from router advertisements.
	// +optional
	// +listType=atomic
	IPv6SLAAC []DynamicNetwork `json:"ipv6SLAAC,omitempty"`
}

// StaticNetwork is a static address on a link. One of ipAddressFromIPPool, fromPoolRef and fromPoolAnnotation is set.
// If several are set, fromPoolAnnotation takes precedence over fromPoolRef, and fromPoolRef over ipAddressFromIPPool.
type StaticNetwork struct {
	// id of the network. Programs that read network data expect each ID once.
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
	// +listType=atomic
	Routes []NetworkRoute `json:"routes,omitempty"`
}

// DynamicNetwork is an address on a link that the network assigns.
type DynamicNetwork struct {
	// id of the network. Programs that read network data expect each ID once.
	// +required
	ID string `json:"id"`

	// link that carries the address.
	// +required
	Link string `json:"link"`

	// routes through this network.
	// +optional
	// +listType=atomic
	Routes []NetworkRoute `json:"routes,omitempty"`
}

// NetworkRoute is a route. Several routes may have the same destination.
type NetworkRoute struct {
	// network is the destination address.
	// +required
	Network string `json:"network"`

	// prefix length of the destination.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=128
	Prefix *int32 `json:"prefix,omitempty"`

	// gateway of the route.
	// +required
	Gateway NetworkGateway `json:"gateway"`

	// services that are reached through the route.
	// +optional
	Services NetworkServices `json:"services,omitempty,omitzero"`
}

// NetworkGateway is the source of the address of a gateway. The first of string, fromPoolAnnotation, fromPoolRef and
// fromIPPool that is set takes precedence.
type NetworkGateway struct {
	// string is the address.
	// +optional
	String string `json:"string,omitempty"`

	// fromIPPool is the name of an IPPool of Metal3 whose gateway is used.
	// +optional
	FromIPPool string `json:"fromIPPool,omitempty"`

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
	// +listType=atomic
	DNS []string `json:"dns,omitempty"`

	// dnsFromIPPool is the name of an IPPool of Metal3 whose DNS servers are used.
	// +optional
	DNSFromIPPool string `json:"dnsFromIPPool,omitempty"`
}
