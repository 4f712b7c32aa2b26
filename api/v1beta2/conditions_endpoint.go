package v1beta2

// Reasons of IronicEndpointReady, IronicEndpointUnique, ReadyForMove and MoveInProgress.
const (
	// EndpointFailedReason is used when a step of the endpoint reconcile fails. The message is the error.
	EndpointFailedReason = "IronicEndpointFailed"

	// EndpointAnswersReason is used when the Ironic of this cluster answers.
	EndpointAnswersReason = "EndpointAnswers"

	// EndpointCertificateEndsReason is used when the Ironic of this cluster answers, and its certificate or the one for
	// new nodes ends soon. The condition is true. The message contains the end and the remedy.
	EndpointCertificateEndsReason = "EndpointCertificateEnds"

	// EndpointUnreachableReason is used when no Ironic answers.
	EndpointUnreachableReason = "EndpointUnreachable"

	// EndpointForeignReason is used when the Ironic of another cluster answers.
	EndpointForeignReason = "EndpointForeign"

	// ManagedElsewhereReason is used when another management cluster has claimed the cluster: after a move, the Cluster
	// was unpaused in both management clusters. This management cluster keeps its hosts paused.
	ManagedElsewhereReason = "ManagedElsewhere"

	// EndpointStartingReason is used when an Ironic without a conductor answers.
	EndpointStartingReason = "EndpointStarting"

	// EndpointUntrustedReason is used when the endpoint has another certificate than this cluster.
	EndpointUntrustedReason = "EndpointUntrusted"

	// EndpointUnauthorizedReason is used when the endpoint rejects the credentials of this cluster.
	EndpointUnauthorizedReason = "EndpointUnauthorized"

	// EndpointBrokenReason is used when the endpoint does not behave like Ironic.
	EndpointBrokenReason = "EndpointBroken"

	// EndpointUnsupportedReason is used when the Ironic on the endpoint is too old.
	EndpointUnsupportedReason = "EndpointUnsupported"

	// IronicSecretInvalidReason is used when a Secret with credentials or certificates of the endpoint is invalid.
	IronicSecretInvalidReason = "IronicSecretInvalid"

	// EndpointUniqueReason is used when no other object uses the virtual IPs or the virtual router ID of the endpoint.
	EndpointUniqueReason = "EndpointUnique"

	// VirtualIPTakenReason is used when another cluster, a Metal3Machine or a host uses a virtual IP. The message contains
	// each of them and its remedy.
	VirtualIPTakenReason = "VirtualIPTaken"

	// VirtualRouterIDTakenReason is used when another cluster on the network has the virtual router ID.
	VirtualRouterIDTakenReason = "VirtualRouterIDTaken"

	// ReadyForMoveReason is used when a move would succeed.
	ReadyForMoveReason = "ReadyForMove"

	// NotReadyForMoveReason is used while there is an obstacle for a move.
	NotReadyForMoveReason = "NotReadyForMove"

	// WaitingForHostsReason is used while a move waits for hosts that are not quiesced and paused yet.
	WaitingForHostsReason = "WaitingForHosts"

	// NoMoveReason is used while no move runs.
	NoMoveReason = "NoMove"

	// ParkingHostsReason is used while clusterctl waits until the hosts of a paused Cluster are quiesced and paused.
	ParkingHostsReason = "ParkingHosts"

	// ResumingHostsReason is used while hosts of an unpaused Cluster are still paused for the move.
	ResumingHostsReason = "ResumingHosts"

	// HostsFencedReason is used while hosts are paused because another management cluster manages them.
	HostsFencedReason = "HostsFenced"

	// MovableReason is used when a paused Cluster may be moved: all hosts are quiesced and paused.
	MovableReason = "HostsPaused"

	// NotYetObservedReason is used until the first probe of the endpoint.
	NotYetObservedReason = "NotYetObserved"
)
