package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metal3DataTemplateSpec says how meta-data and network-data are rendered.
type Metal3DataTemplateSpec struct {
	// clusterName is not used any more: a template serves all clusters of its namespace.
	// +optional
	ClusterName string `json:"clusterName,omitempty"`

	// templateReference is not used any more.
	// +optional
	TemplateReference string `json:"templateReference,omitempty"`

	// metaData says how the meta-data is rendered.
	// +optional
	MetaData *MetaData `json:"metaData,omitempty"`

	// networkData says how the network-data is rendered.
	// +optional
	NetworkData *NetworkData `json:"networkData,omitempty"`
}

// Metal3DataTemplateStatus is what the provider observed.
type Metal3DataTemplateStatus struct {
	// lastUpdated is the time of the last change.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// indexes that are in use, by the name of the Metal3DataClaim that uses them.
	// +optional
	Indexes map[string]int `json:"indexes,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 Metal3DataTemplate is deprecated; use infrastructure.cluster.x-k8s.io/v1beta2 Metal3DataTemplate"
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3datatemplates,scope=Namespaced,categories=cluster-api,shortName=m3dt;m3datatemplate;m3datatemplates;metal3dt;metal3datatemplate
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels.cluster\.x-k8s\.io/cluster-name`,description="Cluster that it belongs to"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Metal3DataTemplate says how the data of machines is rendered.
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

// +kubebuilder:object:root=true

// Metal3DataTemplateList is a list of Metal3DataTemplates.
type Metal3DataTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Metal3DataTemplate `json:"items"`
}
