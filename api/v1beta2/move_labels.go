package v1beta2

// Labels by which clusterctl move finds what it takes along. Only their keys count.
const (
	// DiscoverLabel on a definition of a kind makes clusterctl look at the objects of that kind at all. It then moves
	// those that are owned, directly or not, by something that moves.
	DiscoverLabel = "clusterctl.cluster.x-k8s.io"

	// MoveLabel makes clusterctl move an object that nothing owns. On a definition it means all objects of the kind.
	MoveLabel = "clusterctl.cluster.x-k8s.io/move"

	// MoveHierarchyLabel is MoveLabel for an object and everything that it owns.
	MoveHierarchyLabel = "clusterctl.cluster.x-k8s.io/move-hierarchy"
)
