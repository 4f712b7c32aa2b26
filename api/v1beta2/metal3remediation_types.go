package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RemediationType is a way to remediate.
// +kubebuilder:validation:Enum=Reboot
type RemediationType string

// RebootRemediation powers the host off and on again.
const RebootRemediation RemediationType = "Reboot"

// RemediationPhase is how far a remediation got.
// +kubebuilder:validation:Enum=Running;Waiting;Deleting machine;Failed
type RemediationPhase string

// Phases of a remediation.
const (
	// RemediationRunning means that the host is being powered off.
	RemediationRunning RemediationPhase = "Running"

	// RemediationWaiting means that the host is powered on and its node has not come back yet.
	RemediationWaiting RemediationPhase = "Waiting"

	// RemediationDeletingMachine means that the retries are used up and the machine is to be replaced.
	RemediationDeletingMachine RemediationPhase = "Deleting machine"

	// RemediationFailed means that the host cannot be remediated.
	RemediationFailed RemediationPhase = "Failed"
)

// Defaults and limits of a RemediationStrategy.
const (
	// DefaultRemediationTimeoutSeconds is used when a strategy sets no timeout.
	DefaultRemediationTimeoutSeconds int32 = 600

	// MinRemediationTimeoutSeconds is the shortest timeout: a host needs that long to boot.
	MinRemediationTimeoutSeconds int32 = 100

	// DefaultRemediationRetryLimit is used when a strategy sets no limit.
	DefaultRemediationRetryLimit int32 = 1
)

// RemediationStrategy says how to remediate.
type RemediationStrategy struct {
	// type of the remediation. Reboot is the only one.
	// +optional
	Type RemediationType `json:"type,omitempty"`

	// retryLimit is how often a try that left the machine unhealthy is repeated. At least 1; defaults to 1. With the
	// first try, the host is rebooted up to retryLimit + 1 times.
	// +optional
	RetryLimit int32 `json:"retryLimit,omitempty"`

	// timeoutSeconds is how long a try may take, in seconds, until the machine is healthy. At least 100; defaults to
	// 600. Zero means the default.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// Metal3RemediationSpec asks for the remediation of the host of one machine.
type Metal3RemediationSpec struct {
	// strategy of the remediation.
	// +optional
	Strategy *RemediationStrategy `json:"strategy,omitempty"`
}

// Metal3RemediationStatus is what the provider observed.
type Metal3RemediationStatus struct {
	// conditions of the remediation: Ready, BareMetalHostRebooted, NodeRestored, Deleting and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// phase is how far the remediation got.
	// +optional
	Phase RemediationPhase `json:"phase,omitempty"`

	// retryCount is the number of tries after the first one.
	// +optional
	RetryCount int32 `json:"retryCount,omitempty"`

	// lastRemediated is when the last try began.
	// +optional
	LastRemediated *metav1.Time `json:"lastRemediated,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3remediations,scope=Namespaced,categories=cluster-api,shortName=m3r;m3remediation
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.metadata.ownerReferences[?(@.kind=="Machine")].name`,description="Machine that is remediated"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="How far the remediation got"
// +kubebuilder:printcolumn:name="Retry count",type=string,JSONPath=`.status.retryCount`,description="Tries after the first one"
// +kubebuilder:printcolumn:name="Retry limit",type=string,JSONPath=`.spec.strategy.retryLimit`,description="How often a try is repeated"
// +kubebuilder:printcolumn:name="Last Remediated",type=string,JSONPath=`.status.lastRemediated`,description="When the last try began"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all is well"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is not ready"
// +kubebuilder:printcolumn:name="Strategy",type=string,JSONPath=`.spec.strategy.type`,priority=10,description="Type of the remediation"
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10,description="Whether reconciliation is paused"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Metal3Remediation asks for the remediation of the host of one machine.
type Metal3Remediation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is asked for.
	// +optional
	Spec Metal3RemediationSpec `json:"spec,omitempty,omitzero"`

	// status is what the provider observed.
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
