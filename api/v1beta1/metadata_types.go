package v1beta1

// MetaData lists the keys of the rendered meta-data. If a list has a key twice, the later entry takes precedence.
type MetaData struct {
	// strings are fixed values.
	// +optional
	Strings []MetaDataString `json:"strings,omitempty"`

	// objectNames are names of objects.
	// +optional
	ObjectNames []MetaDataObjectName `json:"objectNames,omitempty"`

	// indexes are values computed from the index of the machine.
	// +optional
	Indexes []MetaDataIndex `json:"indexes,omitempty"`

	// namespaces are keys whose value is the namespace of the machine.
	// +optional
	Namespaces []MetaDataNamespace `json:"namespaces,omitempty"`

	// ipAddressesFromIPPool are addresses allocated from a pool.
	// +optional
	IPAddressesFromPool []FromPool `json:"ipAddressesFromIPPool,omitempty"`

	// prefixesFromIPPool are prefix lengths of addresses allocated from a pool.
	// +optional
	PrefixesFromPool []FromPool `json:"prefixesFromIPPool,omitempty"`

	// gatewaysFromIPPool are gateways of addresses allocated from a pool.
	// +optional
	GatewaysFromPool []FromPool `json:"gatewaysFromIPPool,omitempty"`

	// dnsServersFromIPPool are DNS servers of a pool.
	// +optional
	DNSServersFromPool []FromPool `json:"dnsServersFromIPPool,omitempty"`

	// fromHostInterfaces are MAC addresses of the host.
	// +optional
	FromHostInterfaces []MetaDataHostInterface `json:"fromHostInterfaces,omitempty"`

	// fromLabels are label values of objects. The value of a missing label is empty.
	// +optional
	FromLabels []MetaDataFromLabel `json:"fromLabels,omitempty"`

	// fromAnnotations are annotation values of objects. The value of a missing annotation is empty.
	// +optional
	FromAnnotations []MetaDataFromAnnotation `json:"fromAnnotations,omitempty"`
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
	// +kubebuilder:validation:Enum=machine;metal3machine;baremetalhost
	Object string `json:"object"`
}

// MetaDataIndex is prefix + (offset + index * step) + suffix.
type MetaDataIndex struct {
	// key in the meta-data.
	// +required
	Key string `json:"key"`

	// offset is added to the index.
	// +optional
	Offset int `json:"offset,omitempty"`

	// step by which the index is multiplied.
	// +optional
	// +kubebuilder:default=1
	Step int `json:"step,omitempty"`

	// prefix before the number.
	// +optional
	Prefix string `json:"prefix,omitempty"`

	// suffix after the number.
	// +optional
	Suffix string `json:"suffix,omitempty"`
}

// MetaDataNamespace is the namespace of the machine.
type MetaDataNamespace struct {
	// key in the meta-data.
	// +required
	Key string `json:"key"`
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
	// +kubebuilder:validation:Enum=machine;metal3machine;baremetalhost
	Object string `json:"object"`

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
	// +kubebuilder:validation:Enum=machine;metal3machine;baremetalhost
	Object string `json:"object"`

	// annotation whose value is used.
	// +required
	Annotation string `json:"annotation"`
}
