package v1beta2_test

import (
	"testing"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/v1beta2"
)

func TestMetal3DataClaim(t *testing.T) {
	claim := func(template *infrav1.Metal3ObjectRef) *infrav1.Metal3DataClaim {
		return &infrav1.Metal3DataClaim{
			ObjectMeta: named("claim"), Spec: infrav1.Metal3DataClaimSpec{Template: template},
		}
	}
	const missing = "spec.template.name: Required value: name the Metal3DataTemplate to render"
	const fixed = " and does not change; create a new object instead"
	reference := func(name, namespace string) *infrav1.Metal3ObjectRef {
		return &infrav1.Metal3ObjectRef{Name: name, Namespace: namespace}
	}
	finalized := claim(nil)
	finalized.Finalizers = []string{infrav1.DataClaimFinalizer}
	judge(t, v1beta2.Metal3DataClaimValidator(), map[string]step[*infrav1.Metal3DataClaim]{
		"valid":         {reason: "a template of the own namespace", after: claim(reference("template", ""))},
		"own namespace": {reason: "the own namespace may be named", after: claim(reference("template", namespace))},
		"no template":   {reason: "CAPM3 panics", after: claim(nil), want: []string{missing}},
		"no name":       {reason: "the name is required", after: claim(reference("", namespace)), want: []string{missing}},
		"foreign namespace": {
			reason: "templates of other namespaces may be confidential",
			after:  claim(reference("template", "kube-system")), want: []string{foreign("spec.template")},
		},
		"no template, updated": {
			reason: "finalizers of an invalid object can be removed; CAPM3 panics",
			before: finalized, after: claim(nil),
		},
		"template set later": {
			reason: "a correction is allowed",
			before: claim(nil), after: claim(reference("template", "")),
		},
		"template removed": {
			reason: "a machine waits for the data of the template",
			before: claim(reference("template", "")), after: claim(nil),
			want: []string{missing, `spec.template: Required value: is "template"` + fixed},
		},
		"template changed": {
			reason: "the old index would be lost",
			before: claim(reference("template", "")), after: claim(reference("other", "")),
			want: []string{`spec.template.name: Invalid value: "other": is "template"` + fixed},
		},
		"namespace changed": {
			reason: "the namespace counts",
			before: claim(reference("template", "")), after: claim(reference("template", "kube-system")),
			want: []string{
				foreign("spec.template"),
				`spec.template.namespace: Invalid value: "kube-system": is "metal3"` + fixed,
			},
		},
		"namespace written down": {
			reason: "a missing namespace means the own one",
			before: claim(reference("template", "")), after: claim(reference("template", namespace)),
		},
	})
}
