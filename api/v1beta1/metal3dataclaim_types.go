package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metal3DataClaimSpec asks for data rendered from a template.
type Metal3DataClaimSpec struct {
	// template to render.
	// +optional
	Template *corev1.ObjectReference `json:"template,omitempty"`
}

// Metal3DataClaimStatus is what the provider observed.
type Metal3DataClaimStatus struct {
	// renderedData is the Metal3Data that answers the claim.
	// +optional
	RenderedData *corev1.ObjectReference `json:"renderedData,omitempty"`

	// errorMessage says why the claim has no answer.
	// +optional
	ErrorMessage *string `json:"errorMessage,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 Metal3DataClaim is deprecated; use infrastructure.cluster.x-k8s.io/v1beta2 Metal3DataClaim"
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3dataclaims,scope=Namespaced,categories=cluster-api,shortName=m3dc;m3dataclaim;m3dataclaims;metal3dc;metal3dataclaim
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Metal3DataClaim asks for the data of one machine.
type Metal3DataClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is asked for.
	// +optional
	Spec Metal3DataClaimSpec `json:"spec,omitempty,omitzero"`

	// status is what the provider observed.
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
