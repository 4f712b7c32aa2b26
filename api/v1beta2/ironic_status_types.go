package v1beta2

// HolderKind is the kind of the VIP holder.
// +kubebuilder:validation:Enum=Management;ControlPlane;Foreign;None
type HolderKind string

// Values of HolderKind.
const (
	// HolderManagement is the management cluster that created this cluster.
	HolderManagement HolderKind = "Management"

	// HolderControlPlane is a control-plane node of this cluster.
	HolderControlPlane HolderKind = "ControlPlane"

	// HolderForeign is an Ironic that has another clusterID.
	HolderForeign HolderKind = "Foreign"

	// HolderNone means that no Ironic answers.
	HolderNone HolderKind = "None"
)

// IronicHolder is the VIP holder: its Ironic answers on the VIP.
type IronicHolder struct {
	// kind of the VIP holder.
	// +required
	Kind HolderKind `json:"kind"`

	// name of the node: the conductor name without the clusterID. For kind Foreign, it is the whole conductor name.
	// +optional
	Name string `json:"name,omitempty"`

	// term is the time at which the conductor registered with its database, in RFC 3339 and UTC. An Ironic that
	// restarts on the same node with an empty database has another term, and no host is registered with it. Empty if
	// Ironic does not report the time.
	// +optional
	Term string `json:"term,omitempty"`
}

// IronicNode is the observed state of the endpoint on one control-plane node.
type IronicNode struct {
	// name of the node.
	// +required
	Name string `json:"name"`

	// armed is true if the node may hold the VIP.
	// +optional
	Armed *bool `json:"armed,omitempty"`

	// podsReady is true if the static pods are ready.
	// +optional
	PodsReady *bool `json:"podsReady,omitempty"`

	// configHash is the hash of the configuration of the static pods.
	// +optional
	ConfigHash string `json:"configHash,omitempty"`
}

// IronicClaim is the claim of a management cluster that manages the cluster.
type IronicClaim struct {
	// epoch is the move epoch of the claim.
	// +required
	// +kubebuilder:validation:Minimum=0
	Epoch int64 `json:"epoch"`

	// managementCluster is the UID of the namespace kube-system of the management cluster.
	// +required
	ManagementCluster string `json:"managementCluster"`
}

// IronicStatus is the observed state of the Ironic endpoint.
// +kubebuilder:validation:MinProperties=1
type IronicStatus struct {
	// holder is the VIP holder. Empty before the first probe, and while the Ironic that answers has no conductor or its
	// conductor cannot be read.
	// +optional
	Holder *IronicHolder `json:"holder,omitempty"`

	// nodes are the control-plane nodes that run the endpoint.
	// +optional
	// +listType=map
	// +listMapKey=name
	Nodes []IronicNode `json:"nodes,omitempty"`

	// knownHosts is the number of hosts of the cluster that are registered with the Ironic of the VIP holder, and adopted
	// by it if they are provisioned. Hosts that are detached, or paused by a user, are not counted. Set only while the
	// Ironic of this cluster answers.
	// +optional
	KnownHosts *int32 `json:"knownHosts,omitempty"`

	// managedElsewhere is the claim of another management cluster, as the workload cluster has recorded it. It stays
	// while the workload cluster does not answer. Empty while this management cluster manages the cluster.
	// +optional
	ManagedElsewhere *IronicClaim `json:"managedElsewhere,omitempty"`
}
