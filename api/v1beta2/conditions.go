package v1beta2

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Condition types of all kinds. Ready, Deleting and Paused are those of Cluster API.
const (
	// ReadyCondition summarizes the other conditions. A pause does not change it.
	ReadyCondition = clusterv1.ReadyCondition

	// DeletingCondition reports the progress of a deletion. It is true while the object is being deleted.
	DeletingCondition = clusterv1.DeletingCondition

	// PausedCondition is true if the object or its Cluster is paused.
	PausedCondition = clusterv1.PausedCondition
)

// Condition types of a Metal3Cluster.
const (
	// InfrastructureReadyCondition is true if the cluster has a control-plane endpoint.
	InfrastructureReadyCondition = "BaremetalInfrastructureReady"

	// IronicEndpointReadyCondition is true if the Ironic of this cluster answers on the endpoint of spec.ironic. It exists
	// only if spec.ironic is set.
	IronicEndpointReadyCondition = "IronicEndpointReady"

	// IronicEndpointUniqueCondition is true if no other object of the management cluster uses the virtual IPs or the
	// virtual router ID of spec.ironic. It exists only if spec.ironic is set.
	IronicEndpointUniqueCondition = "IronicEndpointUnique"

	// ReadyForMoveCondition is true if clusterctl move would succeed now without a loss. The message contains each
	// obstacle and its remedy. While the Cluster is paused, it lists the hosts that the move waits for.
	ReadyForMoveCondition = "ReadyForMove"

	// MoveInProgressCondition is true during a move. The reason is the stage, and the message has the number of hosts in
	// each phase.
	MoveInProgressCondition = "MoveInProgress"
)

// Condition types of a Metal3Machine.
const (
	// HostAssociatedCondition is true if the machine has claimed a host.
	HostAssociatedCondition = "AssociateBareMetalHost"

	// DataReadyCondition is true if meta-data and network-data are ready.
	DataReadyCondition = "Metal3DataReady"

	// AddressesReadyCondition is true if a Metal3Data has all addresses of its template.
	AddressesReadyCondition = "IPAddressesReady"

	// SecretsReadyCondition is true if the Secrets of a Metal3Data exist.
	SecretsReadyCondition = "SecretsReady"

	// DataAssociatedCondition repeats DataReadyCondition under a second name of CAPM3.
	DataAssociatedCondition = "AssociateMetal3MachineMetaData"

	// HostProvisionedCondition is true if the host is provisioned. The message contains the error of the host.
	HostProvisionedCondition = "BareMetalHostProvisioned"

	// NodeLinkedCondition is true if the Node of the machine has the provider ID.
	NodeLinkedCondition = "NodeLinked"

	// NodeLabelsSyncedCondition is true if the Node of the machine has the labels of its host with the prefixes in
	// LabelSyncPrefixesAnnotation of the Metal3Cluster. It exists only with that annotation. Ready does not include it.
	NodeLabelsSyncedCondition = "NodeLabelsSynced"
)

// Reasons of all kinds.
const (
	// ReadyReason is used when no condition is false.
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
	// WaitingForClusterReason is used until the Metal3Cluster has an ownerReference of the Cluster.
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
	// WaitingForMachineReason is used until the Metal3Machine has an ownerReference of the Machine.
	WaitingForMachineReason = "WaitingForMetal3MachineOwnerRef"

	// WaitingForInfrastructureReason is used until the infrastructure of the Cluster is provisioned.
	WaitingForInfrastructureReason = clusterv1.WaitingForClusterInfrastructureReadyReason

	// WaitingForMetal3ClusterReason is used until the Metal3Cluster exists. CAPM3 uses the same spelling.
	WaitingForMetal3ClusterReason = "WaitingforMetal3Cluster"

	// WaitingForBootstrapDataReason is used until the Machine has bootstrap data.
	WaitingForBootstrapDataReason = clusterv1.WaitingForBootstrapDataReason

	// BootstrapDataInvalidReason is used when the bootstrap data Secret lacks the key value, or when the files of the
	// Ironic endpoint cannot be injected into it.
	BootstrapDataInvalidReason = "BootstrapDataInvalid"

	// WaitingForIronicSecretReason is used by a control-plane machine until the Secret with the credentials and
	// certificates of the Ironic endpoint is complete, and by a Metal3Cluster until the Secrets of spec.ironic exist.
	WaitingForIronicSecretReason = "WaitingForIronicSecret"

	// IronicEndpointInvalidReason is used when spec.ironic of the Metal3Cluster cannot be rendered.
	IronicEndpointInvalidReason = "IronicEndpointInvalid"

	// AssociationFailedReason is used when a step of the claim of a host fails or is refused. The message has the error.
	AssociationFailedReason = "AssociateBareMetalHostFailed"

	// NoHostAvailableReason is used when no host can be claimed. The message counts the hosts per reason.
	NoHostAvailableReason = "NoHostAvailable"

	// InvalidHostSelectorReason is used when spec.hostSelector is invalid.
	InvalidHostSelectorReason = "InvalidHostSelector"

	// InvalidSpecReason is used when the spec is invalid.
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

	// DataSecretMissingReason is used until the Secrets in the spec of the machine exist. It claims no host before.
	DataSecretMissingReason = "SecretMissing"

	// DataReadyReason is used when the rendered Secrets exist.
	DataReadyReason = "Metal3DataSecretsReady"

	// DataFailedReason is used when rendering failed, and when the Metal3DataClaim cannot be written.
	DataFailedReason = "AssociateMetal3MachineMetaDataFailed"
)

