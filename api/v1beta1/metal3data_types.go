package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metal3DataSpec is the desired state of a Metal3Data.
type Metal3DataSpec struct {
	// index of the machine in its template. It counts from 0, and missing is 0.
	// +optional
	Index int `json:"index,omitempty"`

	// templateReference has no effect.
	// +optional
	TemplateReference string `json:"templateReference,omitempty"`

	// metaData is the Secret with the rendered meta-data.
	// +optional
	MetaData *corev1.SecretReference `json:"metaData,omitempty"`

	// networkData is the Secret with the rendered network-data.
	// +optional
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`

	// claim that this data answers.
	// +optional
	Claim *corev1.ObjectReference `json:"claim,omitempty"`

	// template that is rendered.
	// +optional
	Template *corev1.ObjectReference `json:"template,omitempty"`
}

// Metal3DataStatus is the observed state of a Metal3Data.
type Metal3DataStatus struct {
	// ready is true once the Secrets exist.
	// +optional
	Ready bool `json:"ready"`

	// errorMessage is the reason why rendering failed.
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

	// spec is the desired state.
	// +optional
	Spec Metal3DataSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
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
