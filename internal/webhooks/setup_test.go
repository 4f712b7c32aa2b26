package webhooks_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks"
)

// registered sets all webhooks up. The server that the manager would talk to is never asked.
func registered(t *testing.T) *http.ServeMux {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := infrav1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := webhooks.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	return mgr.GetWebhookServer().WebhookMux()
}

// announcement is what a marker tells the API server about a webhook.
type announcement struct{ path, resource string }

// announced reads the markers that the manifests are generated from, by path.
func announced(t *testing.T) map[string]announcement {
	t.Helper()
	files, err := filepath.Glob("v1beta2/*.go")
	if err != nil {
		t.Fatal(err)
	}
	marker := regexp.MustCompile(`(?m)^// \+kubebuilder:webhook:verbs=create;update,path=([^,]+),mutating=(true|false),` +
		`failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure\.cluster\.x-k8s\.io,resources=([^,]+),` +
		`versions=v1beta2,name=(default|validation)\.([^,]+)\.infrastructure\.cluster\.x-k8s\.io,sideEffects=None,` +
		`admissionReviewVersions=v1$`)
	found := map[string]announcement{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		matches := marker.FindAllStringSubmatch(string(text), -1)
		if written := strings.Count(string(text), "+kubebuilder:webhook:"); written != len(matches) {
			t.Errorf("%s: %d of %d markers have the usual form", file, len(matches), written)
		}
		for _, match := range matches {
			if mutating := match[2] == "true"; mutating != strings.HasPrefix(match[1], "/mutate-") ||
				mutating != (match[4] == "default") || !strings.HasSuffix(match[1], "-"+match[5]) {
				t.Errorf("%s: the parts of the marker contradict one another: %s", file, match[0])
			}
			found[match[1]] = announcement{path: match[1], resource: match[3]}
		}
	}
	return found
}

// TestEveryWebhookIsAnnounced: a webhook that is not announced is never called, and one that is not registered refuses
// every write.
func TestEveryWebhookIsAnnounced(t *testing.T) {
	mux, markers := registered(t), announced(t)
	const suffix = "-infrastructure-cluster-x-k8s-io-v1beta2-"
	var resources []string
	for _, kind := range []string{
		"Metal3Cluster", "Metal3ClusterTemplate", "Metal3Data", "Metal3DataClaim", "Metal3DataTemplate", "Metal3Machine",
		"Metal3MachineTemplate", "Metal3Remediation", "Metal3RemediationTemplate",
	} {
		for _, does := range []string{"/validate", "/mutate"} {
			path := does + suffix + strings.ToLower(kind)
			isRegistered := handles(t, mux, path)
			marker, isAnnounced := markers[path]
			if isRegistered != isAnnounced {
				t.Errorf("%s: registered %t, announced %t", path, isRegistered, isAnnounced)
			}
			if does == "/validate" {
				resources = append(resources, marker.resource)
			}
		}
	}
	want := []string{
		"metal3clusters", "metal3clustertemplates", "metal3datas", "metal3dataclaims", "metal3datatemplates",
		"metal3machines", "metal3machinetemplates", "metal3remediations", "metal3remediationtemplates",
	}
	if diff := cmp.Diff(want, resources); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if len(markers) != len(want)+3 {
		t.Errorf("nine kinds are judged and three filled in, but there are %d markers", len(markers))
	}
}

func handles(t *testing.T, mux *http.ServeMux, path string) bool {
	t.Helper()
	_, pattern := mux.Handler(httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, http.NoBody))
	return pattern == path
}

// review sends a request as the API server does.
func review(t *testing.T, path string, request admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	request.UID = types.UID("1")
	body, err := json.Marshal(admissionv1.AdmissionReview{Request: &request})
	if err != nil {
		t.Fatal(err)
	}
	post := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
	post.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	registered(t).ServeHTTP(answer, post)
	var reviewed admissionv1.AdmissionReview
	if err := json.Unmarshal(answer.Body.Bytes(), &reviewed); err != nil {
		t.Fatalf("reading %q: %v", answer.Body, err)
	}
	return reviewed.Response
}

func raw(object string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(object)} }

const ironic = `"endpoint":{"virtualIPs":["172.22.0.2"],"cidrs":["172.22.0.0/24"],"interface":"provisioning"}`

func cluster(clusterID string) runtime.RawExtension {
	return raw(`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"Metal3Cluster",` +
		`"metadata":{"name":"cluster","namespace":"metal3"},"spec":{"ironic":{` + clusterID + ironic + `}}}`)
}

func TestDefaultsOverHTTP(t *testing.T) {
	const path = "/mutate-infrastructure-cluster-x-k8s-io-v1beta2-metal3cluster"
	created := review(t, path, admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: cluster("")})
	again := review(t, path, admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: cluster("")})
	form := regexp.MustCompile(`"path":"/spec/ironic/clusterID","value":"([0-9a-f]{8})"`)
	first, second := form.FindSubmatch(created.Patch), form.FindSubmatch(again.Patch)
	if first == nil || second == nil || string(first[1]) == string(second[1]) {
		t.Errorf("each cluster gets its own identity, got %s and %s", created.Patch, again.Patch)
	}
	updated := review(t, path, admissionv1.AdmissionRequest{
		Operation: admissionv1.Update, Object: cluster(""), OldObject: cluster(`"clusterID":"stored",`),
	})
	if !bytes.Contains(updated.Patch, []byte(`"path":"/spec/ironic/clusterID","value":"stored"`)) {
		t.Errorf("an update without identity keeps the stored one, got %s", updated.Patch)
	}
}

func TestRefusalOverHTTP(t *testing.T) {
	const path = "/validate-infrastructure-cluster-x-k8s-io-v1beta2-metal3cluster"
	refused := review(t, path, admissionv1.AdmissionRequest{
		Operation: admissionv1.Update, Object: cluster(`"clusterID":"other",`), OldObject: cluster(`"clusterID":"stored",`),
	})
	want := `Metal3Cluster.infrastructure.cluster.x-k8s.io "cluster" is invalid: spec.ironic.clusterID: Invalid value: ` +
		`"other": is "stored" and does not change; restore it: the hosts of the cluster are known under it`
	if diff := cmp.Diff(want, refused.Result.Message); diff != "" || refused.Allowed {
		t.Errorf("allowed %t, message (-want +got):\n%s", refused.Allowed, diff)
	}
}

func TestSetupNeedsTheKinds(t *testing.T) {
	mgr, err := ctrl.NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, ctrl.Options{
		Scheme:  runtime.NewScheme(),
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = webhooks.SetupWithManager(mgr)
	if err == nil || !strings.HasPrefix(err.Error(), "looking up *v1beta2.Metal3Cluster in the scheme: ") {
		t.Errorf("a scheme without the kinds is refused, got %v", err)
	}
}
