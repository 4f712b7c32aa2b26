package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Metal3MachineTemplateSpec contains the template of Metal3Machines.
type Metal3MachineTemplateSpec struct {
	// nodeReuse reserves the host of a deleted machine for the next machine of the same control plane or
	// MachineDeployment.
	// +optional
	// +kubebuilder:default=false
	NodeReuse bool `json:"nodeReuse,omitempty"`

	// template of the Metal3Machines.
	// +required
	Template Metal3MachineTemplateResource `json:"template"`
}

// Metal3MachineTemplateResource is the template of a Metal3Machine.
type Metal3MachineTemplateResource struct {
	// metadata has the labels and annotations of the Metal3Machines.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec of the Metal3Machines.
	// +required
	Spec Metal3MachineSpec `json:"spec"`
}

// Metal3MachineTemplateStatus is the observed state of the hosts that the template selects.
type Metal3MachineTemplateStatus struct {
	// conditions of the template: Paused, and Ready, which is true if the capacity is known.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// capacity is the minimum of the hosts that match the hostSelector. The cluster autoscaler reads it to scale from
	// zero.
	// +optional
	Capacity map[corev1.ResourceName]Quantity `json:"capacity,omitempty"`

	// nodeInfo is the architecture and operating system of the hosts that match the hostSelector. The cluster
	// autoscaler reads it to scale from zero.
	// +optional
	NodeInfo *NodeInfo `json:"nodeInfo,omitempty"`
}

// Architecture of a node, as the label kubernetes.io/arch has it.
// +kubebuilder:validation:Enum=amd64;arm64;s390x;ppc64le
type Architecture string

// OperatingSystem of a node, as the label kubernetes.io/os has it.
// +kubebuilder:validation:Enum=linux;windows
type OperatingSystem string

// NodeInfo describes the nodes of a template.
type NodeInfo struct {
	// architecture of the hosts. Empty if they differ.
	// +optional
	Architecture Architecture `json:"architecture,omitempty"`

	// operatingSystem of the nodes.
	// +optional
	OperatingSystem OperatingSystem `json:"operatingSystem,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3machinetemplates,scope=Namespaced,categories=cluster-api,shortName=m3mt;m3machinetemplate;m3machinetemplates;metal3mt;metal3machinetemplate
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.template.spec.image.url`,description="Image of the machines"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the capacity of the selected hosts is known"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.status.capacity.cpu`,priority=1,description="Minimum CPU of the selected hosts"
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.capacity.memory`,priority=1,description="Minimum memory of the selected hosts"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Metal3MachineTemplate is a template of Metal3Machines.
type Metal3MachineTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec contains the template. The provider copies a change of automatedCleaningMode to existing machines. Other
	// changes of template.spec apply only to new machines, and the webhook warns about them.
	// +optional
	Spec Metal3MachineTemplateSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status Metal3MachineTemplateStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the status.
func (t *Metal3MachineTemplate) GetConditions() []metav1.Condition { return t.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (t *Metal3MachineTemplate) SetConditions(conditions []metav1.Condition) {
	t.Status.Conditions = conditions
}

// +kubebuilder:object:root=true

// Metal3MachineTemplateList is a list of Metal3MachineTemplates.
type Metal3MachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Metal3MachineTemplate `json:"items"`
}
