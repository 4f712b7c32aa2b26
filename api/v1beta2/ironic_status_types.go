package v1beta2

// HolderKind says who holds the Ironic address.
// +kubebuilder:validation:Enum=Management;ControlPlane;Foreign;None
type HolderKind string

// Values of HolderKind.
const (
	// HolderManagement is the management cluster that created this one.
	HolderManagement HolderKind = "Management"

	// HolderControlPlane is a control-plane node of this cluster.
	HolderControlPlane HolderKind = "ControlPlane"

	// HolderForeign is an Ironic with another clusterID.
	HolderForeign HolderKind = "Foreign"

	// HolderNone means that no Ironic answers.
	HolderNone HolderKind = "None"
)

// IronicHolder is who answers on the Ironic address.
type IronicHolder struct {
	// kind of the holder.
	// +required
	Kind HolderKind `json:"kind"`

	// name of the holder: the conductor name without the clusterID, which is the node's name. Of a foreign holder it
	// is the whole conductor name.
	// +optional
	Name string `json:"name,omitempty"`

	// term is the time at which the conductor of the holder registered with its database, in RFC 3339 and UTC, as Ironic
	// reports it. An Ironic that restarts on the same node with an empty database has another term: it knows no host.
	// Empty if Ironic does not report it.
	// +optional
	Term string `json:"term,omitempty"`
}

// IronicNode is what was observed of the endpoint on one control-plane node.
type IronicNode struct {
	// name of the node.
	// +required
	Name string `json:"name"`

	// armed says whether the node may hold the address.
	// +optional
	Armed *bool `json:"armed,omitempty"`

	// podsReady says whether the static pods are ready.
	// +optional
	PodsReady *bool `json:"podsReady,omitempty"`

	// configHash is the hash of the configuration that the static pods run with.
	// +optional
	ConfigHash string `json:"configHash,omitempty"`
}

// IronicStatus is what was observed of the Ironic endpoint.
// +kubebuilder:validation:MinProperties=1
type IronicStatus struct {
	// holder is who answers on the address. Empty while it is not known: before the first request, or where what answers
	// does not tell.
	// +optional
	Holder *IronicHolder `json:"holder,omitempty"`

	// nodes are the control-plane nodes that carry the endpoint.
	// +optional
	// +listType=map
	// +listMapKey=name
	Nodes []IronicNode `json:"nodes,omitempty"`

	// knownHosts is how many hosts of the cluster the answering Ironic knows, without those that are detached or paused
	// by another node or process. Set only while it is this cluster's.
	// +optional
	KnownHosts *int32 `json:"knownHosts,omitempty"`
}
