package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
)

// Metal3ClusterSpec is what the user wants of the infrastructure that the machines of a cluster share.
type Metal3ClusterSpec struct {
	// controlPlaneEndpoint is where the API server of the cluster will answer.
	// +optional
	ControlPlaneEndpoint APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`

	// noCloudProvider says that no cloud provider sets the provider ID of the nodes. It counts only where
	// cloudProviderEnabled is missing.
	//
	// Deprecated: set cloudProviderEnabled to the opposite instead.
	// +optional
	NoCloudProvider *bool `json:"noCloudProvider,omitempty"`

	// cloudProviderEnabled says that a cloud provider sets the provider ID of the nodes.
	// +optional
	CloudProviderEnabled *bool `json:"cloudProviderEnabled,omitempty"`

	// failureDomains are the places that machines can be spread over, by name.
	// +optional
	FailureDomains clusterv1beta1.FailureDomains `json:"failureDomains,omitempty"`
}

// Metal3ClusterStatus is what the provider observed.
type Metal3ClusterStatus struct {
	// lastUpdated is the time of the last change.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// failureReason is the short text of an error that is considered final.
	// +optional
	FailureReason *string `json:"failureReason,omitempty"`

	// failureMessage is the long text of an error that is considered final.
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

	// v1beta2 holds what v1beta2 reports.
	// +optional
	V1Beta2 *V1Beta2Status `json:"v1beta2,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 Metal3Cluster is deprecated; use infrastructure.cluster.x-k8s.io/v1beta2 Metal3Cluster"
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3clusters,scope=Namespaced,categories=cluster-api,shortName=m3c;m3cluster;m3clusters;metal3c;metal3cluster
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`,description="Whether the infrastructure is complete"
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.failureReason`,description="Error that is considered final"
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels.cluster\.x-k8s\.io/cluster-name`,description="Cluster that owns it"
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.controlPlaneEndpoint`,description="Where the API server answers"

// Metal3Cluster is the infrastructure that the machines of a cluster share.
type Metal3Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants.
	// +optional
	Spec Metal3ClusterSpec `json:"spec,omitempty,omitzero"`

	// status is what the provider observed.
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
