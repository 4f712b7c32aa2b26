package stage

import (
	"cmp"
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// holdName is the name of the policy of a hold, and holdMessage its message for the client.
const holdName, holdMessage = "hold.stage.test", "the story holds this write"

// Rejected are the writes of a hold: an operation on objects of a resource.
type Rejected struct {
	Operation admissionv1.OperationType
	Resource  schema.GroupVersionResource

	// Unless is a CEL expression over object. Writes for which it is true do not count. Empty means that all count.
	Unless string
}

// Hold makes an API server reject writes until EndHold. It returns when attempt, a dry run, shows the effect. Intervals
// are those of Eventually. An API server has one hold at most.
func Hold(ctx context.Context, in client.Client, writes Rejected, attempt func() error, intervals ...any) {
	GinkgoHelper()
	policy, binding := holdObjects()
	policy.Spec = admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{writes.Operation},
				Rule: admissionv1.Rule{
					APIGroups: []string{writes.Resource.Group}, APIVersions: []string{"*"},
					Resources: []string{writes.Resource.Resource},
				},
			},
		}}},
		Validations: []admissionv1.Validation{{Expression: cmp.Or(writes.Unless, "false"), Message: holdMessage}},
	}
	binding.Spec = admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: holdName, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}
	Expect(in.Create(ctx, policy)).To(Succeed())
	Expect(in.Create(ctx, binding)).To(Succeed())
	Eventually(attempt, intervals...).Should(MatchError(ContainSubstring(holdMessage)))
}

// EndHold ends a hold, if there is one. It takes effect a moment later.
func EndHold(ctx context.Context, in client.Client) {
	GinkgoHelper()
	policy, binding := holdObjects()
	Expect(client.IgnoreNotFound(in.Delete(ctx, binding))).To(Succeed())
	Expect(client.IgnoreNotFound(in.Delete(ctx, policy))).To(Succeed())
}

func holdObjects() (*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding) {
	meta := metav1.ObjectMeta{Name: holdName}
	return &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta},
		&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta}
}
