package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metal3ClusterTemplateSpec contains the template.
type Metal3ClusterTemplateSpec struct {
	// template of the Metal3Clusters.
	// +required
	Template Metal3ClusterTemplateResource `json:"template"`
}

// Metal3ClusterTemplateResource is the template of a Metal3Cluster.
type Metal3ClusterTemplateResource struct {
	// spec of the Metal3Clusters.
	// +required
	Spec Metal3ClusterSpec `json:"spec"`
}

// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 Metal3ClusterTemplate is deprecated; use infrastructure.cluster.x-k8s.io/v1beta2 Metal3ClusterTemplate"
// +kubebuilder:resource:path=metal3clustertemplates,scope=Namespaced,categories=cluster-api,shortName=m3ct

// Metal3ClusterTemplate is a template of Metal3Clusters, for use in a ClusterClass.
type Metal3ClusterTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec contains the template. An empty spec is written too, because Cluster API reads spec.template.
	// +optional
	Spec Metal3ClusterTemplateSpec `json:"spec,omitempty"`
}

// +kubebuilder:object:root=true

// Metal3ClusterTemplateList is a list of Metal3ClusterTemplates.
type Metal3ClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Metal3ClusterTemplate `json:"items"`
}
