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
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1beta1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta1"
	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/host"
)

// registered registers all webhooks. The manager sends no request to its API server.
func registered(t *testing.T) *http.ServeMux {
	t.Helper()
	mgr := manager(t, infrav1.AddToScheme, infrav1beta1.AddToScheme)
	if err := webhooks.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	return mgr.GetWebhookServer().WebhookMux()
}

func manager(t *testing.T, versions ...func(*runtime.Scheme) error) ctrl.Manager {
	t.Helper()
	builder := runtime.NewSchemeBuilder(versions...)
	scheme := runtime.NewScheme()
	if err := builder.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

func kinds() []string {
	return []string{
		"Metal3Cluster", "Metal3ClusterTemplate", "Metal3Data", "Metal3DataClaim", "Metal3DataTemplate", "Metal3Machine",
		"Metal3MachineTemplate", "Metal3Remediation", "Metal3RemediationTemplate",
	}
}

// announcement is the configuration of a webhook in a marker.
type announcement struct{ path, resource string }

// announced returns the markers of all webhooks by path.
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

// TestEveryWebhookIsAnnounced compares markers and registered webhooks. A webhook without a marker is never called,
// and a marker without a webhook refuses every write.
func TestEveryWebhookIsAnnounced(t *testing.T) {
	mux, markers := registered(t), announced(t)
	const suffix = "-infrastructure-cluster-x-k8s-io-v1beta2-"
	var resources []string
	for _, kind := range kinds() {
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
		t.Errorf("got %d markers, want nine validators and three defaulters", len(markers))
	}
}

// TestHostWebhookIsRegistered requires a webhook that has no marker: config/webhook has it.
func TestHostWebhookIsRegistered(t *testing.T) {
	if !handles(t, registered(t), host.Path) {
		t.Errorf("no webhook is registered at %s", host.Path)
	}
}

func handles(t *testing.T, mux *http.ServeMux, path string) bool {
	t.Helper()
	_, pattern := mux.Handler(httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, http.NoBody))
	return pattern == path
}

// post sends a request as the API server does.
func post(t *testing.T, path string, question, answer any) {
	t.Helper()
	body, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	registered(t).ServeHTTP(recorder, request)
	if err := json.Unmarshal(recorder.Body.Bytes(), answer); err != nil {
		t.Fatalf("reading %q: %v", recorder.Body, err)
	}
}

func review(t *testing.T, path string, request admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	request.UID = "1"
	var reviewed admissionv1.AdmissionReview
	post(t, path, admissionv1.AdmissionReview{Request: &request}, &reviewed)
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
		`"other": is "stored" and does not change; restore it: the hosts of the cluster are registered under it`
	if diff := cmp.Diff(want, refused.Result.Message); diff != "" || refused.Allowed {
		t.Errorf("allowed %t, message (-want +got):\n%s", refused.Allowed, diff)
	}
}

func TestSetupRequiresBothVersions(t *testing.T) {
	err := webhooks.SetupWithManager(manager(t, infrav1.AddToScheme))
	const want = "registering the webhooks of *v1beta2.Metal3Cluster: "
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("a scheme without the old version is refused, got %v", err)
	}
}

// TestConversionOverHTTP requests each kind in the old version, as garbage collection does.
func TestConversionOverHTTP(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			object := raw(`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"` + kind +
				`","metadata":{"name":"stored","namespace":"metal3","managedFields":[{"manager":"a"}]}}`)
			asked := apiextensionsv1.ConversionReview{Request: &apiextensionsv1.ConversionRequest{
				UID: "1", DesiredAPIVersion: infrav1beta1.GroupVersion.String(), Objects: []runtime.RawExtension{object},
			}}
			var answer apiextensionsv1.ConversionReview
			post(t, "/convert", asked, &answer)
			if answer.Response == nil || answer.Response.Result.Status != metav1.StatusSuccess {
				t.Fatalf("got %+v", answer.Response)
			}
			var converted metav1.PartialObjectMetadata
			if err := json.Unmarshal(answer.Response.ConvertedObjects[0].Raw, &converted); err != nil {
				t.Fatal(err)
			}
			want := metav1.TypeMeta{APIVersion: infrav1beta1.GroupVersion.String(), Kind: kind}
			if diff := cmp.Diff(want, converted.TypeMeta); diff != "" || converted.Name != "stored" {
				t.Errorf("name %q (-want +got):\n%s", converted.Name, diff)
			}
			if converted.ManagedFields != nil {
				t.Errorf("converted %v, which the API server ignores", converted.ManagedFields)
			}
		})
	}
}
