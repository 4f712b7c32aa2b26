package v1beta2

// Condition types of a Metal3Remediation.
const (
	// HostRebootedCondition is true if the host was rebooted in this try.
	HostRebootedCondition = "BareMetalHostRebooted"

	// NodeRestoredCondition is true if the Node of the rebooted host has its annotations, labels and taints again.
	NodeRestoredCondition = "NodeRestored"
)

// Reasons of a Metal3Remediation.
const (
	// InvalidStrategyReason is used when spec.strategy is invalid.
	InvalidStrategyReason = "InvalidStrategy"

	// MachineMissingReason is used when no existing Machine owns the Metal3Remediation.
	MachineMissingReason = "MachineMissing"

	// MachineDeletingReason is used when the Machine is being deleted. Its host is not rebooted.
	MachineDeletingReason = "MachineDeleting"

	// Metal3MachineMissingReason is used when the Metal3Machine of the Machine does not exist.
	Metal3MachineMissingReason = "Metal3MachineMissing"

	// HostMissingReason is used when the Metal3Machine has no BareMetalHost.
	HostMissingReason = "BareMetalHostMissing"

	// HostOfflineReason is used when spec.online of the BareMetalHost is false.
	HostOfflineReason = "BareMetalHostOffline"

	// HostWithheldReason is used while BMO does not act on the BareMetalHost because it is paused or detached.
	HostWithheldReason = "BareMetalHostWithheld"

	// HostNotReportedReason is used until BMO reports a state of the BareMetalHost, for example after its object was
	// moved or restored without its status.
	HostNotReportedReason = "BareMetalHostNotReported"

	// HealthCheckReportMissingReason is used when the Machine has lost the report of its MachineHealthCheck. The
	// Metal3Remediation is deleted, so that the MachineHealthCheck creates it again.
	HealthCheckReportMissingReason = "HealthCheckReportMissing"

	// ManagementClusterAtRiskReason is used while the reboot of a node would stop the management cluster.
	ManagementClusterAtRiskReason = "ManagementClusterAtRisk"

	// IronicEndpointAtRiskReason is used while the reboot of a node would stop the Ironic endpoint.
	IronicEndpointAtRiskReason = "IronicEndpointAtRisk"

	// HostNotProvisionedReason is used in a try that began before the BareMetalHost was provisioned: a reboot would not
	// help. After the last try, the Machine is replaced.
	HostNotProvisionedReason = "BareMetalHostNotProvisioned"

	// PoweringOffReason is used until the BareMetalHost is powered off, or restarted if it has disablePowerOff.
	PoweringOffReason = "PoweringOff"

	// FencingNodeReason is used until pods and volumes have left the Node of the powered-off host.
	FencingNodeReason = "FencingNode"

	// PoweringOnReason is used until the BareMetalHost is powered on again.
	PoweringOnReason = "PoweringOn"

	// RebootFailedReason is used when a step of the reboot fails. The message is the error.
	RebootFailedReason = "RebootFailed"

	// RetriesExhaustedReason is used when the Machine is unhealthy after the last try. Its owner replaces it.
	RetriesExhaustedReason = "RetriesExhausted"

	// HostRebootedReason is used when the BareMetalHost is powered on again.
	HostRebootedReason = "BareMetalHostRebooted"

	// WaitingForRebootReason is used by NodeRestored until the BareMetalHost is powered on again.
	WaitingForRebootReason = "WaitingForReboot"

	// RestoreFailedReason is used when the Node cannot be read or restored. The message is the error.
	RestoreFailedReason = "NodeRestoreFailed"

	// NodeRestoredReason is used when the Node has its annotations, labels and taints again.
	NodeRestoredReason = "NodeRestored"

	// RemediationUndoneReason is used when a deleted Metal3Remediation has removed its fence and powered the host on.
	RemediationUndoneReason = "RemediationUndone"
)
