package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metal3RemediationTemplateSpec wraps the template.
type Metal3RemediationTemplateSpec struct {
	// template of the Metal3Remediations that are made from it.
	// +required
	Template Metal3RemediationTemplateResource `json:"template"`
}

// Metal3RemediationTemplateResource is what a Metal3Remediation is made from.
type Metal3RemediationTemplateResource struct {
	// spec of the Metal3Remediation.
	// +required
	Spec Metal3RemediationSpec `json:"spec"`
}

// Metal3RemediationTemplateStatus is what the provider observed.
type Metal3RemediationTemplateStatus struct {
	// status of the latest remediation made from the template.
	// +optional
	Status *Metal3RemediationStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:resource:path=metal3remediationtemplates,scope=Namespaced,categories=cluster-api,shortName=m3rt;m3remediationtemplate;m3remediationtemplates;metal3rt;metal3remediationtemplate
// +kubebuilder:printcolumn:name="Strategy",type=string,JSONPath=`.spec.template.spec.strategy.type`,description="Type of the remediation"
// +kubebuilder:printcolumn:name="Retry limit",type=string,JSONPath=`.spec.template.spec.strategy.retryLimit`,description="How often a try is repeated"
// +kubebuilder:printcolumn:name="Timeout",type=string,JSONPath=`.spec.template.spec.strategy.timeoutSeconds`,description="Time of a try in seconds"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Metal3RemediationTemplate is a template of Metal3Remediations, for use in a MachineHealthCheck.
//
// No object owns it, so its CRD carries the label that makes clusterctl move it.
type Metal3RemediationTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the template.
	// +optional
	Spec Metal3RemediationTemplateSpec `json:"spec,omitempty"`

	// status is what the provider observed.
	// +optional
	Status Metal3RemediationTemplateStatus `json:"status,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// Metal3RemediationTemplateList is a list of Metal3RemediationTemplates.
type Metal3RemediationTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Metal3RemediationTemplate `json:"items"`
}
