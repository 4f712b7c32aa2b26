package v1beta2

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Condition types of all kinds. Ready, Deleting and Paused have the meaning that Cluster API gives them.
const (
	// ReadyCondition sums up the other conditions. Pausing does not change it.
	ReadyCondition = clusterv1.ReadyCondition

	// DeletingCondition says how far a deletion got. It is true while the object is being deleted.
	DeletingCondition = clusterv1.DeletingCondition

	// PausedCondition says whether the object or its Cluster is paused.
	PausedCondition = clusterv1.PausedCondition
)

// Condition types of a Metal3Cluster.
const (
	// InfrastructureReadyCondition says whether the cluster has a control-plane endpoint.
	InfrastructureReadyCondition = "BaremetalInfrastructureReady"

	// IronicEndpointReadyCondition says whether this cluster's Ironic answers on the endpoint of spec.ironic. It
	// exists only where spec.ironic is set.
	IronicEndpointReadyCondition = "IronicEndpointReady"

	// IronicEndpointUniqueCondition says whether nobody else uses the virtual addresses or the virtual router ID of
	// spec.ironic, as far as the objects of the management cluster tell. It exists only where spec.ironic is set.
	IronicEndpointUniqueCondition = "IronicEndpointUnique"

	// ReadyForMoveCondition says whether clusterctl move would succeed now and lose nothing. The message names each
	// obstacle and its remedy. While the Cluster is paused, it says which hosts the move waits for.
	ReadyForMoveCondition = "ReadyForMove"

	// MoveInProgressCondition says whether a move is under way. The reason is its stage, and the message has the number of
	// hosts in each phase.
	MoveInProgressCondition = "MoveInProgress"
)

// Condition types of a Metal3Machine.
const (
	// HostAssociatedCondition says whether the machine has claimed a host.
	HostAssociatedCondition = "AssociateBareMetalHost"

	// DataReadyCondition says whether meta-data and network-data are ready.
	DataReadyCondition = "Metal3DataReady"

	// AddressesReadyCondition says whether a Metal3Data has all addresses that its template names.
	AddressesReadyCondition = "IPAddressesReady"

	// SecretsReadyCondition says whether the Secrets of a Metal3Data exist.
	SecretsReadyCondition = "SecretsReady"

	// DataAssociatedCondition repeats DataReadyCondition under another name that CAPM3 has for it.
	DataAssociatedCondition = "AssociateMetal3MachineMetaData"

	// HostProvisionedCondition says how far BMO got in provisioning the host, and quotes its error.
	HostProvisionedCondition = "BareMetalHostProvisioned"

	// NodeLinkedCondition says whether the node of the machine carries the provider ID.
	NodeLinkedCondition = "NodeLinked"

	// NodeLabelsSyncedCondition says whether the node of the machine has the labels of its host that the annotation
	// LabelSyncPrefixesAnnotation of the Metal3Cluster asks for. Absent without that annotation. Ready does not depend on
	// it.
	NodeLabelsSyncedCondition = "NodeLabelsSynced"
)

// Reasons of all kinds.
const (
	// ReadyReason is used when all is well.
	ReadyReason = clusterv1.ReadyReason

	// DeletingReason is used while the object is being deleted.
	DeletingReason = clusterv1.DeletingReason

	// WriteFailedReason is used by Ready when metadata or spec of the object cannot be written. The message is the error.
	WriteFailedReason = "WriteFailed"

	// ReadFailedReason is used by Ready when a required object cannot be read. The message is the error.
	ReadFailedReason = "ReadFailed"

	// ReleaseFailedReason is used by Deleting when a step of the deletion fails. The message is the error.
	ReleaseFailedReason = "ReleaseFailed"
)

// Reasons of a Metal3Cluster.
const (
	// WaitingForClusterReason is used until the Cluster sets its owner reference.
	WaitingForClusterReason = "WaitingForClusterOwnerRef"

	// EndpointMissingReason is used while neither the Metal3Cluster nor the Cluster has a control-plane endpoint.
	EndpointMissingReason = "ControlPlaneEndpointFailed"

	// InfrastructureReadyReason is used when the cluster has a control-plane endpoint.
	InfrastructureReadyReason = "BaremetalInfrastructureReady"

	// InfrastructureFailedReason is used by BaremetalInfrastructureReady when a step fails. The message is the error.
	InfrastructureFailedReason = "BaremetalInfrastructureFailed"

	// EndpointSharedReason is used when another Metal3Cluster has the same control-plane endpoint. The condition stays
	// true. The message names the other Metal3Cluster.
	EndpointSharedReason = "ControlPlaneEndpointShared"

	// WaitingForMachinesReason is used while a deletion waits for the machines of the cluster.
	WaitingForMachinesReason = "WaitingForMachinesDeletion"
)

