package stage

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// With returns an option that changes a field without a builder.
func With[T metav1.Object](edit func(T)) build.ObjectOption {
	return func(object metav1.Object) {
		target, fits := object.(T)
		if !fits {
			panic(fmt.Sprintf("the option does not suit %T", object))
		}
		edit(target)
	}
}

// Change reads an object, changes it and stores it without its status.
func Change[T client.Object](ctx context.Context, c client.Client, key client.ObjectKey, object T, edit func(T)) {
	GinkgoHelper()
	before := read(ctx, c, key, object)
	edit(object)
	Expect(c.Patch(ctx, object, client.MergeFrom(before))).To(Succeed())
}

// ChangeStatus reads an object, changes its status and stores that.
func ChangeStatus[T client.Object](ctx context.Context, c client.Client, key client.ObjectKey, object T, edit func(T)) {
	GinkgoHelper()
	before := read(ctx, c, key, object)
	edit(object)
	Expect(c.Status().Patch(ctx, object, client.MergeFrom(before))).To(Succeed())
}

func read(ctx context.Context, c client.Client, key client.ObjectKey, object client.Object) client.Object {
	GinkgoHelper()
	Expect(c.Get(ctx, key, object)).To(Succeed())
	before, isObject := object.DeepCopyObject().(client.Object)
	Expect(isObject).To(BeTrue())
	return before
}

// HaveCondition succeeds if one of the conditions is of a type and matches.
func HaveCondition(conditionType string, want types.GomegaMatcher) types.GomegaMatcher {
	return WithTransform(func(conditions []metav1.Condition) metav1.Condition {
		if found := meta.FindStatusCondition(conditions, conditionType); found != nil {
			return *found
		}
		return metav1.Condition{Type: "There is no " + conditionType}
	}, want)
}

// IsTrue matches a condition that is true.
func IsTrue() types.GomegaMatcher { return HaveField("Status", metav1.ConditionTrue) }

// IsTrueBecause matches a condition that is true for a reason.
func IsTrueBecause(reason string) types.GomegaMatcher {
	return And(IsTrue(), HaveField("Reason", reason))
}

// IsFalseBecause matches a condition that is false with a reason and a message.
func IsFalseBecause(reason, message string) types.GomegaMatcher {
	return And(
		HaveField("Status", metav1.ConditionFalse),
		HaveField("Reason", reason),
		HaveField("Message", ContainSubstring(message)),
	)
}
