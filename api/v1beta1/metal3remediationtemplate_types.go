package v1beta1

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
	Status Metal3RemediationStatus `json:"status,omitempty,omitzero"`
}

// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 Metal3RemediationTemplate is deprecated; use infrastructure.cluster.x-k8s.io/v1beta2 Metal3RemediationTemplate"
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3remediationtemplates,scope=Namespaced,categories=cluster-api,shortName=m3rt;m3remediationtemplate;m3remediationtemplates;metal3rt;metal3remediationtemplate

// Metal3RemediationTemplate is a template of Metal3Remediations, for use in a MachineHealthCheck.
type Metal3RemediationTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec contains the template. An empty spec is written too, because Cluster API reads spec.template.
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
