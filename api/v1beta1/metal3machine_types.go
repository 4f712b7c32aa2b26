package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
)

// Metal3MachineSpec is what the user wants of one machine.
type Metal3MachineSpec struct {
	// providerID of the machine, metal3://<namespace>/<host>/<metal3machine>.
	// +optional
	ProviderID *string `json:"providerID,omitempty"`

	// image to write to the disk of the host. Needed unless customDeploy is set.
	// +optional
	Image Image `json:"image,omitempty,omitzero"`

	// customDeploy replaces writing an image by a deploy step of the ramdisk.
	// +optional
	CustomDeploy *CustomDeploy `json:"customDeploy,omitempty"`

	// userData is a Secret with the user data of the host.
	// +optional
	UserData *corev1.SecretReference `json:"userData,omitempty"`

	// hostSelector says which hosts are eligible.
	// +optional
	HostSelector HostSelector `json:"hostSelector,omitempty,omitzero"`

	// dataTemplate is the Metal3DataTemplate that meta-data and network-data are rendered from.
	// +optional
	DataTemplate *corev1.ObjectReference `json:"dataTemplate,omitempty"`

	// metaData is a Secret with the meta-data of the host.
	// +optional
	MetaData *corev1.SecretReference `json:"metaData,omitempty"`

	// networkData is a Secret with the network-data of the host.
	// +optional
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`

	// automatedCleaningMode is handed to the host: metadata wipes partition tables when the host is released,
	// disabled leaves the disks alone.
	// +optional
	// +kubebuilder:validation:Enum=metadata;disabled
	AutomatedCleaningMode *string `json:"automatedCleaningMode,omitempty"`

	// failureDomain that the host should stand in.
	// +optional
	FailureDomain *string `json:"failureDomain,omitempty"`
}

// Metal3MachineStatus is what the provider observed.
type Metal3MachineStatus struct {
	// lastUpdated is the time of the last change.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// failureReason is the short text of an error that is considered final.
	// +optional
	FailureReason *string `json:"failureReason,omitempty"`

	// failureMessage is the long text of an error that is considered final.
	// +optional
	FailureMessage *string `json:"failureMessage,omitempty"`

	// addresses of the host.
	// +optional
	Addresses clusterv1beta1.MachineAddresses `json:"addresses,omitempty"`

	// phase is not used.
	// +optional
	Phase string `json:"phase,omitempty"`

	// ready is true once the machine is complete.
	// +optional
	Ready bool `json:"ready"`

	// userData is the Secret that the host was given as user data.
	// +optional
	UserData *corev1.SecretReference `json:"userData,omitempty"`

	// renderedData is the Metal3Data that was rendered for this machine.
	// +optional
	RenderedData *corev1.ObjectReference `json:"renderedData,omitempty"`

	// metaData is the Secret that the host was given as meta-data.
	// +optional
	MetaData *corev1.SecretReference `json:"metaData,omitempty"`

	// networkData is the Secret that the host was given as network-data.
	// +optional
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`

	// conditions in the format of v1beta1.
	// +optional
	Conditions clusterv1beta1.Conditions `json:"conditions,omitempty"`

	// v1beta2 holds what v1beta2 reports.
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
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels.cluster\.x-k8s\.io/cluster-name`,description="Cluster that it belongs to"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Not used"

// Metal3Machine is one machine on one host.
type Metal3Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants.
	// +optional
	Spec Metal3MachineSpec `json:"spec,omitempty,omitzero"`

	// status is what the provider observed.
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
