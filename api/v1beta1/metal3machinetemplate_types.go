package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metal3MachineTemplateSpec contains the template of Metal3Machines.
type Metal3MachineTemplateSpec struct {
	// template of the Metal3Machines.
	// +required
	Template Metal3MachineTemplateResource `json:"template"`

	// nodeReuse reserves the host of a deleted machine for the next machine of the same control plane or
	// MachineDeployment.
	// +optional
	// +kubebuilder:default=false
	NodeReuse bool `json:"nodeReuse"`
}

// Metal3MachineTemplateResource is the template of a Metal3Machine.
type Metal3MachineTemplateResource struct {
	// spec of the Metal3Machines.
	// +required
	Spec Metal3MachineSpec `json:"spec"`
}

// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 Metal3MachineTemplate is deprecated; use infrastructure.cluster.x-k8s.io/v1beta2 Metal3MachineTemplate"
// +kubebuilder:resource:path=metal3machinetemplates,scope=Namespaced,categories=cluster-api,shortName=m3mt;m3machinetemplate;m3machinetemplates;metal3mt;metal3machinetemplate
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Metal3MachineTemplate is a template of Metal3Machines.
type Metal3MachineTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec contains the template. An empty spec is written too, because Cluster API reads spec.template.
	// +optional
	Spec Metal3MachineTemplateSpec `json:"spec,omitempty"`
}

// +kubebuilder:object:root=true

// Metal3MachineTemplateList is a list of Metal3MachineTemplates.
type Metal3MachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Metal3MachineTemplate `json:"items"`
}
