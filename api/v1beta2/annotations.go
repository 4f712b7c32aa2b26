package v1beta2

// Finalizers. CAPM3 has the same names, so that either provider can delete objects of the other.
const (
	// ClusterFinalizer keeps a Metal3Cluster until the Machines of its Cluster are deleted.
	ClusterFinalizer = "metal3cluster.infrastructure.cluster.x-k8s.io"

	// MachineFinalizer keeps a Metal3Machine until its host is released, and a Metal3DataClaim until its Metal3Machine
	// no longer requires the data.
	MachineFinalizer = "metal3machine.infrastructure.cluster.x-k8s.io"

	// DataFinalizer keeps a Metal3Data and its claims of addresses until the addresses are released.
	DataFinalizer = "metal3data.infrastructure.cluster.x-k8s.io"

	// DataClaimFinalizer keeps a Metal3DataClaim and its Metal3Data until the index is released.
	DataClaimFinalizer = "metal3dataclaim.infrastructure.cluster.x-k8s.io"

	// DataTemplateFinalizer keeps a Metal3DataTemplate while claims use it.
	DataTemplateFinalizer = "metal3datatemplate.infrastructure.cluster.x-k8s.io"

	// RemediationFinalizer keeps a Metal3Remediation until the host is powered on again.
	RemediationFinalizer = "metal3remediation.infrastructure.cluster.x-k8s.io"
)

