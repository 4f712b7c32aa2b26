package pivot_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// earlier is the schema of hosts in a release of BMO that has few fields.
const earlier = `{"type": "object", "properties": {
	"spec": {"type": "object", "properties": {
		"online": {"type": "boolean"},
		"raid": {"type": "object", "properties": {
			"softwareRAIDVolumes": {"type": "array", "items": {"type": "object", "properties": {"level": {"type": "string"}}}}}},
		"open": {"type": "object", "additionalProperties": {"type": "string"}},
		"closed": {"type": "object", "additionalProperties": false},
		"any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
	"status": {"type": "object", "properties": {
		"poweredOn": {"type": "boolean"},
		"provisioning": {"type": "object", "properties": {"state": {"type": "string"}}}}}}}`

func TestMissingFields(t *testing.T) {
	var target pivot.FieldSchema
	if err := json.Unmarshal([]byte(earlier), &target); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		reason string
		hosts  []string
		want   string
	}{
		"Fits": {"all fields are known", []string{
			`{"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"online": true}, "status": {"poweredOn": true}}`,
		}, ""},
		"NoStatus": {"a host that BMO has not seen", []string{`{"metadata": {"name": "a"}, "spec": {"online": true}}`}, ""},
		"Spec": {
			"the API server drops it", []string{`{"metadata": {"name": "a"}, "spec": {"disablePowerOff": true}}`},
			"spec.disablePowerOff (BareMetalHost a)",
		},
		"SpecInList": {
			"in a list", []string{
				`{"metadata": {"name": "a"}, "spec": {"raid": {"softwareRAIDVolumes": [{"level": "1"}, {"rootVolume": true}]}}}`,
			},
			"spec.raid.softwareRAIDVolumes[].rootVolume (BareMetalHost a)",
		},
		"SpecZero": {"the same as a missing field", []string{
			`{"metadata": {"name": "a"}, "spec": {"b": false, "s": "", "n": 0, "l": [], "m": {}, "z": null}}`,
		}, ""},
		"SpecKeys": {"any key fits", []string{
			`{"metadata": {"name": "a"}, "spec": {"open": {"k": "v"}, "any": {"k": "v"}}}`,
		}, ""},
		"SpecClosed": {
			"no key fits", []string{`{"metadata": {"name": "a"}, "spec": {"closed": {"k": "v"}}}`},
			"spec.closed.k (BareMetalHost a)",
		},
		"Status": {
			"the webhook refuses it, also without a value", []string{`{"metadata": {"name": "a"}, "status": {"errorCount": 0}}`},
			"status.errorCount (BareMetalHost a)",
		},
		"StatusWithin": {
			"in an object", []string{`{"metadata": {"name": "a"}, "status": {"provisioning": {"bootMode": "UEFI"}}}`},
			"status.provisioning.bootMode (BareMetalHost a)",
		},
		"StatusOfLater": {"a move does not record it", []string{
			`{"metadata": {"name": "a"}, "status": {"provisioningFailCount": 3, "hardware": {"hostname": "x"}}}`,
		}, ""},
		"Each": {
			"each field once", []string{
				`{"metadata": {"name": "a"}, "spec": {"x": 1}}`, `{"metadata": {"name": "b"}, "spec": {"y": 1, "x": 1}}`,
			},
			"spec.x (BareMetalHost a); spec.y (BareMetalHost b)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var hosts []map[string]any
			for _, host := range tc.hosts {
				hosts = append(hosts, object(t, host))
			}
			got, err := pivot.MissingFields(target, hosts)
			if err != nil {
				t.Fatal(err)
			}
			var want []pivot.Obstacle
			if tc.want != "" {
				want = []pivot.Obstacle{{
					Code: pivot.CodeDefinitionOutdated, Kind: "CustomResourceDefinition", Name: "baremetalhosts.metal3.io",
					Message: "CustomResourceDefinition baremetalhosts.metal3.io lacks fields that hosts use: " + tc.want,
					Remedy:  "install the release of BMO that the source runs, or a later one",
				}}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestMissingFieldsOfAnotherType(t *testing.T) {
	host := object(t, `{"metadata": {"name": "a"}, "status": {"poweredOn": "yes"}}`)
	_, err := pivot.MissingFields(pivot.FieldSchema{}, []map[string]any{host})
	if err == nil {
		t.Error("a status that cannot be recorded is not reported")
	}
}

func TestCovers(t *testing.T) {
	of := func(spec string) pivot.FieldSchema {
		var schema pivot.FieldSchema
		if err := json.Unmarshal([]byte(`{"properties": {"spec": `+spec+`}}`), &schema); err != nil {
			t.Fatal(err)
		}
		return schema
	}
	const (
		plain  = `{"properties": {"a": {}, "l": {"items": {"properties": {"x": {}}}}}}`
		more   = `{"properties": {"a": {}, "b": {}, "l": {"items": {"properties": {"x": {}}}}}}`
		within = `{"properties": {"a": {}, "l": {"items": {"properties": {"x": {}, "y": {}}}}}}`
		open   = `{"x-kubernetes-preserve-unknown-fields": true}`
		keys   = `{"properties": {"a": {"additionalProperties": {"type": "string"}}}}`
	)
	for name, tc := range map[string]struct {
		reason       string
		target, from string
		want         bool
	}{
		"Same":      {"the same release", plain, plain, true},
		"Newer":     {"the target has more", more, plain, true},
		"Older":     {"the target lacks a field", plain, more, false},
		"OlderItem": {"the target lacks a field of the items of a list", plain, within, false},
		"Open":      {"the target keeps all fields", open, more, true},
		"Closed":    {"the source keeps all fields", plain, open, false},
		"Keys":      {"the source has any key", plain, keys, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := of(tc.target).Covers(of(tc.from)); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
	status := pivot.FieldSchema{Properties: map[string]pivot.FieldSchema{"status": of(plain).Properties["spec"]}}
	if of(plain).Covers(status) {
		t.Error("the status does not count")
	}
}
