package pivot

import (
	"encoding/json"
	"fmt"
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

// carries says whether the annotation may hold an error of this type. BMO refuses those that came later,
// such as an error while servicing, and meets them again in the other cluster.
func carries(problem string) bool { return slices.Contains(bmov1alpha1.ErrorTypeAllowed, problem) }

// dropError makes a status that of a host without errors.
func dropError(status map[string]any) {
	delete(status, "errorType")
	status["operationalStatus"], status["errorMessage"], status["errorCount"] = bmov1alpha1.OperationalStatusOK, "", 0
}

// hardwareKey is the field of a status with the hardware details.
const hardwareKey = "hardware"

// StatusAnnotation makes the annotation from the status of a host as the API server has it. Hardware details are left
// out: they have an object of their own, and would not fit. So are errors that the annotation may not hold.
func StatusAnnotation(status map[string]any) (string, error) {
	kept := make(map[string]any, len(status))
	for key, value := range status {
		if key != hardwareKey {
			kept[key] = value
		}
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
