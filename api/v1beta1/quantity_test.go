package v1beta1_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// TestQuantities expects that the schema accepts a quantity if Parse does, and that each can be decoded.
func TestQuantities(t *testing.T) {
	definition := definitions(t, "Metal3MachineTemplate")["v1beta2"]
	for text, valid := range map[string]bool{
		`0`: true, `2`: true, `-1`: true, `8589934592`: true, `"2"`: true, `"250m"`: true, `"1.5"`: true, `".5Gi"`: true,
		`"1."`: true, `"+1E"`: true, `"1e3"`: true, `"1E+3"`: true, `"1e-99"`: true, `"1e99"`: true, `"1n"`: true,
		`"` + strings.Repeat("9", 32) + `"`: true, `"` + strings.Repeat("9", 30) + `Ei"`: true,
		`"1e1.5"`: false, `"1e-999999999"`: false, `"1e999999999"`: false, `"1e100"`: false, `"1e"`: false, `""`: false,
		`"."`: false, `"1 Gi"`: false, `"1Gb"`: false, `"one"`: false, `"` + strings.Repeat("9", 33) + `"`: false,
		`"1\n"`: false,
	} {
		object := map[string]any{}
		status := fmt.Sprintf(`{"status": {"capacity": {"cpu": %s}}}`, text)
		if err := json.Unmarshal([]byte(status), &object); err != nil {
			t.Fatal(err)
		}
		if _, problems := definition.admit(t, object); (len(problems) == 0) != valid {
			t.Errorf("%s: the schema reports %q", text, problems)
		}
		var template infrav1.Metal3MachineTemplate
		if err := json.Unmarshal([]byte(status), &template); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		capacity := template.Status.Capacity[corev1.ResourceCPU]
		if string(capacity) != strings.Trim(strings.ReplaceAll(text, `\n`, "\n"), `"`) {
			t.Errorf("%s is decoded as %q", text, capacity)
		}
		if _, err := capacity.Parse(); (err == nil) != valid {
			t.Errorf("%s: Parse returns %v", text, err)
		}
	}
}
