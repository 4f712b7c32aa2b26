package v1beta2_test

import (
	"testing"

	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/v1beta2"
)

func validData() *infrav1.Metal3Data {
	return &infrav1.Metal3Data{
		ObjectMeta: named("template-3"),
		Spec: infrav1.Metal3DataSpec{
			Index:    ptr.To(int32(3)),
			Template: &infrav1.Metal3ObjectRef{Name: "template", Namespace: namespace},
			Claim:    &infrav1.Metal3ObjectRef{Name: "claim", Namespace: namespace},
		},
	}
}

func index(index *int32) func(*infrav1.Metal3Data) {
	return func(data *infrav1.Metal3Data) { data.Spec.Index = index }
}

func references(template, claim *infrav1.Metal3ObjectRef) func(*infrav1.Metal3Data) {
	return func(data *infrav1.Metal3Data) { data.Spec.Template, data.Spec.Claim = template, claim }
}

func TestMetal3DataCreate(t *testing.T) {
	other := func(name string) *infrav1.Metal3ObjectRef {
		return &infrav1.Metal3ObjectRef{Name: name, Namespace: "kube-system"}
	}
	judge(t, v1beta2.Metal3DataValidator(), map[string]step[*infrav1.Metal3Data]{
		"valid": {reason: "the name is template and index", after: validData()},
		"first": {
			reason: "indexes count from 0",
			after: altered(validData, index(ptr.To(int32(0))), func(data *infrav1.Metal3Data) {
				data.Name = "template-0"
			}),
		},
		"other name": {
			reason: "the name defines the index",
			after:  altered(validData, func(data *infrav1.Metal3Data) { data.Name = "mine" }),
			want: []string{`metadata.name: Invalid value: "mine": does not follow the convention <template>-<index>; ` +
				`name it "template-3"`},
		},
		"negative": {
			reason: "an index is not negative",
			after:  altered(validData, index(ptr.To(int32(-1)))),
			want:   []string{"spec.index: Invalid value: -1: is negative; indexes count from 0"},
		},
		"no index":    {reason: "the convention cannot be checked", after: altered(validData, index(nil))},
		"no template": {reason: "the convention cannot be checked", after: altered(validData, references(nil, nil))},
		"foreign namespaces": {
			reason:   "CAPM3 accepts and ignores them",
			after:    altered(validData, references(other("template"), other("claim"))),
			warnings: []string{foreign("spec.template"), foreign("spec.claim")},
		},
	})
}

func TestMetal3DataUpdate(t *testing.T) {
	const fixed = " and does not change; create a new object instead"
	elsewhere := &infrav1.Metal3ObjectRef{Name: "template", Namespace: "kube-system"}
	template, claim := validData().Spec.Template, validData().Spec.Claim
	judge(t, v1beta2.Metal3DataValidator(), map[string]step[*infrav1.Metal3Data]{
		"nothing": {reason: "no change", before: validData(), after: validData()},
		"index": {
			reason: "the name contains the index",
			before: altered(validData, references(nil, nil)),
			after:  altered(validData, references(nil, nil), index(ptr.To(int32(4)))),
			want:   []string{`spec.index: Invalid value: "4": is "3"` + fixed},
		},
		"index removed": {
			reason: "the index would be allocated twice",
			before: validData(), after: altered(validData, index(nil)),
			want: []string{`spec.index: Invalid value: "": is "3"` + fixed},
		},
		"set later": {
			reason: "missing fields may be set",
			before: altered(validData, index(nil), references(nil, nil)), after: validData(),
		},
		"other objects": {
			reason: "template and claim are immutable",
			before: altered(validData, index(nil)),
			after: altered(validData, index(nil),
				references(&infrav1.Metal3ObjectRef{Name: "other"}, &infrav1.Metal3ObjectRef{Name: "other"})),
			want: []string{
				`spec.template.name: Invalid value: "other": is "template"` + fixed,
				`spec.claim.name: Invalid value: "other": is "claim"` + fixed,
			},
		},
		"other namespace": {
			reason:   "the namespace counts",
			before:   validData(),
			after:    altered(validData, references(elsewhere, claim)),
			want:     []string{`spec.template.namespace: Invalid value: "kube-system": is "metal3"` + fixed},
			warnings: []string{foreign("spec.template")},
		},
		"namespace left out": {
			reason: "a missing namespace means the own one",
			before: validData(), after: altered(validData, references(template, &infrav1.Metal3ObjectRef{Name: "claim"})),
		},
		"removed": {
			reason: "the index would be lost",
			before: validData(), after: altered(validData, references(template, nil)),
			want: []string{`spec.claim: Required value: is "claim"` + fixed},
		},
	})
}
