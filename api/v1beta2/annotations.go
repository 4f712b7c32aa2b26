package v1beta2

// Finalizers. The names are those of CAPM3, so that either provider can finish what the other began.
const (
	// ClusterFinalizer keeps a Metal3Cluster until the machines of its Cluster are gone.
	ClusterFinalizer = "metal3cluster.infrastructure.cluster.x-k8s.io"

	// MachineFinalizer keeps a Metal3Machine until its host is released, and a Metal3DataClaim until its machine
	// lets go of it.
	MachineFinalizer = "metal3machine.infrastructure.cluster.x-k8s.io"

	// DataFinalizer keeps a Metal3Data, and the address claims made for it, until the addresses are returned.
	DataFinalizer = "metal3data.infrastructure.cluster.x-k8s.io"

	// DataClaimFinalizer keeps a Metal3DataClaim, and the Metal3Data made for it, until the index is free.
	DataClaimFinalizer = "metal3dataclaim.infrastructure.cluster.x-k8s.io"

	// DataTemplateFinalizer keeps a Metal3DataTemplate while claims use it.
	DataTemplateFinalizer = "metal3datatemplate.infrastructure.cluster.x-k8s.io"

	// RemediationFinalizer keeps a Metal3Remediation until the host is powered on again.
	RemediationFinalizer = "metal3remediation.infrastructure.cluster.x-k8s.io"
)

