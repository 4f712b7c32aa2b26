package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metal3DataClaimSpec is the desired state of a Metal3DataClaim.
type Metal3DataClaimSpec struct {
	// template to render.
	// +optional
	Template *corev1.ObjectReference `json:"template,omitempty"`
}

// Metal3DataClaimStatus is the observed state of a Metal3DataClaim.
type Metal3DataClaimStatus struct {
	// renderedData is the Metal3Data of the claim.
	// +optional
	RenderedData *corev1.ObjectReference `json:"renderedData,omitempty"`

	// errorMessage is the reason why the claim has no Metal3Data.
	// +optional
	ErrorMessage *string `json:"errorMessage,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 Metal3DataClaim is deprecated; use infrastructure.cluster.x-k8s.io/v1beta2 Metal3DataClaim"
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3dataclaims,scope=Namespaced,categories=cluster-api,shortName=m3dc;m3dataclaim;m3dataclaims;metal3dc;metal3dataclaim
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Metal3DataClaim requests data for one machine, rendered from a Metal3DataTemplate.
type Metal3DataClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec Metal3DataClaimSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status Metal3DataClaimStatus `json:"status,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// Metal3DataClaimList is a list of Metal3DataClaims.
type Metal3DataClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Metal3DataClaim `json:"items"`
}
