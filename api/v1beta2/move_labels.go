package v1beta2

// Labels by which clusterctl move finds the objects to move. Their values have no effect.
const (
	// DiscoverLabel on a CustomResourceDefinition makes clusterctl read the objects of the kind. It moves those that
	// have a moved object as a direct or indirect owner.
	DiscoverLabel = "clusterctl.cluster.x-k8s.io"

	// MoveLabel makes clusterctl move an object without an owner. On a CustomResourceDefinition it applies to all
	// objects of the kind.
	MoveLabel = "clusterctl.cluster.x-k8s.io/move"

	// MoveHierarchyLabel makes clusterctl move an object and all objects that it owns.
	MoveHierarchyLabel = "clusterctl.cluster.x-k8s.io/move-hierarchy"
)
