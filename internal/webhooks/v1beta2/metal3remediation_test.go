package v1beta2_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/v1beta2"
)

func strategy(kind infrav1.RemediationType, retries int32, timeout *int32) *infrav1.RemediationStrategy {
	return &infrav1.RemediationStrategy{Type: kind, RetryLimit: retries, TimeoutSeconds: timeout}
}

func remediation(strategy *infrav1.RemediationStrategy) *infrav1.Metal3Remediation {
	return &infrav1.Metal3Remediation{
		ObjectMeta: named("remediation"), Spec: infrav1.Metal3RemediationSpec{Strategy: strategy},
	}
}

func TestRemediationDefaults(t *testing.T) {
	usual := strategy(infrav1.RebootRemediation, 1, ptr.To(int32(600)))
	cases := map[string]struct {
		reason                       string
		in, want, wantOfTheTemplates *infrav1.RemediationStrategy
	}{
		"none": {
			reason: "only a template gets a strategy; CAPM3 panics",
			in:     nil, want: nil, wantOfTheTemplates: usual,
		},
		"empty": {
			reason: "all three have defaults",
			in:     &infrav1.RemediationStrategy{}, want: usual, wantOfTheTemplates: usual,
		},
		"complete": {
			reason: "set values stay", in: strategy(infrav1.RebootRemediation, 3, ptr.To(int32(100))),
			want:               strategy(infrav1.RebootRemediation, 3, ptr.To(int32(100))),
			wantOfTheTemplates: strategy(infrav1.RebootRemediation, 3, ptr.To(int32(100))),
		},
		"zero timeout": {
			reason:             "CAPM3 accepts the value",
			in:                 strategy("", 0, ptr.To(int32(0))),
			want:               strategy(infrav1.RebootRemediation, 1, ptr.To(int32(0))),
			wantOfTheTemplates: strategy(infrav1.RebootRemediation, 1, ptr.To(int32(0))),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			object, template := remediation(c.in.DeepCopy()), remediationTemplate(c.in.DeepCopy())
			if err := v1beta2.Metal3RemediationDefaulter().Default(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			if err := v1beta2.Metal3RemediationTemplateDefaulter().Default(t.Context(), template); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, object.Spec.Strategy); diff != "" {
				t.Errorf("%s\nremediation (-want +got):\n%s", c.reason, diff)
			}
			if diff := cmp.Diff(c.wantOfTheTemplates, template.Spec.Template.Spec.Strategy); diff != "" {
				t.Errorf("%s\ntemplate (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestMetal3Remediation(t *testing.T) {
	valid := strategy(infrav1.RebootRemediation, 1, ptr.To(int32(100)))
	wrong := strategy("Reinstall", -1, ptr.To(int32(99)))
	judge(t, v1beta2.Metal3RemediationValidator(), map[string]step[*infrav1.Metal3Remediation]{
		"valid":        {reason: "the shortest timeout", after: remediation(valid)},
		"no strategy":  {reason: "the defaults apply", after: remediation(nil)},
		"no timeout":   {reason: "the default applies", after: remediation(strategy(infrav1.RebootRemediation, 1, nil))},
		"zero timeout": {reason: "as in CAPM3", after: remediation(strategy(infrav1.RebootRemediation, 1, ptr.To(int32(0))))},
		"all wrong": {
			reason: "each error is reported",
			after:  remediation(wrong),
			want: []string{
				`spec.strategy.type: Unsupported value: "Reinstall": supported values: "Reboot"`,
				"spec.strategy.timeoutSeconds: Invalid value: 99: is too short for a host to boot; use at least 100, or " +
					"omit it for 600",
				"spec.strategy.retryLimit: Invalid value: -1: disables all tries; set at least 1, or omit " +
					"it for 1",
			},
		},
		"broken": {
			reason: "an update is validated like a creation",
			before: remediation(valid), after: remediation(strategy(infrav1.RebootRemediation, 0, nil)),
			want: []string{"spec.strategy.retryLimit: Invalid value: 0: disables all tries; set at least 1, " +
				"or omit it for 1"},
		},
		"was wrong": {
			reason: "finalizers of an invalid object can be removed",
			before: remediation(wrong), after: remediation(wrong.DeepCopy()),
		},
		"changed": {
			reason: "a strategy may change",
			before: remediation(valid), after: remediation(strategy(infrav1.RebootRemediation, 5, nil)),
		},
	})
}