// Reasons of AssociateBareMetalHost.
const (
	// WaitingForMachineReason is used until the Machine sets its owner reference.
	WaitingForMachineReason = "WaitingForMetal3MachineOwnerRef"

	// WaitingForInfrastructureReason is used until the infrastructure of the Cluster is provisioned.
	WaitingForInfrastructureReason = clusterv1.WaitingForClusterInfrastructureReadyReason

	// WaitingForMetal3ClusterReason is used until the Metal3Cluster exists. The spelling is CAPM3's.
	WaitingForMetal3ClusterReason = "WaitingforMetal3Cluster"

	// WaitingForBootstrapDataReason is used until the Machine has bootstrap data.
	WaitingForBootstrapDataReason = clusterv1.WaitingForBootstrapDataReason

	// BootstrapDataInvalidReason is used when the bootstrap Secret lacks the key value, or when the files of the Ironic
	// endpoint cannot be added to what it holds.
	BootstrapDataInvalidReason = "BootstrapDataInvalid"

	// WaitingForIronicSecretReason is used by a control-plane machine until the Secret with the credentials and
	// certificates of the Ironic endpoint is complete, and by a Metal3Cluster until the Secrets exist that spec.ironic
	// names.
	WaitingForIronicSecretReason = "WaitingForIronicSecret"

	// IronicEndpointInvalidReason is used when no files can be made of spec.ironic of the Metal3Cluster.
	IronicEndpointInvalidReason = "IronicEndpointInvalid"

	// AssociationFailedReason is used when a step of the claim of a host fails. The message is the error.
	AssociationFailedReason = "AssociateBareMetalHostFailed"

	// NoHostAvailableReason is used when no host can be claimed. The message counts the hosts per reason.
	NoHostAvailableReason = "NoHostAvailable"

	// InvalidHostSelectorReason is used when spec.hostSelector cannot be understood.
	InvalidHostSelectorReason = "InvalidHostSelector"

	// InvalidSpecReason is used when the spec asks for something that cannot be done.
	InvalidSpecReason = "InvalidSpec"

	// HostAssociatedReason is used when the machine has claimed a host.
	HostAssociatedReason = "AssociateBareMetalHostSuccess"

	// HostAssociatedViaNodeReuseReason is used when the machine has claimed a host that was reserved for it.
	HostAssociatedViaNodeReuseReason = "AssociateBareMetalHostViaNodeReuseSuccess"

	// HostLostReason is used when the host that the machine had claimed does not exist or has another consumer.
	HostLostReason = "BareMetalHostLost"

	// HostReleasedReason is used when the machine has released its host.
	HostReleasedReason = "BareMetalHostReleased"
)

// Reasons of Metal3DataReady.
const (
	// DataExternalReason is used when no data template is set.
	DataExternalReason = "SecretsSetExternally"

	// WaitingForDataReason is used until the Metal3Data is rendered.
	WaitingForDataReason = "WaitingForMetal3Data"

	// DataReadyReason is used when the rendered Secrets exist.
	DataReadyReason = "Metal3DataSecretsReady"

	// DataFailedReason is used when rendering failed, and when the Metal3DataClaim cannot be written.
	DataFailedReason = "AssociateMetal3MachineMetaDataFailed"
)

