package v1beta2

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/rule"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-metal3clustertemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=metal3clustertemplates,versions=v1beta2,name=validation.metal3clustertemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// Metal3ClusterTemplateValidator validates Metal3ClusterTemplates. It allows all updates: a change reaches the
// clusters of a ClusterClass in place, where it is validated again.
func Metal3ClusterTemplateValidator() admission.Validator[*infrav1.Metal3ClusterTemplate] {
	return validator[*infrav1.Metal3ClusterTemplate]{kind: "Metal3ClusterTemplate", state: clusterTemplateState}
}

func clusterTemplateState(template *infrav1.Metal3ClusterTemplate) rule.Findings {
	path := field.NewPath("spec", "template", "spec")
	spec := &template.Spec.Template.Spec
	findings := rule.ClusterSpec(path, spec)
	if spec.Ironic != nil && spec.Ironic.ClusterID != "" {
		findings = rule.Join(findings, rule.Refusals(field.Invalid(path.Child("ironic", "clusterID"),
			spec.Ironic.ClusterID, "would be the same for all clusters; omit it, so that each gets its own")))
	}
	return findings
}
