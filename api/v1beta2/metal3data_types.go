package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metal3DataSpec is the desired state of a Metal3Data.
type Metal3DataSpec struct {
	// index of the machine in its template, counted from 0. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Index *int32 `json:"index,omitempty"`

	// template to render. Immutable.
	// +optional
	Template *Metal3ObjectRef `json:"template,omitempty"`

	// claim of this data. Immutable.
	// +optional
	Claim *Metal3ObjectRef `json:"claim,omitempty"`

	// metaData is the Secret with the rendered meta-data.
	// +optional
	MetaData *corev1.SecretReference `json:"metaData,omitempty"`

	// networkData is the Secret with the rendered network-data.
	// +optional
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`
}

// Metal3DataStatus is the observed state of a Metal3Data.
// +kubebuilder:validation:MinProperties=1
type Metal3DataStatus struct {
	// conditions of the data: Ready, IPAddressesReady, SecretsReady, Deleting and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// ready is true once the Secrets exist.
	// +optional
	Ready *bool `json:"ready,omitempty"`

	// errorMessage is the reason why rendering failed.
	// +optional
	ErrorMessage string `json:"errorMessage,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="clusterctl.cluster.x-k8s.io/skip-crd-name-preflight-check="
// +kubebuilder:resource:path=metal3datas,scope=Namespaced,categories=cluster-api,shortName=m3d;m3data;m3datas;metal3d;metal3data
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels.cluster\.x-k8s\.io/cluster-name`,description="Cluster of the object"
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.template.name`,description="Template to render"
// +kubebuilder:printcolumn:name="Index",type=integer,JSONPath=`.spec.index`,description="Index in the template"
// +kubebuilder:printcolumn:name="Claim",type=string,JSONPath=`.spec.claim.name`,description="Claim of the data, named after the Metal3Machine"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the object is ready"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10,description="Whether reconciliation is paused"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Metal3Data is the rendered data of one machine.
type Metal3Data struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec Metal3DataSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status Metal3DataStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the status.
func (d *Metal3Data) GetConditions() []metav1.Condition { return d.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (d *Metal3Data) SetConditions(conditions []metav1.Condition) { d.Status.Conditions = conditions }

// +kubebuilder:object:root=true

// Metal3DataList is a list of Metal3Data.
type Metal3DataList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Metal3Data `json:"items"`
}
