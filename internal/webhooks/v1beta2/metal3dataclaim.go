package v1beta2

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/rule"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-metal3dataclaim,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=metal3dataclaims,versions=v1beta2,name=validation.metal3dataclaim.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// Metal3DataClaimValidator validates Metal3DataClaims. A claim requires a template.
func Metal3DataClaimValidator() admission.Validator[*infrav1.Metal3DataClaim] {
	return validator[*infrav1.Metal3DataClaim]{kind: "Metal3DataClaim", state: dataClaimState, change: dataClaimChange}
}

func dataClaimState(claim *infrav1.Metal3DataClaim) rule.Findings {
	path := field.NewPath("spec", "template")
	template := claim.Spec.Template
	if template == nil || template.Name == "" {
		return rule.Refusals(field.Required(path.Child("name"), "name the Metal3DataTemplate to render"))
	}
	return rule.Refusals(rule.OwnNamespace(path, template.Namespace, claim.Namespace))
}

func dataClaimChange(before, after *infrav1.Metal3DataClaim) rule.Findings {
	return rule.SameReference(field.NewPath("spec", "template"),
		before.Spec.Template, after.Spec.Template, after.Namespace)
}
