package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// FailureDomainPolicy decides what happens if the failure domain has no available host.
// +kubebuilder:validation:Enum=Preferred;Strict
type FailureDomainPolicy string

// Values of FailureDomainPolicy.
const (
	// FailureDomainPreferred chooses a host of another failure domain.
	FailureDomainPreferred FailureDomainPolicy = "Preferred"

	// FailureDomainStrict waits for a host of the failure domain.
	FailureDomainStrict FailureDomainPolicy = "Strict"
)

// Metal3MachineSpec is the desired state of a Metal3Machine.
type Metal3MachineSpec struct {
	// providerID of the machine, metal3://<namespace>/<host>/<metal3machine>. The provider sets it together with
	// status.initialization.provisioned. After a move, a machine with a provider ID counts as provisioned.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// image to write to the disk of the host. Required unless customDeploy is set.
	// +optional
	Image *Image `json:"image,omitempty"`

	// customDeploy replaces writing an image by a deploy step of the ramdisk.
	// +optional
	CustomDeploy *CustomDeploy `json:"customDeploy,omitempty"`

	// userData is a Secret with the user data of the host, in the namespace of the Metal3Machine. It is used only if
	// the Machine has no bootstrap data.
	// +optional
	UserData *corev1.SecretReference `json:"userData,omitempty"`

	// dataTemplate is the Metal3DataTemplate for meta-data and network-data.
	// +optional
	DataTemplate *Metal3ObjectRef `json:"dataTemplate,omitempty"`

	// metaData is a Secret with the meta-data of the host, in the namespace of the Metal3Machine. It takes precedence
	// over rendered meta-data.
	// +optional
	MetaData *corev1.SecretReference `json:"metaData,omitempty"`

	// networkData is a Secret with the network-data of the host, in the namespace of the Metal3Machine. It takes
	// precedence over rendered network-data.
	// +optional
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`

	// hostSelector selects eligible hosts. Empty means all hosts of the namespace.
	// +optional
	HostSelector HostSelector `json:"hostSelector,omitempty,omitzero"`

	// automatedCleaningMode of the host: metadata wipes partition tables when the host is released, and disabled leaves
	// the disks unchanged. Empty keeps the setting of the host.
	// +optional
	// +kubebuilder:validation:Enum=metadata;disabled
	AutomatedCleaningMode string `json:"automatedCleaningMode,omitempty"`

	// failureDomain of the host to choose. The failure domain of the Machine takes precedence.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// failureDomainPolicy decides what happens if the failure domain has no available host: Preferred chooses a host of
	// another failure domain, and Strict waits. Defaults to Preferred.
	// +optional
	FailureDomainPolicy FailureDomainPolicy `json:"failureDomainPolicy,omitempty"`
}

// Metal3MachineStatus is the observed state of a Metal3Machine.
// +kubebuilder:validation:MinProperties=1
type Metal3MachineStatus struct {
	// conditions of the Metal3Machine: Ready, AssociateBareMetalHost, Metal3DataReady, AssociateMetal3MachineMetaData,
	// BareMetalHostProvisioned, NodeLinked, NodeLabelsSynced, Deleting and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization reports whether the machine is provisioned.
	// +optional
	Initialization InitializationStatus `json:"initialization,omitempty,omitzero"`

	// addresses of the host, from its inspection.
	// +optional
	// +listType=atomic
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`

	// failureDomain of the claimed host.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// userData is the Secret with the user data of the host.
	// +optional
	UserData *corev1.SecretReference `json:"userData,omitempty"`

	// metaData is the Secret with the meta-data of the host.
	// +optional
	MetaData *corev1.SecretReference `json:"metaData,omitempty"`

	// networkData is the Secret with the network-data of the host.
	// +optional
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`

	// renderedData is the Metal3Data of this machine.
	// +optional
	RenderedData *Metal3ObjectRef `json:"renderedData,omitempty"`

	// lastUpdated is the time of the last change by CAPM3. This provider keeps the value and does not write it.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// deprecated has the status fields of older API versions.
	// +optional
	Deprecated *DeprecatedStatus `json:"deprecated,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3machines,scope=Namespaced,categories=cluster-api,shortName=m3m;m3machine;m3machines;metal3m;metal3machine
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels.cluster\.x-k8s\.io/cluster-name`,description="Cluster of the object"
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.metadata.ownerReferences[?(@.kind=="Machine")].name`,priority=1,description="Machine that owns it"
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.metadata.annotations.metal3\.io/BareMetalHost`,description="Claimed host"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the object is ready"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="Provisioned",type=boolean,JSONPath=`.status.initialization.provisioned`,description="Whether the first provisioning is complete"
// +kubebuilder:printcolumn:name="ProviderID",type=string,JSONPath=`.spec.providerID`,priority=1,description="Provider ID"
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10,description="Whether reconciliation is paused"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Metal3Machine is a machine on a BareMetalHost.
type Metal3Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec Metal3MachineSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status Metal3MachineStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the status.
func (m *Metal3Machine) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (m *Metal3Machine) SetConditions(conditions []metav1.Condition) {
	m.Status.Conditions = conditions
}

// +kubebuilder:object:root=true

// Metal3MachineList is a list of Metal3Machines.
type Metal3MachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Metal3Machine `json:"items"`
}
