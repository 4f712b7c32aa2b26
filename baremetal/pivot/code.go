package pivot

import "slices"

// Code identifies the kind of an obstacle in the machine-readable output of the plugin.
type Code string

// Values of Code. Codes describes them.
const (
	CodeBeingDeleted        Code = "BeingDeleted"
	CodeClusterMissing      Code = "ClusterMissing"
	CodeClusterLate         Code = "ClusterLate"
	CodeClusterRuns         Code = "ClusterRuns"
	CodeConsumerMissing     Code = "ConsumerMissing"
	CodeControlPlaneScaling Code = "ControlPlaneScaling"
	CodeDefinitionDiffers   Code = "DefinitionDiffers"
	CodeDefinitionMissing   Code = "DefinitionMissing"
	CodeDefinitionOutdated  Code = "DefinitionOutdated"
	CodeEndpointNotReady    Code = "EndpointNotReady"
	CodeEndpointTaken       Code = "EndpointTaken"
	CodeGateMissing         Code = "GateMissing"
	CodeHostBusy            Code = "HostBusy"
	CodeHostLate            Code = "HostLate"
	CodeHostLost            Code = "HostLost"
	CodeHostParking         Code = "HostParking"
	CodeHostPaused          Code = "HostPaused"
	CodeNotProvisioned      Code = "InfrastructureNotProvisioned"
	CodeInTarget            Code = "InTarget"
	CodeIronicDiffers       Code = "IronicDiffers"
	CodeIronicStillNeeded   Code = "IronicStillNeeded"
	CodeIronicUnknown       Code = "IronicUnknown"
	CodeLeftover            Code = "Leftover"
	CodeLeftoverRuns        Code = "LeftoverRuns"
	CodeManagerDown         Code = "ManagerDown"
	CodeManagerNotReady     Code = "ManagerNotReady"
	CodeMoveBlocked         Code = "MoveBlocked"
	CodeMoveLabelMissing    Code = "MoveLabelMissing"
	CodeMoveUnclear         Code = "MoveUnclear"
	CodeNoEndpoint          Code = "NoEndpoint"
	CodeNodeMissing         Code = "NodeMissing"
	CodeNodeNotArmed        Code = "NodeNotArmed"
	CodeNodesUnknown        Code = "NodesUnknown"
	CodeNotDemoted          Code = "NotDemoted"
	CodeNothingToMove       Code = "NothingToMove"
	CodeNotInTarget         Code = "NotInTarget"
	CodeNotInitialized      Code = "ControlPlaneNotInitialized"
	CodeOperatorDown        Code = "OperatorDown"
	CodeOperatorMissing     Code = "OperatorMissing"
	CodeOwnerMissing        Code = "OwnerMissing"
	CodeOwnerStays          Code = "OwnerStays"
	CodePaused              Code = "Paused"
	CodePauseRefused        Code = "PauseRefused"
	CodePauseUntried        Code = "PauseUntried"
	CodePodsMissing         Code = "PodsMissing"
	CodePodsNotReady        Code = "PodsNotReady"
	CodePoolOpen            Code = "PoolOpen"
	CodeProviderMissing     Code = "ProviderMissing"
	CodeProviderOutdated    Code = "ProviderOutdated"
	CodeProviderUnreadable  Code = "ProviderUnreadable"
	CodeRemediationRunning  Code = "RemediationRunning"
	CodeSameCluster         Code = "SameCluster"
	CodeSecretStays         Code = "SecretStays"
	CodeSuperseded          Code = "Superseded"
	CodeTakeoverManual      Code = "TakeoverManual"
	CodeTargetOnly          Code = "TargetOnly"
	CodeUnreachable         Code = "Unreachable"
	CodeWouldOverwrite      Code = "WouldOverwrite"
	CodeWrongStage          Code = "WrongStage"
)

// Passes returns true for an obstacle that a controller or BMO ends without an administrator.
func (c Code) Passes() bool {
	switch c {
	case CodeBeingDeleted, CodeControlPlaneScaling, CodeGateMissing, CodeHostBusy, CodeHostParking, CodeManagerNotReady,
		CodeNodeMissing, CodeNotInitialized, CodeNotProvisioned, CodePauseUntried, CodeRemediationRunning:
		return true
	default:
		return false
	}
}

// Meaning is a code and its description.
type Meaning struct {
	Code  Code
	Means string
}

// Codes returns all codes in alphabetical order, for the documents.
func Codes() []Meaning { return slices.Clone(meanings) }

