package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metal3DataSpec says what to render for one machine.
type Metal3DataSpec struct {
	// index of the machine in its template. It counts from 0 and does not change.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Index *int32 `json:"index,omitempty"`

	// template that is rendered. It does not change.
	// +optional
	Template *Metal3ObjectRef `json:"template,omitempty"`

	// claim that this data answers. It does not change.
	// +optional
	Claim *Metal3ObjectRef `json:"claim,omitempty"`

	// metaData is the Secret that holds the rendered meta-data.
	// +optional
	MetaData *corev1.SecretReference `json:"metaData,omitempty"`

	// networkData is the Secret that holds the rendered network-data.
	// +optional
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`
}

// Metal3DataStatus is what the provider observed.
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

	// errorMessage says why rendering failed.
	// +optional
	ErrorMessage string `json:"errorMessage,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="clusterctl.cluster.x-k8s.io/skip-crd-name-preflight-check="
// +kubebuilder:resource:path=metal3datas,scope=Namespaced,categories=cluster-api,shortName=m3d;m3data;m3datas;metal3d;metal3data
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels.cluster\.x-k8s\.io/cluster-name`,description="Cluster that it belongs to"
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.template.name`,description="Template that is rendered"
// +kubebuilder:printcolumn:name="Index",type=integer,JSONPath=`.spec.index`,description="Index in the template"
// +kubebuilder:printcolumn:name="Claim",type=string,JSONPath=`.spec.claim.name`,description="Claim that it answers, named after the Metal3Machine"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all is well"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is not ready"
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10,description="Whether reconciliation is paused"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Metal3Data is the rendered data of one machine.
type Metal3Data struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what to render.
	// +optional
	Spec Metal3DataSpec `json:"spec,omitempty,omitzero"`

	// status is what the provider observed.
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