// Reasons of Metal3DataTemplates, Metal3DataClaims and Metal3Data.
const (
	// TemplateReadyReason is used by a Metal3DataTemplate that can be used. The message names entries without effect.
	TemplateReadyReason = "TemplateReady"

	// TemplateInUseReason is used while the deletion of a Metal3DataTemplate waits for Metal3Data and Metal3DataClaims.
	TemplateInUseReason = "TemplateInUse"

	// TemplateReleasedReason is used when no object uses a Metal3DataTemplate that is being deleted.
	TemplateReleasedReason = "TemplateReleased"

	// TemplateMissingReason is used when the Metal3DataTemplate does not exist.
	TemplateMissingReason = "Metal3DataTemplateMissing"

	// TemplateDeletingReason is used by a Metal3DataClaim whose Metal3DataTemplate is being deleted.
	TemplateDeletingReason = "Metal3DataTemplateDeleting"

	// InvalidClaimReason is used by a Metal3DataClaim without template or without Metal3Machine.
	InvalidClaimReason = "InvalidClaim"

	// IndexAllocatedReason is used by a Metal3DataClaim that has an index and a Metal3Data.
	IndexAllocatedReason = "IndexAllocated"

	// AllocationFailedReason is used when the Metal3Data of a claim cannot be created. The message is the error.
	AllocationFailedReason = "IndexAllocationFailed"

	// WaitingForMachineReleaseReason is used while the deletion of a claim waits for its Metal3Machine.
	WaitingForMachineReleaseReason = "WaitingForMetal3MachineRelease"

	// ClaimReleasedReason is used when the Metal3Data of a claim that is being deleted is deleted too.
	ClaimReleasedReason = "ClaimReleased"

	// WaitingForClaimReason is used by a Metal3Data until its Metal3DataClaim exists. During a deletion it is used until
	// that claim is deleted.
	WaitingForClaimReason = "WaitingForMetal3DataClaim"

	// WaitingForAddressReason is used until the address manager gives all addresses.
	WaitingForAddressReason = "WaitingForIPAddress"

	// AddressFailedReason is used when the address manager cannot give an address, and when a claim of an address cannot
	// be written.
	AddressFailedReason = "IPAddressFailed"

	// AddressManagerMissingReason is used while the API of an address manager is not installed.
	AddressManagerMissingReason = "IPAddressManagerMissing"

	// PoolMissingReason is used while a pool does not exist.
	PoolMissingReason = "IPPoolMissing"

	// AddressConflictReason is used while another object has the claim of an address that is required.
	AddressConflictReason = "IPClaimConflict"

	// AddressesReadyReason is used when the pools gave all addresses.
	AddressesReadyReason = "IPAddressesReady"

	// AddressesReleasedReason is used when the addresses of a Metal3Data that is being deleted are released.
	AddressesReleasedReason = "IPAddressesReleased"

	// RenderingFailedReason is used when the template cannot be rendered for a machine. The message names fields, values
	// and remedies.
	RenderingFailedReason = "RenderingFailed"

	// SecretConflictReason is used while another object has the Secret that is to hold rendered data.
	SecretConflictReason = "SecretConflict"

	// SecretsReadyReason is used when the Secrets exist.
	SecretsReadyReason = "SecretsReady"

	// SecretsFailedReason is used when a Secret cannot be written. The message is the error.
	SecretsFailedReason = "SecretsFailed"
)

// Reasons of BareMetalHostProvisioned.
const (
	// WaitingForHostReason is used until a host is claimed and its data is ready.
	WaitingForHostReason = "WaitingForBareMetalHost"

	// HostProvisioningReason is used while BMO provisions the host.
	HostProvisioningReason = "BareMetalHostProvisioning"

	// HostErrorReason is used when BMO reports an error, and for a claimed host that is being deleted. The message quotes
	// the error. The condition stays true if the host is provisioned.
	HostErrorReason = "BareMetalHostError"

	// HostProvisionedReason is used when the host runs its image.
	HostProvisionedReason = "BareMetalHostProvisioned"

	// ProvisioningFailedReason is used when the BareMetalHost cannot be written. The message is the error.
	ProvisioningFailedReason = "BareMetalHostProvisioningFailed"

	// HostDeprovisioningReason is used while a released host is wiped.
	HostDeprovisioningReason = "BareMetalHostDeprovisioning"
)

// Reasons of NodeLinked.
const (
	// WaitingForHostProvisionedReason is used until the host runs its image.
	WaitingForHostProvisionedReason = "WaitingForBareMetalHostProvisioned"

	// WaitingForNodeReason is used until the node of the machine is found.
	WaitingForNodeReason = "WaitingForNode"

	// WaitingForCloudProviderReason is used until the cloud provider gives the node the provider ID.
	WaitingForCloudProviderReason = "WaitingForCloudProvider"

	// WorkloadClusterUnreachableReason is used while the API server of the cluster does not answer.
	WorkloadClusterUnreachableReason = "WorkloadClusterUnreachable"

	// ProviderIDConflictReason is used when two nodes or two machines carry the provider ID, or the node carries another
	// one.
	ProviderIDConflictReason = "ProviderIDConflict"

	// LinkFailedReason is used when the Node cannot be read or written, or the machine cannot publish its provider ID. The
	// message is the error.
	LinkFailedReason = "NodeLinkFailed"

	// NodeLinkedReason is used when the node carries the provider ID.
	NodeLinkedReason = "NodeLinked"
)

