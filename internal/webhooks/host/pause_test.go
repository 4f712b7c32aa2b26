package host_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/host"
)

const (
	moving = `"clusterctl.cluster.x-k8s.io/delete-for-move":""`
	byUser = `"baremetalhost.metal3.io/paused":"maintenance"`
	byUs   = `"baremetalhost.metal3.io/paused":"metal3.io/capm3"`
)

// annotated is a host with annotations, and with a field of a future version.
func annotated(annotations ...string) string {
	return `{"metadata":{"name":"host","annotations":{` + strings.Join(annotations, ",") + `}},"spec":{"later":1}}`
}

func TestPauseIsRestored(t *testing.T) {
	put := func(value string) string {
		pause := `[{"op":"add","path":"/metadata/annotations/baremetalhost.metal3.io~1paused","value":"` + value + `"}`
		if value != infrav1.HostPausedByProvider {
			return pause + "]"
		}
		return pause + `,{"op":"add","path":"/metadata/annotations/infrastructure.cluster.x-k8s.io~1pause-reason","value":"` +
			pivot.PauseReason(pivot.Pause) + `"}]`
	}
	cases := map[string]struct {
		reason        string
		before, after string
		want          string
	}{
		"PausedForTheMove": {
			"the write of clusterctl replaces all annotations", annotated(byUs, `"a":"b"`), annotated(moving),
			put("metal3.io/capm3"),
		},
		"PausedByUser": {
			"the pause keeps its owner", annotated(byUser), annotated(moving), put("maintenance"),
		},
		"PausedWithoutValue": {
			"any value is a pause", annotated(`"baremetalhost.metal3.io/paused":""`), annotated(moving), put(""),
		},
		"NotPaused": {
			"an unpaused host that is moved away is paused", annotated(`"a":"b"`), annotated(moving), put("metal3.io/capm3"),
		},
		"NoAnnotations": {
			"so is a host without annotations", `{"metadata":{"name":"host"}}`, annotated(moving), put("metal3.io/capm3"),
		},
		"NullAnnotations": {
			"null means no annotations", `{"metadata":{"annotations":null}}`, annotated(moving), put("metal3.io/capm3"),
		},
		"Again": {
			"clusterctl repeats its write", annotated(moving, byUser), annotated(moving), put("maintenance"),
		},
		"StillPaused": {
			"the pause was not lost", annotated(byUser), annotated(moving, byUser), "",
		},
		"OtherPause": {
			"a user pauses it with another value", annotated(byUser), annotated(moving, byUs), "",
		},
		"NoMove": {
			"a user unpauses a host that is not moved", annotated(byUs), annotated(`"a":"b"`), "",
		},
		"MoveIsOver": {
			"a user unpauses a host after removing delete-for-move", annotated(moving, byUs), annotated(), "",
		},
		"AllAnnotationsGone": {
			"without delete-for-move nothing is moved", annotated(byUs), `{"metadata":{"name":"host"}}`, "",
		},
		"FinalizersGo": {
			"the last write of clusterctl", `{"metadata":{"finalizers":["f"],"annotations":{` + moving + `,` + byUs + `}}}`,
			annotated(moving, byUs), "",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			response := review(t, tc.before, tc.after)
			if !response.Allowed {
				t.Fatalf("%s: refused: %v", tc.reason, response.Result)
			}
			if diff := cmp.Diff(tc.want, string(response.Patch)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if typed := response.PatchType != nil; typed != (tc.want != "") {
				t.Errorf("%s: patch type set: %t", tc.reason, typed)
			}
		})
	}
}

