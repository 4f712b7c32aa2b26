package v1beta2

// SourceObject is the object that a value is read from.
// +kubebuilder:validation:Enum=machine;metal3machine;baremetalhost
type SourceObject string

// Values of SourceObject.
const (
	// SourceMachine is the Machine of Cluster API.
	SourceMachine SourceObject = "machine"

	// SourceMetal3Machine is the Metal3Machine.
	SourceMetal3Machine SourceObject = "metal3machine"

	// SourceBareMetalHost is the host that the machine has claimed.
	SourceBareMetalHost SourceObject = "baremetalhost"
)

// MetaData lists the keys of the rendered meta-data. If several lists have the same key, the last of these takes
// precedence: fromHostInterfaces, ipAddressesFromPool, prefixesFromPool, gatewaysFromPool, dnsServersFromPool, indexes,
// namespaces, objectNames, fromLabels, fromAnnotations, strings.
type MetaData struct {
	// strings are fixed values.
	// +optional
	// +listType=map
	// +listMapKey=key
	Strings []MetaDataString `json:"strings,omitempty"`

	// objectNames are names of objects.
	// +optional
	// +listType=map
	// +listMapKey=key
	ObjectNames []MetaDataObjectName `json:"objectNames,omitempty"`

	// indexes are values computed from the index of the machine.
	// +optional
	// +listType=map
	// +listMapKey=key
	Indexes []MetaDataIndex `json:"indexes,omitempty"`

	// ipAddressesFromPool are addresses allocated from a pool.
	// +optional
	// +listType=map
	// +listMapKey=key
	IPAddressesFromPool []FromPool `json:"ipAddressesFromPool,omitempty"`

	// prefixesFromPool are prefix lengths of addresses allocated from a pool.
	// +optional
	// +listType=map
	// +listMapKey=key
	PrefixesFromPool []FromPool `json:"prefixesFromPool,omitempty"`

	// gatewaysFromPool are gateways of addresses allocated from a pool.
	// +optional
	// +listType=map
	// +listMapKey=key
	GatewaysFromPool []FromPool `json:"gatewaysFromPool,omitempty"`

	// dnsServersFromPool are DNS servers of a pool.
	// +optional
	// +listType=map
	// +listMapKey=key
	DNSServersFromPool []FromPool `json:"dnsServersFromPool,omitempty"`

	// fromHostInterfaces are MAC addresses of the host.
	// +optional
	// +listType=map
	// +listMapKey=key
	FromHostInterfaces []MetaDataHostInterface `json:"fromHostInterfaces,omitempty"`

	// fromLabels are label values of objects. The value of a missing label is empty.
	// +optional
	// +listType=map
	// +listMapKey=key
	FromLabels []MetaDataFromLabel `json:"fromLabels,omitempty"`

	// fromAnnotations are annotation values of objects. The value of a missing annotation is empty.
	// +optional
	// +listType=map
	// +listMapKey=key
	FromAnnotations []MetaDataFromAnnotation `json:"fromAnnotations,omitempty"`

	// namespaces are keys whose value is the namespace of the machine.
	// +optional
	// +listType=map
	// +listMapKey=key
	Namespaces []MetaDataNamespace `json:"namespaces,omitempty"`
}

// MetaDataString is a fixed value.
type MetaDataString struct {
	// key in the meta-data.
	// +required
	Key string `json:"key"`

	// value in the meta-data.
	// +required
	Value string `json:"value"`
}

// MetaDataObjectName is the name of an object.
type MetaDataObjectName struct {
	// key in the meta-data.
	// +required
	Key string `json:"key"`

	// object whose name is used.
	// +required
	Object SourceObject `json:"object"`
}

// MetaDataIndex is prefix + (offset + index * step) + suffix.
type MetaDataIndex struct {
	// key in the meta-data.
	// +required
	Key string `json:"key"`

	// offset is added to the index. It may be negative.
	// +optional
	Offset int32 `json:"offset,omitempty"`

	// step by which the index is multiplied.
	// +optional
	// +kubebuilder:default=1
	Step int32 `json:"step,omitempty"`

	// prefix before the number.
	// +optional
	Prefix string `json:"prefix,omitempty"`

	// suffix after the number.
	// +optional
	Suffix string `json:"suffix,omitempty"`
}

// FromPool is a value from an address pool.
type FromPool struct {
	// key in the meta-data.
	// +required
	Key string `json:"key"`

	// name of the pool.
	// +required
	Name string `json:"name"`

	// apiGroup of the pool.
	// +optional
	// +kubebuilder:default=ipam.metal3.io
	APIGroup string `json:"apiGroup,omitempty"`

	// kind of the pool.
	// +optional
	// +kubebuilder:default=IPPool
	Kind string `json:"kind,omitempty"`
}

// MetaDataHostInterface is the MAC address of an interface of the host.
type MetaDataHostInterface struct {
	// key in the meta-data.
	// +required
	Key string `json:"key"`

	// interface is the name of the interface. Exactly one of interface and fromBootMAC is set.
	// +optional
	Interface string `json:"interface,omitempty"`

	// fromBootMAC uses the boot MAC address of the host.
	// +optional
	FromBootMAC *bool `json:"fromBootMAC,omitempty"`
}

// MetaDataFromLabel is a label value of an object.
type MetaDataFromLabel struct {
	// key in the meta-data.
	// +required
	Key string `json:"key"`

	// object that has the label.
	// +required
	Object SourceObject `json:"object"`

	// label whose value is used.
	// +required
	Label string `json:"label"`
}

// MetaDataFromAnnotation is an annotation value of an object.
type MetaDataFromAnnotation struct {
	// key in the meta-data.
	// +required
	Key string `json:"key"`

	// object that has the annotation.
	// +required
	Object SourceObject `json:"object"`

	// annotation whose value is used.
	// +required
	Annotation string `json:"annotation"`
}

// MetaDataNamespace is the namespace of the machine.
type MetaDataNamespace struct {
	// key in the meta-data.
	// +required
	Key string `json:"key"`
}
