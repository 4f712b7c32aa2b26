package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
)

// Metal3MachineSpec is the desired state of a Metal3Machine.
type Metal3MachineSpec struct {
	// providerID of the machine, metal3://<namespace>/<host>/<metal3machine>.
	// +optional
	ProviderID *string `json:"providerID,omitempty"`

	// image to write to the disk of the host. Required unless customDeploy is set.
	// +optional
	Image Image `json:"image,omitempty,omitzero"`

	// customDeploy replaces writing an image by a deploy step of the ramdisk.
	// +optional
	CustomDeploy *CustomDeploy `json:"customDeploy,omitempty"`

	// userData is a Secret with the user data of the host.
	// +optional
	UserData *corev1.SecretReference `json:"userData,omitempty"`

	// hostSelector selects eligible hosts.
	// +optional
	HostSelector HostSelector `json:"hostSelector,omitempty,omitzero"`

	// dataTemplate is the Metal3DataTemplate for meta-data and network-data.
	// +optional
	DataTemplate *corev1.ObjectReference `json:"dataTemplate,omitempty"`

	// metaData is a Secret with the meta-data of the host.
	// +optional
	MetaData *corev1.SecretReference `json:"metaData,omitempty"`

	// networkData is a Secret with the network-data of the host.
	// +optional
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`

	// automatedCleaningMode of the host: metadata wipes partition tables when the host is released, and disabled leaves
	// the disks unchanged.
	// +optional
	// +kubebuilder:validation:Enum=metadata;disabled
	AutomatedCleaningMode *string `json:"automatedCleaningMode,omitempty"`

	// failureDomain of the host to choose.
	// +optional
	FailureDomain *string `json:"failureDomain,omitempty"`
}

// Metal3MachineStatus is the observed state of a Metal3Machine.
type Metal3MachineStatus struct {
	// lastUpdated is the time of the last change.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// failureReason is the reason of an error that CAPM3 considered final.
	// +optional
	FailureReason *string `json:"failureReason,omitempty"`

	// failureMessage is the message of an error that CAPM3 considered final.
	// +optional
	FailureMessage *string `json:"failureMessage,omitempty"`

	// addresses of the host.
	// +optional
	Addresses clusterv1beta1.MachineAddresses `json:"addresses,omitempty"`

	// phase has no meaning.
	// +optional
	Phase string `json:"phase,omitempty"`

	// ready is true once the machine is complete.
	// +optional
	Ready bool `json:"ready"`

	// userData is the Secret with the user data of the host.
	// +optional
	UserData *corev1.SecretReference `json:"userData,omitempty"`

	// renderedData is the Metal3Data of this machine.
	// +optional
	RenderedData *corev1.ObjectReference `json:"renderedData,omitempty"`

	// metaData is the Secret with the meta-data of the host.
	// +optional
	MetaData *corev1.SecretReference `json:"metaData,omitempty"`

	// networkData is the Secret with the network-data of the host.
	// +optional
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`

	// conditions in the format of v1beta1.
	// +optional
	Conditions clusterv1beta1.Conditions `json:"conditions,omitempty"`

	// v1beta2 has the conditions in the format of v1beta2.
	// +optional
	V1Beta2 *V1Beta2Status `json:"v1beta2,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 Metal3Machine is deprecated; use infrastructure.cluster.x-k8s.io/v1beta2 Metal3Machine"
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3machines,scope=Namespaced,categories=cluster-api,shortName=m3m;m3machine;m3machines;metal3m;metal3machine
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="ProviderID",type=string,JSONPath=`.spec.providerID`,description="Provider ID"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`,description="Whether the machine is complete"
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels.cluster\.x-k8s\.io/cluster-name`,description="Cluster of the object"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="No meaning"

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

// +kubebuilder:object:root=true

// Metal3MachineList is a list of Metal3Machines.
type Metal3MachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Metal3Machine `json:"items"`
}
