package v1beta2

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/rule"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-metal3data,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=metal3datas,versions=v1beta2,name=validation.metal3data.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// Metal3DataValidator validates Metal3Data. Names and references are immutable, because they define the used indexes.
func Metal3DataValidator() admission.Validator[*infrav1.Metal3Data] {
	return validator[*infrav1.Metal3Data]{kind: "Metal3Data", state: dataState, change: dataChange}
}

func dataState(data *infrav1.Metal3Data) rule.Findings {
	return rule.Join(dataName(data), dataReferences(data))
}

func dataName(data *infrav1.Metal3Data) rule.Findings {
	spec := &data.Spec
	if spec.Index == nil {
		return rule.Findings{}
	}
	if *spec.Index < 0 {
		return rule.Refusals(field.Invalid(field.NewPath("spec", "index"), *spec.Index,
			"is negative; indexes count from 0"))
	}
	if spec.Template == nil || spec.Template.Name == "" {
		return rule.Findings{}
	}
	if name := fmt.Sprintf("%s-%d", spec.Template.Name, *spec.Index); data.Name != name {
		return rule.Refusals(field.Invalid(field.NewPath("metadata", "name"), data.Name,
			fmt.Sprintf("does not follow the convention <template>-<index>; name it %q", name)))
	}
	return rule.Findings{}
}

// dataReferences warns of references into other namespaces. CAPM3 accepts and ignores them.
func dataReferences(data *infrav1.Metal3Data) rule.Findings {
	var findings rule.Findings
	path := field.NewPath("spec")
	for _, reference := range []struct {
		name   string
		object *infrav1.Metal3ObjectRef
	}{
		{"template", data.Spec.Template},
		{"claim", data.Spec.Claim},
	} {
		if reference.object == nil {
			continue
		}
		if err := rule.OwnNamespace(path.Child(reference.name), reference.object.Namespace, data.Namespace); err != nil {
			findings.Warnings = append(findings.Warnings, err.Error())
		}
	}
	return findings
}

func dataChange(before, after *infrav1.Metal3Data) rule.Findings {
	path := field.NewPath("spec")
	return rule.Join(
		rule.Refusals(rule.Unchanged(path.Child("index"), indexText(before.Spec.Index), indexText(after.Spec.Index),
			"create a new object instead")),
		rule.SameReference(path.Child("template"), before.Spec.Template, after.Spec.Template, after.Namespace),
		rule.SameReference(path.Child("claim"), before.Spec.Claim, after.Spec.Claim, after.Namespace),
	)
}

func indexText(index *int32) string {
	if index == nil {
		return ""
	}
	return strconv.Itoa(int(*index))
}