// Reasons of NodeLabelsSynced, besides WaitingForNode and WorkloadClusterUnreachable.
const (
	// InvalidLabelPrefixReason is used when the annotation lists what cannot be the prefix of a label. No label is copied.
	InvalidLabelPrefixReason = "InvalidLabelPrefix"

	// LabelSyncFailedReason is used when the Node cannot be read or written. The message is the error.
	LabelSyncFailedReason = "NodeLabelSyncFailed"

	// NodeLabelsSyncedReason is used when the Node has the labels of the host.
	NodeLabelsSyncedReason = "NodeLabelsSynced"
)

// Reasons of a Metal3MachineTemplate.
const (
	// CapacityKnownReason is used when the capacity of the hosts is known.
	CapacityKnownReason = "CapacityKnown"

	// CapacityUnknownReason is used when no host matches the selector or none was inspected.
	CapacityUnknownReason = "CapacityUnknown"

	// CleaningModeFailedReason is used when automatedCleaningMode cannot be copied to a Metal3Machine. The message is the
	// error.
	CleaningModeFailedReason = "CleaningModeSyncFailed"
)

// Reasons of IronicEndpointReady, IronicEndpointUnique, ReadyForMove and MoveInProgress.
const (
	// EndpointFailedReason is used when a step of the care for the endpoint fails. The message is the error.
	EndpointFailedReason = "IronicEndpointFailed"

	// MoveFailedReason is used when a step before a move fails. The message is the error.
	MoveFailedReason = "PrepareMoveFailed"

	// EndpointAnswersReason is used when this cluster's Ironic answers.
	EndpointAnswersReason = "EndpointAnswers"

	// EndpointUnreachableReason is used when nobody answers.
	EndpointUnreachableReason = "EndpointUnreachable"

	// EndpointForeignReason is used when another cluster's Ironic answers.
	EndpointForeignReason = "EndpointForeign"

	// ManagedElsewhereReason is used when another management cluster has claimed the cluster: after a move, the Cluster
	// was unpaused on both sides. This side keeps its hosts paused.
	ManagedElsewhereReason = "ManagedElsewhere"

	// EndpointStartingReason is used when an Ironic answers that has no conductor yet.
	EndpointStartingReason = "EndpointStarting"

	// EndpointUntrustedReason is used when the certificate of what answers is not the one of this cluster.
	EndpointUntrustedReason = "EndpointUntrusted"

	// EndpointUnauthorizedReason is used when what answers refuses the credentials of this cluster.
	EndpointUnauthorizedReason = "EndpointUnauthorized"

	// EndpointBrokenReason is used when what answers does not behave like Ironic.
	EndpointBrokenReason = "EndpointBroken"

	// EndpointUnsupportedReason is used when the Ironic that answers is too old.
	EndpointUnsupportedReason = "EndpointUnsupported"

	// IronicSecretInvalidReason is used when a Secret with credentials or certificates of the endpoint cannot be used.
	IronicSecretInvalidReason = "IronicSecretInvalid"

	// EndpointUniqueReason is used when nobody else uses the addresses or the virtual router ID of the endpoint.
	EndpointUniqueReason = "EndpointUnique"

	// VirtualIPTakenReason is used when a cluster, a Metal3Machine or a host has a virtual address for something else.
	// The message names each and its remedy.
	VirtualIPTakenReason = "VirtualIPTaken"

	// VirtualRouterIDTakenReason is used when another cluster on the network has the virtual router ID.
	VirtualRouterIDTakenReason = "VirtualRouterIDTaken"

	// ReadyForMoveReason is used when a move would go through.
	ReadyForMoveReason = "ReadyForMove"

	// NotReadyForMoveReason is used while something is in the way of a move.
	NotReadyForMoveReason = "NotReadyForMove"

	// WaitingForHostsReason is used while a move waits for hosts that are not quiet and paused yet.
	WaitingForHostsReason = "WaitingForHosts"

	// NoMoveReason is used while no move is under way.
	NoMoveReason = "NoMove"

	// ParkingHostsReason is used while clusterctl waits until the hosts of a paused Cluster are parked.
	ParkingHostsReason = "ParkingHosts"

	// ResumingHostsReason is used while the Cluster runs, and hosts are still paused for the move.
	ResumingHostsReason = "ResumingHosts"

	// HostsFencedReason is used while hosts are paused because another management cluster manages them.
	HostsFencedReason = "HostsFenced"

	// MovableReason is used when a paused Cluster may be moved: all hosts are quiet and paused.
	MovableReason = "HostsPaused"

	// NotYetObservedReason is used until the endpoint was looked at.
	NotYetObservedReason = "NotYetObserved"
)
