package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Metal3ClusterSpec is the desired state of a Metal3Cluster.
type Metal3ClusterSpec struct {
	// controlPlaneEndpoint is the address of the API server of the cluster. Defaults to the endpoint of the Cluster.
	// Immutable once the cluster is provisioned.
	// +optional
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`

	// cloudProviderEnabled is true if a cloud provider sets the provider ID of the Nodes. If false, this provider sets
	// it. Defaults to false.
	// +optional
	CloudProviderEnabled *bool `json:"cloudProviderEnabled,omitempty"`

	// failureDomains over which Cluster API spreads machines. The label infrastructure.cluster.x-k8s.io/failure-domain
	// of a host names its failure domain.
	// +optional
	// +listType=map
	// +listMapKey=name
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`

	// ironic configures the Ironic endpoint that the control plane of this cluster takes over at a pivot. If empty, the
	// provider manages no Ironic endpoint.
	// +optional
	Ironic *Ironic `json:"ironic,omitempty"`
}

// Metal3ClusterStatus is the observed state of a Metal3Cluster.
// +kubebuilder:validation:MinProperties=1
type Metal3ClusterStatus struct {
	// conditions of the Metal3Cluster: Ready, BaremetalInfrastructureReady, IronicEndpointReady, IronicEndpointUnique,
	// ReadyForMove, MoveInProgress, Deleting and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization reports whether the infrastructure of the cluster is complete.
	// +optional
	Initialization InitializationStatus `json:"initialization,omitempty,omitzero"`

	// failureDomains of the spec. Cluster API copies them to the Cluster.
	// +optional
	// +listType=map
	// +listMapKey=name
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`

	// ironic is the observed state of the Ironic endpoint. Set only if spec.ironic is set.
	// +optional
	Ironic *IronicStatus `json:"ironic,omitempty"`

	// lastUpdated is the time of the last change by CAPM3. This provider keeps the value and does not write it.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// deprecated has the status fields of older API versions.
	// +optional
	Deprecated *DeprecatedStatus `json:"deprecated,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3clusters,scope=Namespaced,categories=cluster-api,shortName=m3c;m3cluster;m3clusters;metal3c;metal3cluster
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels.cluster\.x-k8s\.io/cluster-name`,description="Cluster that owns it"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the object is ready"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="Provisioned",type=boolean,JSONPath=`.status.initialization.provisioned`,description="Whether the first provisioning is complete"
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.controlPlaneEndpoint.host`,description="Address of the API server"
// +kubebuilder:printcolumn:name="Ironic",type=string,JSONPath=`.status.ironic.holder.name`,description="VIP holder"
// +kubebuilder:printcolumn:name="ReadyForMove",type=string,JSONPath=`.status.conditions[?(@.type=="ReadyForMove")].status`,description="Whether clusterctl move would succeed"
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.deprecated.v1beta1.failureReason`,priority=10,description="Error that CAPM3 considered final"
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10,description="Whether reconciliation is paused"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

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

// GetConditions returns the conditions of the status.
func (c *Metal3Cluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (c *Metal3Cluster) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// +kubebuilder:object:root=true

// Metal3ClusterList is a list of Metal3Clusters.
type Metal3ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Metal3Cluster `json:"items"`
}
