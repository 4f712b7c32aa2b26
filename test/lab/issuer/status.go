package issuer

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// problem is why an object is not Ready. It is not an error: a user must change an object, which enqueues it.
type problem struct {
	reason, message string
}

func problemf(reason, format string, values ...any) *problem {
	return &problem{reason: reason, message: fmt.Sprintf(format, values...)}
}

// ready returns the condition of an object: true with the reason and the message, or false with those of the problem.
func ready(object *unstructured.Unstructured, reason, message string, why *problem) metav1.Condition {
	condition := metav1.Condition{
		Type: readyCondition, Status: metav1.ConditionTrue, ObservedGeneration: object.GetGeneration(),
		Reason: reason, Message: message,
	}
	if why != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, why.reason, why.message
	}
	return condition
}

// writeStatus writes the condition and further fields of the status, if they are new.
func writeStatus(
	ctx context.Context, writer client.Client, object *unstructured.Unstructured, condition metav1.Condition,
	fields map[string]any,
) error {
	status := struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	}{}
	present, _, err := unstructured.NestedMap(object.Object, "status")
	if err != nil {
		return err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(present, &status); err != nil {
		return fmt.Errorf("reading the conditions of %s: %w", object.GetName(), err)
	}
	meta.SetStatusCondition(&status.Conditions, condition)
	wanted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return err
	}
	for name, value := range fields {
		wanted[name] = value
	}
	changed := object.DeepCopy()
	for name, value := range wanted {
		if err := unstructured.SetNestedField(changed.Object, value, "status", name); err != nil {
			return err
		}
	}
	if equality.Semantic.DeepEqual(object.Object, changed.Object) {
		return nil
	}
	if err := writer.Status().Patch(ctx, changed, client.MergeFrom(object)); err != nil {
		return fmt.Errorf("writing the status of %s: %w", object.GetName(), err)
	}
	return nil
}
