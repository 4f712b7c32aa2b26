package v1beta2_test

import (
	"testing"

	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/v1beta2"
)

func remediationTemplate(strategy *infrav1.RemediationStrategy) *infrav1.Metal3RemediationTemplate {
	template := &infrav1.Metal3RemediationTemplate{ObjectMeta: named("template")}
	template.Spec.Template.Spec.Strategy = strategy
	return template
}

func TestMetal3RemediationTemplate(t *testing.T) {
	valid := strategy(infrav1.RebootRemediation, 1, ptr.To(int32(600)))
	judge(t, v1beta2.Metal3RemediationTemplateValidator(), map[string]step[*infrav1.Metal3RemediationTemplate]{
		"valid":       {reason: "as a remediation", after: remediationTemplate(valid)},
		"no strategy": {reason: "CAPM3 panics", after: remediationTemplate(nil)},
		"wrong": {
			reason: "the rules of a remediation apply",
			after:  remediationTemplate(strategy(infrav1.RebootRemediation, 1, ptr.To(int32(1)))),
			want: []string{"spec.template.spec.strategy.timeoutSeconds: Invalid value: 1: is too short for a host to boot; " +
				"use at least 100, or omit it for 600"},
		},
		"changed": {
			reason: "a template may change",
			before: remediationTemplate(valid),
			after:  remediationTemplate(strategy(infrav1.RebootRemediation, 5, nil)),
		},
	})
}
