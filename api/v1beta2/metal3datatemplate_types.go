package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metal3DataTemplateSpec says how meta-data and network-data are rendered.
type Metal3DataTemplateSpec struct {
	// clusterName is not used any more: a template serves all clusters of its namespace.
	// +optional
	ClusterName string `json:"clusterName,omitempty"`

	// metaData says how the meta-data is rendered. It does not change.
	// +optional
	MetaData *MetaData `json:"metaData,omitempty"`

	// networkData says how the network-data is rendered. It does not change.
	// +optional
	NetworkData *NetworkData `json:"networkData,omitempty"`
}

// DataIndex is an index that is in use.
type DataIndex struct {
	// index in use.
	// +required
	// +kubebuilder:validation:Minimum=0
	Index int32 `json:"index"`

	// name of the Metal3DataClaim that uses it.
	// +required
	Name string `json:"name"`
}

// Metal3DataTemplateStatus is what the provider observed.
// +kubebuilder:validation:MinProperties=1
type Metal3DataTemplateStatus struct {
	// conditions of the template: Ready, Deleting and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// indexes that are in use. They are rebuilt from the Metal3Data that exist.
	// +optional
	// +listType=map
	// +listMapKey=index
	Indexes []DataIndex `json:"indexes,omitempty"`

	// lastUpdated is the time of the last change by CAPM3. This provider keeps it and does not write it.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:resource:path=metal3datatemplates,scope=Namespaced,categories=cluster-api,shortName=m3dt;m3datatemplate;m3datatemplates;metal3dt;metal3datatemplate
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels.cluster\.x-k8s\.io/cluster-name`,description="Cluster that it belongs to"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all is well"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is not ready"
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10,description="Whether reconciliation is paused"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Metal3DataTemplate says how the data of machines is rendered.
//
// Several clusters may share it and then no object owns it, so its CRD carries the label that makes clusterctl move it.
type Metal3DataTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how to render.
	// +optional
	Spec Metal3DataTemplateSpec `json:"spec,omitempty,omitzero"`

	// status is what the provider observed.
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
