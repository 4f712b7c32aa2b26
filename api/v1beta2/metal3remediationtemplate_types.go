package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metal3RemediationTemplateSpec contains the template.
type Metal3RemediationTemplateSpec struct {
	// template of the Metal3Remediations.
	// +required
	Template Metal3RemediationTemplateResource `json:"template"`
}

// Metal3RemediationTemplateResource is the template of a Metal3Remediation.
type Metal3RemediationTemplateResource struct {
	// spec of the Metal3Remediations.
	// +required
	Spec Metal3RemediationSpec `json:"spec"`
}

// Metal3RemediationTemplateStatus is the observed state of a Metal3RemediationTemplate.
type Metal3RemediationTemplateStatus struct {
	// status of the latest Metal3Remediation of the template. This provider does not write it.
	// +optional
	Status *Metal3RemediationStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:resource:path=metal3remediationtemplates,scope=Namespaced,categories=cluster-api,shortName=m3rt;m3remediationtemplate;m3remediationtemplates;metal3rt;metal3remediationtemplate
// +kubebuilder:printcolumn:name="Strategy",type=string,JSONPath=`.spec.template.spec.strategy.type`,description="Type of the remediation"
// +kubebuilder:printcolumn:name="Retry limit",type=string,JSONPath=`.spec.template.spec.strategy.retryLimit`,description="Maximum number of tries after the first one"
// +kubebuilder:printcolumn:name="Timeout",type=string,JSONPath=`.spec.template.spec.strategy.timeoutSeconds`,description="Timeout of a try in seconds"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Metal3RemediationTemplate is a template of Metal3Remediations, for use in a MachineHealthCheck.
//
// A template has no owner. The CRD has the label that makes clusterctl move it.
type Metal3RemediationTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec contains the template.
	// +optional
	Spec Metal3RemediationTemplateSpec `json:"spec,omitempty"`

	// status is the observed state.
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
