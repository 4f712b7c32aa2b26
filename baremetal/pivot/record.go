package pivot

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
)

func recorded(host *bmov1alpha1.BareMetalHost) bool {
	if host.Status.LastUpdated.IsZero() {
		return true
	}
	var kept bmov1alpha1.BareMetalHostStatus
	if json.Unmarshal([]byte(host.Annotations[bmov1alpha1.StatusAnnotation]), &kept) != nil {
		return false
	}
	operational, problem := host.Status.OperationalStatus, host.Status.ErrorType
	if !carries(string(problem)) {
		operational, problem = bmov1alpha1.OperationalStatusOK, ""
	}
	return kept.LastUpdated.Equal(host.Status.LastUpdated) &&
		kept.OperationalStatus == operational && kept.ErrorType == problem &&
		equality.Semantic.DeepEqual(kept.Provisioning, host.Status.Provisioning)
}

// carries returns true if the annotation may have an error of this type. BMO refuses later types, such as an error
// while servicing, and detects these errors again in the other cluster.
func carries(problem string) bool { return slices.Contains(bmov1alpha1.ErrorTypeAllowed, problem) }

// dropError removes the error from a status.
func dropError(status map[string]any) {
	delete(status, "errorType")
	status["operationalStatus"], status["errorMessage"], status["errorCount"] = bmov1alpha1.OperationalStatusOK, "", 0
}

// hardwareKey is the field of a status with the hardware details.
const hardwareKey = "hardware"

// StatusAnnotation returns the annotation for the status of a host from the API server. It omits:
//
//   - hardware details, which have their own object, and exceed the size limit
//   - errors that the annotation must not have
//   - fields that the types of BMO in this release lack. The webhook of BMO refuses an annotation with unknown fields,
//     and the target may have another release than the source.
//
// It returns an error if a field of the status has another type than in the types of BMO.
func StatusAnnotation(status map[string]any) (string, error) {
	kept, err := recordedFields(status)
	if err != nil {
		return "", fmt.Errorf("recording the status: %w", err)
	}
	if problem, _ := status["errorType"].(string); !carries(problem) {
		dropError(kept)
	}
	content, err := json.Marshal(kept)
	if err != nil {
		return "", fmt.Errorf("recording the status: %w", err)
	}
	return string(content), nil
}

// recordedFields returns a copy of a status with the fields of the annotation. It adds no field: an earlier release of
// BMO would refuse a field that its status lacks.
func recordedFields(status map[string]any) (map[string]any, error) {
	kept := maps.Clone(status)
	delete(kept, hardwareKey)
	content, err := json.Marshal(kept)
	if err != nil {
		return nil, err
	}
	var typed bmov1alpha1.BareMetalHostStatus
	if err := json.Unmarshal(content, &typed); err != nil {
		return nil, err
	}
	if content, err = json.Marshal(typed); err != nil {
		return nil, err
	}
	var known map[string]any
	if err := json.Unmarshal(content, &known); err != nil {
		return nil, err
	}
	return common(kept, known), nil
}

// common returns the fields of an object that the other object has too, with the values of the first object.
func common(object, other map[string]any) map[string]any {
	kept := make(map[string]any, len(object))
	for key, value := range object {
		if has, exists := other[key]; exists {
			kept[key] = commonValue(value, has)
		}
	}
	return kept
}

func commonValue(value, other any) any {
	switch value := value.(type) {
	case map[string]any:
		if other, fits := other.(map[string]any); fits {
			return common(value, other)
		}
	case []any:
		if other, fits := other.([]any); fits && len(other) == len(value) {
			kept := make([]any, len(value))
			for i := range value {
				kept[i] = commonValue(value[i], other[i])
			}
			return kept
		}
	}
	return value
}
