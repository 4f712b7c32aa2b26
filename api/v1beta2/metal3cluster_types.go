package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Metal3ClusterSpec is what the user wants of the infrastructure that the machines of a cluster share.
type Metal3ClusterSpec struct {
	// controlPlaneEndpoint is where the API server of the cluster will answer. Leave it out to take over the
	// endpoint of the Cluster. Once a cluster is provisioned it does not change.
	// +optional
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`

	// cloudProviderEnabled says that a cloud provider sets the provider ID of the nodes. False means that this
	// provider does it. Defaults to false.
	// +optional
	CloudProviderEnabled *bool `json:"cloudProviderEnabled,omitempty"`

	// failureDomains are the places that machines can be spread over. A host belongs to the one that its label
	// infrastructure.cluster.x-k8s.io/failure-domain names.
	// +optional
	// +listType=map
	// +listMapKey=name
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`

	// ironic describes the Ironic endpoint that the control plane of this cluster takes over at a pivot. Without it
	// the provider manages no Ironic endpoint.
	// +optional
	Ironic *Ironic `json:"ironic,omitempty"`
}

// Metal3ClusterStatus is what the provider observed.
// +kubebuilder:validation:MinProperties=1
type Metal3ClusterStatus struct {
	// conditions of the Metal3Cluster: Ready, BaremetalInfrastructureReady, IronicEndpointReady, IronicEndpointUnique,
	// ReadyForMove, MoveInProgress, Deleting and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization says whether the infrastructure of the cluster is complete.
	// +optional
	Initialization InitializationStatus `json:"initialization,omitempty,omitzero"`

	// failureDomains are those of the spec. Cluster API copies them to the Cluster.
	// +optional
	// +listType=map
	// +listMapKey=name
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`

	// ironic is what was observed of the Ironic endpoint. Set only where spec.ironic is set.
	// +optional
	Ironic *IronicStatus `json:"ironic,omitempty"`

	// lastUpdated is the time of the last change by CAPM3. This provider keeps it and does not write it.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// deprecated holds what older versions of the API reported.
	// +optional
	Deprecated *DeprecatedStatus `json:"deprecated,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3clusters,scope=Namespaced,categories=cluster-api,shortName=m3c;m3cluster;m3clusters;metal3c;metal3cluster
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels.cluster\.x-k8s\.io/cluster-name`,description="Cluster that owns it"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all is well"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is not ready"
// +kubebuilder:printcolumn:name="Provisioned",type=boolean,JSONPath=`.status.initialization.provisioned`,description="Whether the first provisioning is complete"
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.controlPlaneEndpoint.host`,description="Address of the API server"
// +kubebuilder:printcolumn:name="Ironic",type=string,JSONPath=`.status.ironic.holder.name`,description="Holder of the Ironic VIP"
// +kubebuilder:printcolumn:name="ReadyForMove",type=string,JSONPath=`.status.conditions[?(@.type=="ReadyForMove")].status`,description="Whether clusterctl move would succeed"
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.deprecated.v1beta1.failureReason`,priority=10,description="Error that CAPM3 considered final"
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10,description="Whether reconciliation is paused"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

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