// Annotations and labels.
const (
	// HostAnnotation on a Metal3Machine names the host that the machine has claimed, as <namespace>/<name>. The
	// namespace is informative: the host of a Metal3Machine is always in the same namespace.
	HostAnnotation = "metal3.io/BareMetalHost"

	// HostPausedByProvider is the value of the annotation baremetalhost.metal3.io/paused on hosts that the provider has
	// paused. The provider never removes the annotation if it has another value.
	HostPausedByProvider = "metal3.io/capm3"

	// UnhealthyAnnotation excludes a host from being chosen.
	UnhealthyAnnotation = "capm3.metal3.io/unhealthy"

	// UnhealthyNode is the value of UnhealthyAnnotation on a host whose remediation failed.
	UnhealthyNode = "capm3/UnhealthyNode"

	// RemediationRebootPrefix is the prefix of the annotations by which a Metal3Remediation keeps a host powered off.
	RemediationRebootPrefix = "reboot.metal3.io/metal3-remediation-"

	// RemediationAnnotation on a Metal3Remediation records its progress, because a move drops the status.
	RemediationAnnotation = "infrastructure.cluster.x-k8s.io/remediation"

	// NodeAnnotationsBackupAnnotation and NodeLabelsBackupAnnotation on a Metal3Remediation contain the annotations and
	// labels of a Node that the remediation has deleted, as a JSON object.
	NodeAnnotationsBackupAnnotation = "remediation.metal3.io/node-annotations-backup"
	NodeLabelsBackupAnnotation      = "remediation.metal3.io/node-labels-backup"

	// DeprecatedUnhealthyAnnotation is the old name of UnhealthyAnnotation and has the same effect.
	DeprecatedUnhealthyAnnotation = "capi.metal3.io/unhealthy"

	// NodeReuseLabel on a host reserves the host for the next machine of the same owner. The value is "cp-<control
	// plane>" or "md-<MachineDeployment>", or the hash of a value that is too long for a label.
	NodeReuseLabel = "infrastructure.cluster.x-k8s.io/node-reuse"

	// FailureDomainLabel on a host names its failure domain.
	FailureDomainLabel = "infrastructure.cluster.x-k8s.io/failure-domain"

	// ReleaseAnnotation on a host records the values that the claim has replaced. The release restores them. It exists
	// on claimed hosts, on hosts that are reserved by node reuse, and on released hosts until BMO has deprovisioned them.
	ReleaseAnnotation = "infrastructure.cluster.x-k8s.io/before-claim"

	// ChosenHostAnnotation on a Metal3Machine holds the name of the host that the provider chose. If HostAnnotation names
	// another host, or this annotation is missing, a user has named the host in HostAnnotation.
	ChosenHostAnnotation = "infrastructure.cluster.x-k8s.io/chosen-host"

	// BlockMoveAnnotation makes clusterctl move wait for the object that carries it.
	BlockMoveAnnotation = "clusterctl.cluster.x-k8s.io/block-move"

	// DeleteForMoveAnnotation marks an object that clusterctl move deletes after it has copied the object to another
	// cluster. It replaces all other annotations, including a pause, so controllers must not act on such an object.
	DeleteForMoveAnnotation = "clusterctl.cluster.x-k8s.io/delete-for-move"

	// IronicHolderAnnotation on a host names the VIP holder at the last change of the holder, as <kind>/<name>@<term>,
	// without the term if Ironic does not report it. A change of the annotation makes BMO reconcile the host at once.
	IronicHolderAnnotation = "infrastructure.cluster.x-k8s.io/ironic-holder"

	// LostRegistrationAnnotation on a host and on the Secret of its BMC is the ID of the node in Ironic that BMO has
	// created and not saved. The change of the Secret makes BMO register the host again, and save the ID. The manager
	// removes the annotation from the host then.
	LostRegistrationAnnotation = "infrastructure.cluster.x-k8s.io/lost-registration"

	// StatusOriginAnnotation on a paused host is the UID of the object whose status is in the annotation
	// baremetalhost.metal3.io/status. If it is not the UID of the host, the status arrived from another cluster.
	StatusOriginAnnotation = "infrastructure.cluster.x-k8s.io/status-origin"

	// MoveEpochAnnotation on a Metal3Cluster counts the moves of its Cluster: a whole number, 0 if it is missing. It is
	// even while the Cluster runs. It becomes odd when a move pauses the Cluster, is moved with the Metal3Cluster, and
	// becomes even when the Cluster is unpaused. On a paused host it is the epoch of the move that the host was paused
	// for. A host that arrives has the epoch of its Metal3Cluster. A leftover of an earlier move has a lower epoch.
	MoveEpochAnnotation = "infrastructure.cluster.x-k8s.io/move-epoch"

	// IronicClusterIDAnnotation on a host that is paused for a move is the clusterID of the Ironic endpoint that serves
	// the host, if a Metal3Cluster of another namespace has the endpoint. It is moved with the host. The target cluster
	// resumes the host when such an endpoint is verified there.
	IronicClusterIDAnnotation = "infrastructure.cluster.x-k8s.io/ironic-cluster-id"

	// IronicIdentityAnnotation on a Metal3Cluster has the clusterID and the virtual router ID of a removed spec.ironic:
	// 3f9c1a7e/50. The webhook restores them when spec.ironic returns without them, because running nodes use them.
	IronicIdentityAnnotation = "infrastructure.cluster.x-k8s.io/ironic-identity"

	// MoveWhileBusyAnnotation on a host allows a move while the host is inspected, prepared or deprovisioned. Ironic
	// continues meanwhile, and BMO in the target cluster continues from there. Any value has this effect. The manager
	// removes the annotation after the move.
	MoveWhileBusyAnnotation = "infrastructure.cluster.x-k8s.io/move-while-busy"

	// PauseReasonAnnotation on a host that the provider has paused has the reason of the pause, and what ends the
	// pause.
	PauseReasonAnnotation = "infrastructure.cluster.x-k8s.io/pause-reason"

	// MoveIncompleteAnnotation on a Metal3Cluster of a paused Cluster names what clusterctl leaves behind in this move,
	// because it had no label when clusterctl discovered the objects. block-move stays while the annotation exists, also
	// if the label was set in the meantime. The manager removes the annotation when the Cluster is unpaused.
	MoveIncompleteAnnotation = "infrastructure.cluster.x-k8s.io/move-incomplete"

	// ArrivalEpochAnnotation on a Metal3Cluster is the epoch of the last move whose gate was open when the Cluster was
	// unpaused, 0 if it is missing. All hosts of the Metal3Cluster had this epoch then.
	ArrivalEpochAnnotation = "infrastructure.cluster.x-k8s.io/arrival-epoch"

	// MoveInventoryAnnotation on the Metal3Cluster of a paused Cluster names the Machines, MachineSets,
	// MachineDeployments, Metal3Machines, Metal3DataClaims and Metal3Datas that the Cluster has when the gate of the move
	// opens, as a JSON object of lists by kind. JSON of more than 32 KiB is compressed with gzip: the value is "gzip:" and
	// base64.
	MoveInventoryAnnotation = "infrastructure.cluster.x-k8s.io/move-inventory"

	// HostUIDLabel on a Node is the UID of the host at the time of provisioning. A move changes the UID, but not the
	// label.
	HostUIDLabel = "metal3.io/uuid"

	// LabelSyncPrefixesAnnotation on a Metal3Cluster lists the prefixes of labels to copy from hosts to Nodes,
	// separated by commas: rack.example.com,example.com. CAPM3 has the same annotation.
	LabelSyncPrefixesAnnotation = "metal3.io/metal3-label-sync-prefixes"

	// DataNameLabel and PoolNameLabel name the Metal3Data and the pool of an IPClaim whose name is derived from a host.
	DataNameLabel = "infrastructure.cluster.x-k8s.io/data-name"
	PoolNameLabel = "infrastructure.cluster.x-k8s.io/pool-name"

	// DataSecretType is the type of rendered meta-data and network-data Secrets.
	DataSecretType = "infrastructure.cluster.x-k8s.io/secret"

	// ProviderIDPrefix is the prefix of every provider ID: metal3://<namespace>/<host>/<metal3machine>.
	ProviderIDPrefix = "metal3://"
)
