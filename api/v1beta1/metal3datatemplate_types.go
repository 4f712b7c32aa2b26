package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metal3DataTemplateSpec is the desired state of a Metal3DataTemplate.
type Metal3DataTemplateSpec struct {
	// clusterName has no effect: all clusters of the namespace can use the template.
	// +optional
	ClusterName string `json:"clusterName,omitempty"`

	// templateReference has no effect.
	// +optional
	TemplateReference string `json:"templateReference,omitempty"`

	// metaData is the template of the meta-data.
	// +optional
	MetaData *MetaData `json:"metaData,omitempty"`

	// networkData is the template of the network-data.
	// +optional
	NetworkData *NetworkData `json:"networkData,omitempty"`
}

// Metal3DataTemplateStatus is the observed state of a Metal3DataTemplate.
type Metal3DataTemplateStatus struct {
	// lastUpdated is the time of the last change.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// indexes that are allocated, by the name of the Metal3DataClaim.
	// +optional
	Indexes map[string]int `json:"indexes,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 Metal3DataTemplate is deprecated; use infrastructure.cluster.x-k8s.io/v1beta2 Metal3DataTemplate"
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3datatemplates,scope=Namespaced,categories=cluster-api,shortName=m3dt;m3datatemplate;m3datatemplates;metal3dt;metal3datatemplate
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels.cluster\.x-k8s\.io/cluster-name`,description="Cluster of the object"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Metal3DataTemplate is a template of the meta-data and network-data of machines.
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

// +kubebuilder:object:root=true

// Metal3DataTemplateList is a list of Metal3DataTemplates.
type Metal3DataTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Metal3DataTemplate `json:"items"`
}