var meanings = []Meaning{
	{CodeBeingDeleted, "The object is being deleted. Its deletion does not move."},
	{CodeClusterLate, "The Cluster was created after clusterctl had discovered the objects. It would stay behind."},
	{CodeClusterMissing, "A host serves a Cluster that does not exist."},
	{CodeClusterRuns, "The Cluster is not paused in the source, so both sides would manage it or its hosts."},
	{CodeConsumerMissing, "A host is claimed by a Metal3Machine that does not exist."},
	{CodeNotInitialized, "The control plane of the Cluster is not initialized."},
	{CodeControlPlaneScaling, "The control plane has more or fewer replicas than required."},
	{CodeDefinitionDiffers, "A CustomResourceDefinition has another storage version in the target."},
	{CodeDefinitionMissing, "A CustomResourceDefinition is missing in the target."},
	{CodeDefinitionOutdated, "A CustomResourceDefinition lacks fields in the target that objects of the source use."},
	{CodeEndpointNotReady, "The Ironic endpoint does not answer, or another Ironic answers."},
	{CodeEndpointTaken, "A conflicting user has the VIP or the virtual router ID of the Ironic endpoint."},
	{CodeGateMissing, "The Metal3Cluster has no block-move annotation. clusterctl would not wait for its hosts."},
	{CodeHostBusy, "BMO is working on the host."},
	{CodeHostLate, "The host was created after clusterctl had discovered the objects. It would stay behind."},
	{CodeHostLost, "The Metal3Machine has lost its host."},
	{CodeHostParking, "The Cluster is paused, and the host is not parked yet."},
	{CodeHostPaused, "The host is still paused, or was paused during an operation of BMO."},
	{CodeInTarget, "The object is in the other cluster, which manages it."},
	{CodeNotProvisioned, "The infrastructure of the Cluster is not provisioned."},
	{CodeIronicDiffers, "BMO in the target uses another Ironic than BMO in the source, or than spec.ironic."},
	{CodeIronicStillNeeded, "The hosts still require the Ironic of the management cluster."},
	{CodeIronicUnknown, "The Ironic that BMO uses is not known."},
	{CodeLeftover, "The host is a leftover of an earlier move, or arrived on one."},
	{CodeLeftoverRuns, "BMO manages a host that the command would remove."},
	{CodeManagerDown, "The manager of this provider is not installed, or does not run."},
	{CodeManagerNotReady, "The manager has not judged the Metal3Cluster, or ReadyForMove is false."},
	{CodeMoveBlocked, "The host has a block-move annotation, which no controller removes."},
	{CodeMoveLabelMissing, "A CustomResourceDefinition lacks a label that clusterctl requires."},
	{CodeMoveUnclear, "The objects of source and target contradict one another."},
	{CodeNoEndpoint, "No Metal3Cluster has the Ironic endpoint that is to be handed over."},
	{CodeNodeMissing, "The Machine has no Node."},
	{CodeNodeNotArmed, "The node may not take the Ironic endpoint yet."},
	{CodeNodesUnknown, "The nodes of the control plane were not seen."},
	{CodeNotDemoted, "The Ironic of the management cluster was not scaled down by this command."},
	{CodeNotInTarget, "The object is not in the target, and would be lost."},
	{CodeNothingToMove, "The namespace has no Cluster of this provider."},
	{CodeOperatorDown, "BMO does not run."},
	{CodeOperatorMissing, "No Deployment of BMO that manages the namespace was found."},
	{CodeOwnerMissing, "The object has no owner. clusterctl would leave it behind."},
	{CodeOwnerStays, "The owner of the object does not move. clusterctl would leave the object behind."},
	{CodePauseRefused, "The API server refuses to pause the host."},
	{CodePauseUntried, "The manager has not tried yet whether hosts can be paused."},
	{CodePaused, "The object is paused."},
	{CodePodsMissing, "The node does not run the pods of the Ironic endpoint."},
	{CodePodsNotReady, "The pods of the Ironic endpoint on the node are not ready."},
	{CodePoolOpen, "An IPPool has no spec.clusterName. The address manager of the target does not wait for the move."},
	{CodeProviderMissing, "A provider of the source is not installed in the target."},
	{CodeProviderOutdated, "A provider is older in the target than in the source."},
	{CodeProviderUnreadable, "clusterctl cannot read the version of a provider."},
	{CodeRemediationRunning, "A Metal3Remediation has begun. Its try begins again in the target, with the host off."},
	{CodeSameCluster, "Source and target are one cluster."},
	{CodeSecretStays, "A Secret that an object names has neither owner nor move label."},
	{CodeSuperseded, "Another management cluster manages the Cluster."},
	{CodeTakeoverManual, "The endpoint has takeover Manual. Only the files on the nodes show whether they are armed."},
	{CodeTargetOnly, "The object is in the target only, as a leftover of an earlier move."},
	{CodeUnreachable, "The cluster did not answer in time."},
	{CodeWouldOverwrite, "Another object with this name is in the target."},
	{CodeWrongStage, "The command does not fit the progress of the move."},
}