// TestArrival creates hosts with the finalizer of BMO.
func TestArrival(t *testing.T) {
	arriving := func(annotations, spec string) string {
		return `{"metadata":{"name":"host","finalizers":["baremetalhost.metal3.io"],"annotations":` + annotations + `},"spec":{` +
			spec + `},"status":{"provisioning":{"state":"provisioned"}}}`
	}
	const why = `"baremetalhost.metal3.io/paused":"metal3.io/capm3","infrastructure.cluster.x-k8s.io/pause-reason":` +
		`"The host has an image and arrived without its status: resumed when the Machine that holds it has its Node"`
	const image = `"later":1,"image":{"url":"http://images.example/node"}`
	for name, tc := range map[string]struct {
		reason, host, want string
	}{
		"FromBackup": {
			"BMO would provision it again", arriving(`{"a":"b"}`, image),
			`[{"op":"add","path":"/metadata/annotations","value":{"a":"b",` + why + `}}]`,
		},
		"NoAnnotations": {
			"the annotations are missing", arriving("null", image),
			`[{"op":"add","path":"/metadata/annotations","value":{` + why + `}}]`,
		},
		"Paused":     {"the pause keeps its owner", arriving(`{`+byUser+`}`, image), ""},
		"WithStatus": {"the host has its status", arriving(`{"baremetalhost.metal3.io/status":"{}"}`, image), ""},
		"NoImage":    {"the host has no image", arriving("null", `"online":true`), ""},
		"New":        {"a new host has no finalizer", `{"metadata":{"name":"host"},"spec":{` + image + `}}`, ""},
	} {
		response := reviewAt(t, host.ArrivalPath, admissionv1.AdmissionRequest{
			Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(tc.host)},
		})
		if diff := cmp.Diff(tc.want, string(response.Patch)); !response.Allowed || diff != "" {
			t.Errorf("%s: %s: allowed %t, -want +got:\n%s", name, tc.reason, response.Allowed, diff)
		}
	}
	response := reviewAt(t, host.ArrivalPath, admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(`{"metadata":1}`)},
	})
	if response.Allowed || !strings.HasPrefix(response.Result.Message, "reading the host host-0: ") {
		t.Errorf("allowed %t, %s", response.Allowed, response.Result.Message)
	}
}

func TestInvalidHostIsRefused(t *testing.T) {
	for name, pair := range map[string][2]string{
		"stored host": {`{"metadata":{"annotations":1}}`, annotated(moving)},
		"host":        {annotated(byUs), `{"metadata":{"annotations":1}}`},
	} {
		response := review(t, pair[0], pair[1])
		if response.Allowed || !strings.HasPrefix(response.Result.Message, "reading the "+name+" host-0: ") {
			t.Errorf("%s: allowed %t, %s", name, response.Allowed, response.Result.Message)
		}
	}
}

// TestConfigurationHasThePaths requires that config/webhook has the paths of the webhooks: another path would refuse
// every host that is moved.
func TestConfigurationHasThePaths(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, "config", "webhook", "host_webhook_patch.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{host.Path, host.ArrivalPath, host.AgainPath} {
		if !strings.Contains(string(content), "\n      path: "+path+"\n") {
			t.Errorf("no webhook in config/webhook has path %s", path)
		}
	}
}

// review sends an update to the webhook as the API server does.
func review(t *testing.T, before, after string) *admissionv1.AdmissionResponse {
	t.Helper()
	return reviewAt(t, host.Path, admissionv1.AdmissionRequest{
		Operation: admissionv1.Update,
		OldObject: runtime.RawExtension{Raw: []byte(before)}, Object: runtime.RawExtension{Raw: []byte(after)},
	})
}

// reviewAt sends a request to one of the webhooks.
func reviewAt(t *testing.T, path string, asked admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	asked.UID, asked.Name = "1", "host-0"
	body, err := json.Marshal(admissionv1.AdmissionReview{Request: &asked})
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, ctrl.Options{
		Scheme: runtime.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	host.SetupWithManager(mgr)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	mgr.GetWebhookServer().WebhookMux().ServeHTTP(recorder, request)
	var reviewed admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &reviewed); err != nil {
		t.Fatalf("reading %q: %v", recorder.Body, err)
	}
	return reviewed.Response
}
