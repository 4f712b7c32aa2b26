package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
)

// Metal3ClusterSpec is the desired state of a Metal3Cluster.
type Metal3ClusterSpec struct {
	// controlPlaneEndpoint is the address of the API server of the cluster.
	// +optional
	ControlPlaneEndpoint APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`

	// noCloudProvider is true if no cloud provider sets the provider ID of the Nodes. It has an effect only if
	// cloudProviderEnabled is not set.
	//
	// Deprecated: set cloudProviderEnabled to the opposite instead.
	// +optional
	NoCloudProvider *bool `json:"noCloudProvider,omitempty"`

	// cloudProviderEnabled is true if a cloud provider sets the provider ID of the Nodes.
	// +optional
	CloudProviderEnabled *bool `json:"cloudProviderEnabled,omitempty"`

	// failureDomains over which Cluster API spreads machines, by name.
	// +optional
	FailureDomains clusterv1beta1.FailureDomains `json:"failureDomains,omitempty"`
}

// Metal3ClusterStatus is the observed state of a Metal3Cluster.
type Metal3ClusterStatus struct {
	// lastUpdated is the time of the last change.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// failureReason is the reason of an error that CAPM3 considered final.
	// +optional
	FailureReason *string `json:"failureReason,omitempty"`

	// failureMessage is the message of an error that CAPM3 considered final.
	// +optional
	FailureMessage *string `json:"failureMessage,omitempty"`

	// failureDomains are those of the spec.
	// +optional
	FailureDomains clusterv1beta1.FailureDomains `json:"failureDomains,omitempty"`

	// ready is true once the infrastructure of the cluster is complete.
	// +optional
	Ready bool `json:"ready"`

	// conditions in the format of v1beta1.
	// +optional
	Conditions clusterv1beta1.Conditions `json:"conditions,omitempty"`

	// v1beta2 has the conditions in the format of v1beta2.
	// +optional
	V1Beta2 *V1Beta2Status `json:"v1beta2,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 Metal3Cluster is deprecated; use infrastructure.cluster.x-k8s.io/v1beta2 Metal3Cluster"
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3clusters,scope=Namespaced,categories=cluster-api,shortName=m3c;m3cluster;m3clusters;metal3c;metal3cluster
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`,description="Whether the infrastructure is complete"
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.failureReason`,description="Error that CAPM3 considered final"
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels.cluster\.x-k8s\.io/cluster-name`,description="Cluster that owns it"
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.controlPlaneEndpoint`,description="Address of the API server"

// Metal3Cluster is the infrastructure that the machines of a cluster share.
type Metal3Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec Metal3ClusterSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status Metal3ClusterStatus `json:"status,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// Metal3ClusterList is a list of Metal3Clusters.
type Metal3ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Metal3Cluster `json:"items"`
}
