package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RemediationStrategy says how to remediate.
type RemediationStrategy struct {
	// type of the remediation. Reboot is the only one.
	// +optional
	Type string `json:"type,omitempty"`

	// retryLimit is how often a try that left the machine unhealthy is repeated.
	// +optional
	RetryLimit int `json:"retryLimit,omitempty"`

	// timeout is how long to wait for the node before the next try.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// timeoutSeconds is the same in seconds, as v1beta2 has it. CAPM3's documentation uses it in this version too. It
	// wins over timeout.
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
	// phase is how far the remediation got.
	// +optional
	Phase string `json:"phase,omitempty"`

	// retryCount is the number of tries after the first one.
	// +optional
	RetryCount int `json:"retryCount,omitempty"`

	// lastRemediated is when the last try began.
	// +optional
	LastRemediated *metav1.Time `json:"lastRemediated,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 Metal3Remediation is deprecated; use infrastructure.cluster.x-k8s.io/v1beta2 Metal3Remediation"
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3remediations,scope=Namespaced,categories=cluster-api,shortName=m3r;m3remediation
// +kubebuilder:printcolumn:name="Retry limit",type=string,JSONPath=`.spec.strategy.retryLimit`,description="How often a try is repeated"
// +kubebuilder:printcolumn:name="Retry count",type=string,JSONPath=`.status.retryCount`,description="Tries after the first one"
// +kubebuilder:printcolumn:name="Last Remediated",type=string,JSONPath=`.status.lastRemediated`,description="When the last try began"
// +kubebuilder:printcolumn:name="Strategy",type=string,JSONPath=`.spec.strategy.type`,description="Type of the remediation"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="How far the remediation got"

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

// +kubebuilder:object:root=true

// Metal3RemediationList is a list of Metal3Remediations.
type Metal3RemediationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Metal3Remediation `json:"items"`
}
