package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metal3DataSpec says what to render for one machine.
type Metal3DataSpec struct {
	// index of the machine in its template. It counts from 0, and missing is 0.
	// +optional
	Index int `json:"index,omitempty"`

	// templateReference is not used any more.
	// +optional
	TemplateReference string `json:"templateReference,omitempty"`

	// metaData is the Secret that holds the rendered meta-data.
	// +optional
	MetaData *corev1.SecretReference `json:"metaData,omitempty"`

	// networkData is the Secret that holds the rendered network-data.
	// +optional
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`

	// claim that this data answers.
	// +optional
	Claim *corev1.ObjectReference `json:"claim,omitempty"`

	// template that is rendered.
	// +optional
	Template *corev1.ObjectReference `json:"template,omitempty"`
}

// Metal3DataStatus is what the provider observed.
type Metal3DataStatus struct {
	// ready is true once the Secrets exist.
	// +optional
	Ready bool `json:"ready"`

	// errorMessage says why rendering failed.
	// +optional
	ErrorMessage *string `json:"errorMessage,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 Metal3Data is deprecated; use infrastructure.cluster.x-k8s.io/v1beta2 Metal3Data"
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3datas,scope=Namespaced,categories=cluster-api,shortName=m3d;m3data;m3datas;metal3d;metal3data
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

// +kubebuilder:object:root=true

// Metal3DataList is a list of Metal3Data.
type Metal3DataList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Metal3Data `json:"items"`
}
