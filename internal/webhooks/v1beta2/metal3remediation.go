package v1beta2

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/rule"
)

// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta2-metal3remediation,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=metal3remediations,versions=v1beta2,name=default.metal3remediation.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-metal3remediation,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=metal3remediations,versions=v1beta2,name=validation.metal3remediation.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// Metal3RemediationDefaulter sets the defaults of a strategy. It adds no strategy.
func Metal3RemediationDefaulter() admission.Defaulter[*infrav1.Metal3Remediation] {
	return defaulter[*infrav1.Metal3Remediation]{
		fill: func(_ context.Context, remediation *infrav1.Metal3Remediation) error {
			if remediation.Spec.Strategy != nil {
				rule.FillStrategy(remediation.Spec.Strategy)
			}
			return nil
		},
	}
}

// Metal3RemediationValidator validates Metal3Remediations.
func Metal3RemediationValidator() admission.Validator[*infrav1.Metal3Remediation] {
	return validator[*infrav1.Metal3Remediation]{
		kind: "Metal3Remediation",
		state: func(remediation *infrav1.Metal3Remediation) rule.Findings {
			return rule.Strategy(field.NewPath("spec", "strategy"), remediation.Spec.Strategy)
		},
	}
}
