package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Metal3ClusterTemplateSpec contains the template.
type Metal3ClusterTemplateSpec struct {
	// template of the Metal3Clusters.
	// +required
	Template Metal3ClusterTemplateResource `json:"template"`
}

// Metal3ClusterTemplateResource is the template of a Metal3Cluster.
type Metal3ClusterTemplateResource struct {
	// metadata has the labels and annotations of the Metal3Clusters.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec of the Metal3Clusters.
	// +required
	Spec Metal3ClusterSpec `json:"spec"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=metal3clustertemplates,scope=Namespaced,categories=cluster-api,shortName=m3ct
// +kubebuilder:printcolumn:name="ClusterClass",type=string,JSONPath=`.metadata.ownerReferences[?(@.kind=="ClusterClass")].name`,description="ClusterClass that uses it"
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.template.spec.controlPlaneEndpoint.host`,description="Address of the API server"
// +kubebuilder:printcolumn:name="Ironic",type=string,JSONPath=`.spec.template.spec.ironic.endpoint.virtualIPs[0]`,description="First VIP of the Ironic endpoint"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Metal3ClusterTemplate is a template of Metal3Clusters, for use in a ClusterClass.
type Metal3ClusterTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec contains the template.
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
