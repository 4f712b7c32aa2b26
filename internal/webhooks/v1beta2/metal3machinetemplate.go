package v1beta2

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/rule"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-metal3machinetemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=metal3machinetemplates,versions=v1beta2,name=validation.metal3machinetemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// Metal3MachineTemplateValidator validates Metal3MachineTemplates. A reference into another namespace causes a warning,
// because the machines may be in that namespace.
//
// A change of spec.template.spec causes a warning with the changed fields, because existing machines keep the old
// values: Cluster API rolls out only another template. CAPM3 accepts such a change. automatedCleaningMode causes no
// warning, because it is copied to existing machines.
func Metal3MachineTemplateValidator() admission.Validator[*infrav1.Metal3MachineTemplate] {
	return validator[*infrav1.Metal3MachineTemplate]{
		kind: "Metal3MachineTemplate", state: machineTemplateState, change: machineTemplateChange,
	}
}

func machineTemplateState(template *infrav1.Metal3MachineTemplate) rule.Findings {
	path := field.NewPath("spec", "template", "spec")
	spec := &template.Spec.Template.Spec
	findings := rule.MachineTemplateSpec(path, spec, template.Namespace)
	if spec.ProviderID != "" {
		findings = rule.Join(findings, rule.Warn(path.Child("providerID"),
			"%q would be the same for all machines; leave the field to the provider", spec.ProviderID))
	}
	return findings
}

func machineTemplateChange(before, after *infrav1.Metal3MachineTemplate) rule.Findings {
	old, wanted := before.Spec.Template.Spec, after.Spec.Template.Spec
	old.AutomatedCleaningMode = wanted.AutomatedCleaningMode
	changes := rule.Changes(old, wanted)
	if changes == "" {
		return rule.Findings{}
	}
	return rule.Warn(field.NewPath("spec", "template", "spec"), "changed %s; existing machines keep the old spec: "+
		"create a new template and reference it to roll the change out", changes)
}
