package v1beta1

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// ConvertMetal3RemediationToHub fills a v1beta2 Metal3Remediation from a v1beta1 one.
func ConvertMetal3RemediationToHub(_ context.Context, src *Metal3Remediation, dst *infrav1.Metal3Remediation) error {
	return metal3RemediationVersions(src.DeepCopy(), dst).toHub()
}

// ConvertMetal3RemediationFromHub fills a v1beta1 Metal3Remediation from a v1beta2 one.
func ConvertMetal3RemediationFromHub(_ context.Context, src *infrav1.Metal3Remediation, dst *Metal3Remediation) error {
	return metal3RemediationVersions(dst, src.DeepCopy()).toSpoke()
}

func metal3RemediationVersions(spoke *Metal3Remediation, hub *infrav1.Metal3Remediation) versions {
	return versions{
		spoke: spoke, hub: hub, spokeMeta: &spoke.ObjectMeta, hubMeta: &hub.ObjectMeta,
		parts: map[string]part{
			"spec":   newPart(&spoke.Spec, &hub.Spec, remediationSpecToHub, remediationSpecFromHub),
			"status": newPart(&spoke.Status, &hub.Status, remediationStatusToHub, remediationStatusFromHub),
		},
	}
}

func remediationSpecToHub(in Metal3RemediationSpec) infrav1.Metal3RemediationSpec {
	return infrav1.Metal3RemediationSpec{
		Strategy: convertOptional(in.Strategy, func(in RemediationStrategy) infrav1.RemediationStrategy {
			return infrav1.RemediationStrategy{
				// The type is kept even if it is unknown. Admission then refuses it.
				Type:           infrav1.RemediationType(in.Type),
				RetryLimit:     retryLimitToHub(in.RetryLimit),
				TimeoutSeconds: secondsToHub(in),
			}
		}),
	}
}

func remediationSpecFromHub(in infrav1.Metal3RemediationSpec) Metal3RemediationSpec {
	return Metal3RemediationSpec{
		Strategy: convertOptional(in.Strategy, func(in infrav1.RemediationStrategy) RemediationStrategy {
			return RemediationStrategy{
				Type:       string(in.Type),
				RetryLimit: int(in.RetryLimit),
				Timeout: convertOptional(in.TimeoutSeconds, func(seconds int32) metav1.Duration {
					return metav1.Duration{Duration: time.Duration(seconds) * time.Second}
				}),
			}
		}),
	}
}

// retryLimitToHub returns the default instead of a negative limit, as CAPM3 does in templates. A MachineHealthCheck
// that references a v1beta1 template copies the limit into a v1beta1 Metal3Remediation.
func retryLimitToHub(in int) int32 {
	if in < 0 {
		return infrav1.DefaultRemediationRetryLimit
	}
	return toInt32(in)
}

// secondsToHub returns timeoutSeconds, or timeout if timeoutSeconds is missing.
func secondsToHub(in RemediationStrategy) *int32 {
	if in.TimeoutSeconds != nil {
		return in.TimeoutSeconds
	}
	return convertOptional(in.Timeout, timeoutToHub)
}

// timeoutToHub rounds up, so that a timeout is never shorter than requested.
func timeoutToHub(in metav1.Duration) int32 {
	seconds := in.Duration / time.Second
	if in.Duration%time.Second > 0 {
		seconds++
	}
	return toInt32(int(seconds))
}

func remediationStatusToHub(in Metal3RemediationStatus) infrav1.Metal3RemediationStatus {
	return infrav1.Metal3RemediationStatus{
		Phase:          phaseToHub(in.Phase),
		RetryCount:     toInt32(in.RetryCount),
		LastRemediated: in.LastRemediated,
	}
}

func remediationStatusFromHub(in infrav1.Metal3RemediationStatus) Metal3RemediationStatus {
	return Metal3RemediationStatus{
		Phase:          string(in.Phase),
		RetryCount:     int(in.RetryCount),
		LastRemediated: in.LastRemediated,
	}
}

// phaseToHub drops a phase that v1beta2 does not have. The remediation then starts again.
func phaseToHub(in string) infrav1.RemediationPhase {
	switch phase := infrav1.RemediationPhase(in); phase {
	case infrav1.RemediationRunning, infrav1.RemediationWaiting,
		infrav1.RemediationDeletingMachine, infrav1.RemediationFailed:
		return phase
	default:
		return ""
	}
}
