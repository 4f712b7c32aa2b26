package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metal3DataTemplateSpec is the desired state of a Metal3DataTemplate.
type Metal3DataTemplateSpec struct {
	// clusterName has no effect: all clusters of the namespace can use the template.
	// +optional
	ClusterName string `json:"clusterName,omitempty"`

	// metaData is the template of the meta-data. Immutable.
	// +optional
	MetaData *MetaData `json:"metaData,omitempty"`

	// networkData is the template of the network-data. Immutable.
	// +optional
	NetworkData *NetworkData `json:"networkData,omitempty"`
}

// DataIndex is an allocated index.
type DataIndex struct {
	// index that is allocated.
	// +required
	// +kubebuilder:validation:Minimum=0
	Index int32 `json:"index"`

	// name of the Metal3DataClaim that has the index.
	// +required
	Name string `json:"name"`
}

// Metal3DataTemplateStatus is the observed state of a Metal3DataTemplate.
// +kubebuilder:validation:MinProperties=1
type Metal3DataTemplateStatus struct {
	// conditions of the template: Ready, Deleting and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// indexes that are allocated. They are computed from the existing Metal3Data.
	// +optional
	// +listType=map
	// +listMapKey=index
	Indexes []DataIndex `json:"indexes,omitempty"`

	// lastUpdated is the time of the last change by CAPM3. This provider keeps the value and does not write it.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:resource:path=metal3datatemplates,scope=Namespaced,categories=cluster-api,shortName=m3dt;m3datatemplate;m3datatemplates;metal3dt;metal3datatemplate
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels.cluster\.x-k8s\.io/cluster-name`,description="Cluster of the object"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the object is ready"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10,description="Whether reconciliation is paused"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Metal3DataTemplate is a template of the meta-data and network-data of machines.
//
// Several clusters may share a template, which then has no owner. The CRD has the label that makes clusterctl move it.
type Metal3DataTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec Metal3DataTemplateSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status Metal3DataTemplateStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the status.
func (t *Metal3DataTemplate) GetConditions() []metav1.Condition { return t.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (t *Metal3DataTemplate) SetConditions(conditions []metav1.Condition) {
	t.Status.Conditions = conditions
}

// +kubebuilder:object:root=true

// Metal3DataTemplateList is a list of Metal3DataTemplates.
type Metal3DataTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Metal3DataTemplate `json:"items"`
}
