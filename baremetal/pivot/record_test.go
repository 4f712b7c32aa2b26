package pivot_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

func TestStatusAnnotation(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		status string
		want   string
	}{
		"Known": {
			"all that BMO restores", `{"poweredOn":true,"provisioning":{"state":"provisioned","ID":"x"},"errorCount":0}`,
			`{"poweredOn":true,"provisioning":{"state":"provisioned","ID":"x"},"errorCount":0}`,
		},
		"NothingAdded": {
			"an earlier release refuses fields that it does not have", `{"poweredOn":false}`, `{"poweredOn":false}`,
		},
		"Hardware": {
			"it would not fit, whatever its type", `{"hardware":"another type","poweredOn":true}`, `{"poweredOn":true}`,
		},
		"Later": {
			"a field of a later release", `{"poweredOn":true,"provisioningFailCount":0}`, `{"poweredOn":true}`,
		},
		"LaterWithin": {
			"a field of a later release, in an object", `{"provisioning":{"state":"provisioned","steps":["one"]}}`,
			`{"provisioning":{"state":"provisioned"}}`,
		},
		"LaterInList": {
			"a field of a later release, in a list",
			`{"provisioning":{"raid":{"softwareRAIDVolumes":[{"level":"1","rootVolume":true},{"level":"0"}]}}}`,
			`{"provisioning":{"raid":{"softwareRAIDVolumes":[{"level":"1"},{"level":"0"}]}}}`,
		},
		"Times": {
			"times stay as they are written", `{"lastUpdated":"2026-01-02T03:04:05Z"}`, `{"lastUpdated":"2026-01-02T03:04:05Z"}`,
		},
		"Conditions": {
			"BMO does not compute them again while it cannot read the credentials",
			`{"conditions":[{"type":"Healthy","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z","reason":"A","message":""}]}`,
			`{"conditions":[{"type":"Healthy","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z","reason":"A","message":""}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			annotation, err := pivot.StatusAnnotation(object(t, tc.status))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(object(t, tc.want), object(t, annotation)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			strict := json.NewDecoder(strings.NewReader(annotation))
			strict.DisallowUnknownFields()
			if err := strict.Decode(&bmov1alpha1.BareMetalHostStatus{}); err != nil {
				t.Errorf("%s: the webhook of BMO refuses it: %v", tc.reason, err)
			}
		})
	}
}

func TestStatusAnnotationOfAnotherType(t *testing.T) {
	_, err := pivot.StatusAnnotation(object(t, `{"provisioning":{"state":7}}`))
	if err == nil || !strings.Contains(err.Error(), "provisioning.state") {
		t.Errorf("got error %v, want one that names the field", err)
	}
}

// object parses an object.
func object(t *testing.T, content string) map[string]any {
	t.Helper()
	var parsed map[string]any
	if err := json.Unmarshal([]byte(content), &parsed); err != nil {
		t.Fatal(err)
	}
	return parsed
}
