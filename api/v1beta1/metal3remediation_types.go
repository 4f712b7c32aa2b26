package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RemediationStrategy configures a remediation.
type RemediationStrategy struct {
	// type of the remediation. Reboot is the only type.
	// +optional
	Type string `json:"type,omitempty"`

	// retryLimit is the number of tries after the first one while the machine is unhealthy.
	// +optional
	RetryLimit int `json:"retryLimit,omitempty"`

	// timeout is the time in which a try must make the machine healthy.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// timeoutSeconds is the timeout in seconds, as in v1beta2. It takes precedence over timeout. The documentation of
	// CAPM3 uses this field in v1beta1 too.
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
	// phase of the remediation.
	// +optional
	Phase string `json:"phase,omitempty"`

	// retryCount is the number of tries after the first one.
	// +optional
	RetryCount int `json:"retryCount,omitempty"`

	// lastRemediated is the time at which the last try began.
	// +optional
	LastRemediated *metav1.Time `json:"lastRemediated,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 Metal3Remediation is deprecated; use infrastructure.cluster.x-k8s.io/v1beta2 Metal3Remediation"
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3remediations,scope=Namespaced,categories=cluster-api,shortName=m3r;m3remediation
// +kubebuilder:printcolumn:name="Retry limit",type=string,JSONPath=`.spec.strategy.retryLimit`,description="Maximum number of tries after the first one"
// +kubebuilder:printcolumn:name="Retry count",type=string,JSONPath=`.status.retryCount`,description="Tries after the first one"
// +kubebuilder:printcolumn:name="Last Remediated",type=string,JSONPath=`.status.lastRemediated`,description="When the last try began"
// +kubebuilder:printcolumn:name="Strategy",type=string,JSONPath=`.spec.strategy.type`,description="Type of the remediation"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Phase of the remediation"

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

// +kubebuilder:object:root=true

// Metal3RemediationList is a list of Metal3Remediations.
type Metal3RemediationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Metal3Remediation `json:"items"`
}
