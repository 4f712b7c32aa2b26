package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RemediationType is the type of a remediation.
// +kubebuilder:validation:Enum=Reboot
type RemediationType string

// RebootRemediation powers the host off and on again.
const RebootRemediation RemediationType = "Reboot"

// RemediationPhase is the phase of a remediation.
// +kubebuilder:validation:Enum=Running;Waiting;Deleting machine;Failed
type RemediationPhase string

// Phases of a remediation.
const (
	// RemediationRunning means that the host is being powered off.
	RemediationRunning RemediationPhase = "Running"

	// RemediationWaiting means that the host is powered on and its Machine is not healthy yet.
	RemediationWaiting RemediationPhase = "Waiting"

	// RemediationDeletingMachine means that no retries are left and the owner of the Machine replaces it.
	RemediationDeletingMachine RemediationPhase = "Deleting machine"

	// RemediationFailed means that the host cannot be remediated.
	RemediationFailed RemediationPhase = "Failed"
)

// Defaults and limits of a RemediationStrategy.
const (
	// DefaultRemediationTimeoutSeconds is used when a strategy sets no timeout.
	DefaultRemediationTimeoutSeconds int32 = 600

	// MinRemediationTimeoutSeconds is the shortest timeout, because a host takes this time to boot.
	MinRemediationTimeoutSeconds int32 = 100

	// DefaultRemediationRetryLimit is used when a strategy sets no limit.
	DefaultRemediationRetryLimit int32 = 1
)

// RemediationStrategy configures a remediation.
type RemediationStrategy struct {
	// type of the remediation. Reboot is the only type.
	// +optional
	Type RemediationType `json:"type,omitempty"`

	// retryLimit is the number of tries after the first one while the machine is unhealthy, at least 1. The host is
	// rebooted up to retryLimit + 1 times. Defaults to 1.
	// +optional
	RetryLimit int32 `json:"retryLimit,omitempty"`

	// timeoutSeconds is the time in seconds in which a try must make the machine healthy, at least 100. Defaults to 600.
	// Zero means the default.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// Metal3RemediationSpec is the desired state of a Metal3Remediation.
type Metal3RemediationSpec struct {
	// strategy of the remediation.
	// +optional
	Strategy *RemediationStrategy `json:"strategy,omitempty"`
}

// Metal3RemediationStatus is the observed state of a Metal3Remediation.
type Metal3RemediationStatus struct {
	// conditions of the remediation: Ready, BareMetalHostRebooted, NodeRestored, Deleting and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// phase of the remediation.
	// +optional
	Phase RemediationPhase `json:"phase,omitempty"`

	// retryCount is the number of tries after the first one.
	// +optional
	RetryCount int32 `json:"retryCount,omitempty"`

	// lastRemediated is the time at which the last try began.
	// +optional
	LastRemediated *metav1.Time `json:"lastRemediated,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3remediations,scope=Namespaced,categories=cluster-api,shortName=m3r;m3remediation
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.metadata.ownerReferences[?(@.kind=="Machine")].name`,description="Machine that is remediated"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Phase of the remediation"
// +kubebuilder:printcolumn:name="Retry count",type=string,JSONPath=`.status.retryCount`,description="Tries after the first one"
// +kubebuilder:printcolumn:name="Retry limit",type=string,JSONPath=`.spec.strategy.retryLimit`,description="Maximum number of tries after the first one"
// +kubebuilder:printcolumn:name="Last Remediated",type=string,JSONPath=`.status.lastRemediated`,description="When the last try began"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the object is ready"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="Strategy",type=string,JSONPath=`.spec.strategy.type`,priority=10,description="Type of the remediation"
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10,description="Whether reconciliation is paused"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Metal3Remediation requests the remediation of the host of one Machine.
type Metal3Remediation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec Metal3RemediationSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status Metal3RemediationStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the status.
func (r *Metal3Remediation) GetConditions() []metav1.Condition { return r.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (r *Metal3Remediation) SetConditions(conditions []metav1.Condition) {
	r.Status.Conditions = conditions
}

// +kubebuilder:object:root=true

// Metal3RemediationList is a list of Metal3Remediations.
type Metal3RemediationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Metal3Remediation `json:"items"`
}
