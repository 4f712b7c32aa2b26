package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metal3DataClaimSpec is the desired state of a Metal3DataClaim.
type Metal3DataClaimSpec struct {
	// template to render. Immutable.
	// +optional
	Template *Metal3ObjectRef `json:"template,omitempty"`
}

// Metal3DataClaimStatus is the observed state of a Metal3DataClaim.
// +kubebuilder:validation:MinProperties=1
type Metal3DataClaimStatus struct {
	// conditions of the claim: Ready, Deleting and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// renderedData is the Metal3Data of the claim.
	// +optional
	RenderedData *Metal3ObjectRef `json:"renderedData,omitempty"`

	// errorMessage is the reason why the claim has no Metal3Data.
	// +optional
	ErrorMessage string `json:"errorMessage,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3dataclaims,scope=Namespaced,categories=cluster-api,shortName=m3dc;m3dataclaim;m3dataclaims;metal3dc;metal3dataclaim
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels.cluster\.x-k8s\.io/cluster-name`,description="Cluster of the object"
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.template.name`,description="Template to render"
// +kubebuilder:printcolumn:name="Data",type=string,JSONPath=`.status.renderedData.name`,description="Metal3Data of the claim"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the object is ready"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10,description="Whether reconciliation is paused"
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

// GetConditions returns the conditions of the status.
func (c *Metal3DataClaim) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (c *Metal3DataClaim) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// +kubebuilder:object:root=true

// Metal3DataClaimList is a list of Metal3DataClaims.
type Metal3DataClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Metal3DataClaim `json:"items"`
}
