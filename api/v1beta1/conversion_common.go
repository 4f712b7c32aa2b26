package v1beta1

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Limits of v1beta2 where v1beta1 has none. A longer value cannot work. It is truncated, so that the object can still
// be written as v1beta2.
const (
	maxObjectName    = 253
	maxFailureDomain = 256
	maxHost          = 512
	maxPort          = 65535
	maxProviderID    = 512
)

// clip truncates a text to a number of characters.
func clip(text string, length int) string {
	if utf8.RuneCountInString(text) <= length {
		return text
	}
	return string([]rune(text)[:length])
}

// bounded returns the nearest number in the range.
func bounded(number, lowest, highest int) int32 {
	return int32(min(max(number, lowest), highest)) //nolint:gosec // The callers' ranges are within int32.
}

// toInt32 returns the nearest 32-bit number.
func toInt32(number int) int32 {
	return bounded(number, math.MinInt32, math.MaxInt32)
}

// unlessZero returns a pointer to a value, or nil for the zero value.
func unlessZero[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// convertOptional converts a value that may be nil.
func convertOptional[A, B any](in *A, convert func(A) B) *B {
	if in == nil {
		return nil
	}
	return ptr.To(convert(*in))
}

// convertList converts all elements of a list.
func convertList[A, B any](in []A, convert func(A) B) []B {
	if in == nil {
		return nil
	}
	out := make([]B, 0, len(in))
	for _, element := range in {
		out = append(out, convert(element))
	}
	return out
}

// convertKeyed converts the elements of a list in which v1beta2 allows every key once. It keeps the last of several
// elements with the same key, which takes precedence in rendered data.
func convertKeyed[A, B any, K comparable](in []A, convert func(A) (K, B)) []B {
	if in == nil {
		return nil
	}
	seen := make(map[K]bool, len(in))
	out := make([]B, 0, len(in))
	for _, element := range slices.Backward(in) {
		key, converted := convert(element)
		if !seen[key] {
			seen[key] = true
			out = append(out, converted)
		}
	}
	slices.Reverse(out)
	return out
}

// sortedKeys returns the keys of a map in order, so that equal maps give equal lists.
func sortedKeys[K cmp.Ordered, V any](in map[K]V) []K {
	return slices.Sorted(maps.Keys(in))
}

// referenceToHub keeps the name and the namespace. The field implies the kind. It returns nil for a reference without a
// name.
func referenceToHub(in *corev1.ObjectReference) *infrav1.Metal3ObjectRef {
	if in == nil || in.Name == "" {
		return nil
	}
	return &infrav1.Metal3ObjectRef{Name: clip(in.Name, maxObjectName), Namespace: clip(in.Namespace, maxObjectName)}
}

func referenceFromHub(in *infrav1.Metal3ObjectRef) *corev1.ObjectReference {
	if in == nil {
		return nil
	}
	return &corev1.ObjectReference{Name: in.Name, Namespace: in.Namespace}
}

// failureDomainsToHub turns a map into a list in the order of the names.
func failureDomainsToHub(in clusterv1beta1.FailureDomains) []clusterv1.FailureDomain {
	if in == nil {
		return nil
	}
	names := slices.DeleteFunc(sortedKeys(in), func(name string) bool { return name == "" })
	return convertKeyed(names, func(name string) (string, clusterv1.FailureDomain) {
		name, domain := clip(name, maxFailureDomain), in[name]
		return name, clusterv1.FailureDomain{
			Name: name, ControlPlane: unlessZero(domain.ControlPlane), Attributes: domain.Attributes,
		}
	})
}

func failureDomainsFromHub(in []clusterv1.FailureDomain) clusterv1beta1.FailureDomains {
	if in == nil {
		return nil
	}
	out := make(clusterv1beta1.FailureDomains, len(in))
	for _, domain := range in {
		out[domain.Name] = clusterv1beta1.FailureDomainSpec{
			ControlPlane: ptr.Deref(domain.ControlPlane, false), Attributes: domain.Attributes,
		}
	}
	return out
}

// initializationToHub sets provisioned if the spoke is ready, and nothing otherwise.
func initializationToHub(ready bool) infrav1.InitializationStatus {
	return infrav1.InitializationStatus{Provisioned: unlessZero(ready)}
}

// conditionsToHub returns the conditions of status.v1beta2.
func conditionsToHub(in *V1Beta2Status) []metav1.Condition {
	return ptr.Deref(in, V1Beta2Status{}).Conditions
}

func conditionsFromHub(in []metav1.Condition) *V1Beta2Status {
	if len(in) == 0 {
		return nil
	}
	return &V1Beta2Status{Conditions: in}
}

// deprecatedToHub collects the status fields that v1beta2 does not have.
func deprecatedToHub(conditions clusterv1beta1.Conditions, reason, message *string) *infrav1.DeprecatedStatus {
	out := infrav1.Metal3V1Beta1Status{
		Conditions: convertList(conditions, func(in clusterv1beta1.Condition) clusterv1.Condition {
			return clusterv1.Condition{
				Type: clusterv1.ConditionType(in.Type), Status: in.Status,
				Severity:           clusterv1.ConditionSeverity(in.Severity),
				LastTransitionTime: in.LastTransitionTime, Reason: in.Reason, Message: in.Message,
			}
		}),
		FailureReason: ptr.Deref(reason, ""), FailureMessage: ptr.Deref(message, ""),
	}
	if len(out.Conditions) == 0 && out.FailureReason == "" && out.FailureMessage == "" {
		return nil
	}
	return &infrav1.DeprecatedStatus{V1Beta1: &out}
}

// deprecatedFromHub returns an empty status if there are no deprecated fields.
func deprecatedFromHub(in *infrav1.DeprecatedStatus) infrav1.Metal3V1Beta1Status {
	return ptr.Deref(ptr.Deref(in, infrav1.DeprecatedStatus{}).V1Beta1, infrav1.Metal3V1Beta1Status{})
}

func deprecatedConditionsFromHub(in clusterv1.Conditions) clusterv1beta1.Conditions {
	return convertList(in, func(in clusterv1.Condition) clusterv1beta1.Condition {
		return clusterv1beta1.Condition{
			Type: clusterv1beta1.ConditionType(in.Type), Status: in.Status,
			Severity:           clusterv1beta1.ConditionSeverity(in.Severity),
			LastTransitionTime: in.LastTransitionTime, Reason: in.Reason, Message: in.Message,
		}
	})
}
