package v1beta2

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/rule"
)

// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta2-metal3remediationtemplate,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=metal3remediationtemplates,versions=v1beta2,name=default.metal3remediationtemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-metal3remediationtemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=metal3remediationtemplates,versions=v1beta2,name=validation.metal3remediationtemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// Metal3RemediationTemplateDefaulter sets the default strategy, so that a template shows what its remediations do.
func Metal3RemediationTemplateDefaulter() admission.Defaulter[*infrav1.Metal3RemediationTemplate] {
	return defaulter[*infrav1.Metal3RemediationTemplate]{
		fill: func(_ context.Context, template *infrav1.Metal3RemediationTemplate) error {
			spec := &template.Spec.Template.Spec
			if spec.Strategy == nil {
				spec.Strategy = &infrav1.RemediationStrategy{}
			}
			rule.FillStrategy(spec.Strategy)
			return nil
		},
	}
}

// Metal3RemediationTemplateValidator validates Metal3RemediationTemplates.
func Metal3RemediationTemplateValidator() admission.Validator[*infrav1.Metal3RemediationTemplate] {
	return validator[*infrav1.Metal3RemediationTemplate]{
		kind: "Metal3RemediationTemplate",
		state: func(template *infrav1.Metal3RemediationTemplate) rule.Findings {
			return rule.Strategy(field.NewPath("spec", "template", "spec", "strategy"), template.Spec.Template.Spec.Strategy)
		},
	}
}