// Annotations and labels.
const (
	// HostAnnotation on a Metal3Machine names the host that it claimed, as <namespace>/<name>. The namespace is
	// informative: a host is always looked up in the namespace of its Metal3Machine.
	HostAnnotation = "metal3.io/BareMetalHost"

	// HostPausedByProvider is the value of the annotation baremetalhost.metal3.io/paused that marks a pause as the
	// provider's own. The provider never removes an annotation with another value.
	HostPausedByProvider = "metal3.io/capm3"

	// UnhealthyAnnotation on a host keeps it from being chosen.
	UnhealthyAnnotation = "capm3.metal3.io/unhealthy"

	// UnhealthyNode is the value of UnhealthyAnnotation on a host whose remediation failed.
	UnhealthyNode = "capm3/UnhealthyNode"

	// RemediationRebootPrefix begins the annotations on a host by which a Metal3Remediation keeps it powered off.
	RemediationRebootPrefix = "reboot.metal3.io/metal3-remediation-"

	// RemediationAnnotation on a Metal3Remediation records how far it got, because a move drops the status.
	RemediationAnnotation = "infrastructure.cluster.x-k8s.io/remediation"

	// NodeAnnotationsBackupAnnotation and NodeLabelsBackupAnnotation on a Metal3Remediation keep the annotations and
	// labels of a Node that it deleted, as a JSON object.
	NodeAnnotationsBackupAnnotation = "remediation.metal3.io/node-annotations-backup"
	NodeLabelsBackupAnnotation      = "remediation.metal3.io/node-labels-backup"

	// DeprecatedUnhealthyAnnotation is the old name of UnhealthyAnnotation and has the same effect.
	DeprecatedUnhealthyAnnotation = "capi.metal3.io/unhealthy"

	// NodeReuseLabel on a host reserves it for the next machine of the same owner. The value is
	// "cp-<control plane>" or "md-<MachineDeployment>", or a hash of that where it is too long for a label.
	NodeReuseLabel = "infrastructure.cluster.x-k8s.io/node-reuse"

	// FailureDomainLabel on a host says which failure domain it stands in.
	FailureDomainLabel = "infrastructure.cluster.x-k8s.io/failure-domain"

	// ReleaseAnnotation on a host records, while a machine holds the host, the values that the machine replaced, so
	// that the release can put them back. It exists on claimed hosts and on hosts that are reserved by node reuse.
	ReleaseAnnotation = "infrastructure.cluster.x-k8s.io/before-claim"

	// ChosenHostAnnotation on a Metal3Machine holds the name of the host that the provider chose. If HostAnnotation names
	// another host, or this annotation is missing, a user has named the host in HostAnnotation.
	ChosenHostAnnotation = "infrastructure.cluster.x-k8s.io/chosen-host"

	// BlockMoveAnnotation makes clusterctl move wait for the object that carries it.
	BlockMoveAnnotation = "clusterctl.cluster.x-k8s.io/block-move"

	// DeleteForMoveAnnotation marks an object that clusterctl move deletes after it was copied to another cluster. It
	// replaces all other annotations, a pause among them, so controllers must not act on such an object.
	DeleteForMoveAnnotation = "clusterctl.cluster.x-k8s.io/delete-for-move"

	// IronicHolderAnnotation on a host names who held the Ironic endpoint when the host was last told of a change, as
	// <kind>/<name>@<term>, without the term if Ironic does not report it. Changing it makes BMO look at the
	// host at once.
	IronicHolderAnnotation = "infrastructure.cluster.x-k8s.io/ironic-holder"

	// StatusOriginAnnotation on a paused host holds the UID of the object whose status the annotation
	// baremetalhost.metal3.io/status was recorded from. Another UID than that of the host says that the status arrived
	// from another cluster.
	StatusOriginAnnotation = "infrastructure.cluster.x-k8s.io/status-origin"

	// MoveEpochAnnotation on a Metal3Cluster counts the moves of its Cluster: a whole number, 0 if it is missing. It is
	// even while the Cluster runs. It becomes odd when a move pauses the Cluster, travels with the Metal3Cluster, and
	// becomes even again where the Cluster is unpaused. On a paused host it holds the epoch of the move that the host was
	// paused for. A host that arrives has the epoch of its Metal3Cluster. A leftover of an earlier move has a lower epoch.
	MoveEpochAnnotation = "infrastructure.cluster.x-k8s.io/move-epoch"

	// IronicClusterIDAnnotation on a host that is paused for a move holds the clusterID of the Ironic endpoint that serves
	// the host, if a Metal3Cluster of another namespace has the endpoint. It travels with the host. The target resumes the
	// host when such an endpoint is verified there.
	IronicClusterIDAnnotation = "infrastructure.cluster.x-k8s.io/ironic-cluster-id"

	// MoveWhileBusyAnnotation on a host lets a move take the host along while it is inspected, prepared or deprovisioned.
	// Ironic continues meanwhile, and BMO in the target cluster continues from there. The value does not matter. The
	// manager removes the annotation after the move.
	MoveWhileBusyAnnotation = "infrastructure.cluster.x-k8s.io/move-while-busy"

	// PauseReasonAnnotation on a host that the provider has paused says in words why, and what ends the pause.
	PauseReasonAnnotation = "infrastructure.cluster.x-k8s.io/pause-reason"

	// ArrivalEpochAnnotation on a Metal3Cluster holds the epoch of the last move whose gate was open when the Cluster was
	// unpaused, 0 if it is missing. All hosts that belong to the Metal3Cluster had this epoch then.
	ArrivalEpochAnnotation = "infrastructure.cluster.x-k8s.io/arrival-epoch"

	// MoveInventoryAnnotation on the Metal3Cluster of a paused Cluster names the Machines, MachineSets, MachineDeployments
	// and Metal3Machines that the Cluster has when the move goes on, as a JSON object of lists by kind.
	MoveInventoryAnnotation = "infrastructure.cluster.x-k8s.io/move-inventory"

	// HostUIDLabel on a Node carries the UID of the host at the time of provisioning. It goes stale at a move.
	HostUIDLabel = "metal3.io/uuid"

	// LabelSyncPrefixesAnnotation on a Metal3Cluster lists the prefixes of labels that are copied from hosts to nodes,
	// with commas between them: rack.example.com,example.com. CAPM3 has it too.
	LabelSyncPrefixesAnnotation = "metal3.io/metal3-label-sync-prefixes"

	// DataNameLabel and PoolNameLabel on an IPClaim that is named after a host name its Metal3Data and its pool.
	DataNameLabel = "infrastructure.cluster.x-k8s.io/data-name"
	PoolNameLabel = "infrastructure.cluster.x-k8s.io/pool-name"

	// DataSecretType is the type of rendered meta-data and network-data Secrets.
	DataSecretType = "infrastructure.cluster.x-k8s.io/secret"

	// ProviderIDPrefix starts every provider ID: metal3://<namespace>/<host>/<metal3machine>.
	ProviderIDPrefix = "metal3://"
)