// Reasons of Metal3DataTemplates, Metal3DataClaims and Metal3Data.
const (
	// TemplateReadyReason is used by a valid Metal3DataTemplate. The message lists entries without effect.
	TemplateReadyReason = "TemplateReady"

	// TemplateInUseReason is used while the deletion of a Metal3DataTemplate waits for Metal3Data and Metal3DataClaims.
	TemplateInUseReason = "TemplateInUse"

	// TemplateReleasedReason is used when no object uses a Metal3DataTemplate that is being deleted.
	TemplateReleasedReason = "TemplateReleased"

	// TemplateMissingReason is used when the Metal3DataTemplate does not exist.
	TemplateMissingReason = "Metal3DataTemplateMissing"

	// InvalidClaimReason is used by a Metal3DataClaim without a template or a Metal3Machine.
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

	// WaitingForAddressReason is used until the address manager has allocated all addresses.
	WaitingForAddressReason = "WaitingForIPAddress"

	// AddressFailedReason is used when the address manager cannot allocate an address, and when a claim of an address
	// cannot be written.
	AddressFailedReason = "IPAddressFailed"

	// AddressManagerMissingReason is used while the API of an address manager is not installed.
	AddressManagerMissingReason = "IPAddressManagerMissing"

	// ClaimsNotListedReason is used while the manager cannot list the claims of an address manager.
	ClaimsNotListedReason = "IPClaimsNotListed"

	// PoolMissingReason is used while a pool does not exist.
	PoolMissingReason = "IPPoolMissing"

	// AddressConflictReason is used while the Metal3Data does not own a claim, or a claim has an address of another pool.
	AddressConflictReason = "IPClaimConflict"

	// AddressesReadyReason is used when all addresses are allocated.
	AddressesReadyReason = "IPAddressesReady"

	// AddressesReleasedReason is used when the addresses of a Metal3Data that is being deleted are released.
	AddressesReleasedReason = "IPAddressesReleased"

	// RenderingFailedReason is used when the template cannot be rendered for a machine. The message contains fields,
	// values and remedies.
	RenderingFailedReason = "RenderingFailed"

	// SecretConflictReason is used while another object owns the Secret for the rendered data.
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

	// HostErrorReason is used when BMO reports an error, and for a claimed host that is being deleted. The message
	// contains the error. The condition stays true if the host is provisioned.
	HostErrorReason = "BareMetalHostError"

	// HostProvisionedReason is used when the host is provisioned.
	HostProvisionedReason = "BareMetalHostProvisioned"

	// ProvisioningFailedReason is used when the BareMetalHost cannot be written. The message is the error. The condition
	// is true if only ownerReferences of the host cannot be removed.
	ProvisioningFailedReason = "BareMetalHostProvisioningFailed"

	// HostDeprovisioningReason is used while a released host is wiped.
	HostDeprovisioningReason = "BareMetalHostDeprovisioning"

	// HostHeldReason is used when a machine is deleted while the provider keeps its host paused: BMO would act on the host
	// through an Ironic that is not the one of the cluster, or would wipe a host of another management cluster.
	HostHeldReason = "BareMetalHostHeld"
)

// Reasons of NodeLinked.
const (
	// WaitingForHostProvisionedReason is used until the host is provisioned.
	WaitingForHostProvisionedReason = "WaitingForBareMetalHostProvisioned"

	// WaitingForNodeReason is used until the Node of the machine exists.
	WaitingForNodeReason = "WaitingForNode"

	// WaitingForCloudProviderReason is used until the cloud provider sets the provider ID of the Node.
	WaitingForCloudProviderReason = "WaitingForCloudProvider"

	// WorkloadClusterUnreachableReason is used while the API server does not answer, or its kubeconfig is not usable.
	WorkloadClusterUnreachableReason = "WorkloadClusterUnreachable"

	// ProviderIDConflictReason is used when two Nodes or machines have the same provider ID, or the Node has another one.
	ProviderIDConflictReason = "ProviderIDConflict"

	// LinkFailedReason is used when the Node cannot be read or written, or spec.providerID cannot be written. The message
	// is the error.
	LinkFailedReason = "NodeLinkFailed"

	// NodeLinkedReason is used when the Node has the provider ID.
	NodeLinkedReason = "NodeLinked"
)

// Reasons of NodeLabelsSynced, besides WaitingForNode and WorkloadClusterUnreachable.
const (
	// InvalidLabelPrefixReason is used when the annotation lists an invalid prefix. No label is copied.
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

	// CleaningModeFailedReason is used when a Metal3Machine cannot get automatedCleaningMode. The message is the error.
	CleaningModeFailedReason = "CleaningModeSyncFailed"
)
