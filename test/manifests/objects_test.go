package manifests_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiyaml "k8s.io/apimachinery/pkg/util/yaml"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// checkout returns the top of the checkout.
func checkout(t *testing.T) string {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// program returns the path of a pinned program, and builds it if required.
func program(t *testing.T, set binaries.Set, name string) string {
	t.Helper()
	folder, err := binaries.Ensure(t.Context(), checkout(t), set, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, name)
}

func output(t *testing.T, command *exec.Cmd) []byte {
	t.Helper()
	var printed, problems bytes.Buffer
	command.Stdout, command.Stderr = &printed, &problems
	if err := command.Run(); err != nil {
		t.Fatalf("running %s: %v\n%s", command, err, problems.String())
	}
	return printed.Bytes()
}

// shared are results that several tests use and do not change. folder is removed at the end.
var shared struct {
	folder string

	components struct {
		once    sync.Once
		objects []unstructured.Unstructured
	}
	release struct {
		once sync.Once
		release
	}
}

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "manifests-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "Unable to create a folder:", err)
		os.Exit(1)
	}
	shared.folder = folder
	code := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

// components returns the objects of config/default. They still contain variables of clusterctl.
func components(t *testing.T) []unstructured.Unstructured {
	t.Helper()
	all := &shared.components
	all.once.Do(func() {
		command := exec.CommandContext(t.Context(), program(t, binaries.Tools(), "kustomize"), "build", "config/default")
		command.Dir = checkout(t)
		all.objects = split(t, output(t, command))
	})
	if len(all.objects) == 0 {
		t.Fatal("an earlier test could not build config/default")
	}
	copies := make([]unstructured.Unstructured, len(all.objects))
	for i := range all.objects {
		all.objects[i].DeepCopyInto(&copies[i])
	}
	return copies
}

// release is a release that make writes, as a repository of clusterctl.
type release struct {
	version string
	// folder has the files of the release.
	folder string
	// config is the clusterctl.yaml for the release.
	config string
}

func newRelease(t *testing.T) release {
	t.Helper()
	shared.release.once.Do(func() { shared.release.release = writeRelease(t, shared.folder) })
	if shared.release.config == "" {
		t.Fatal("an earlier test could not write the release")
	}
	return shared.release.release
}

func writeRelease(t *testing.T, into string) release {
	t.Helper()
	version := defaultVersion(t)
	repository := filepath.Join(into, "infrastructure-metal3")
	command := exec.CommandContext(t.Context(), "go", "run", "./hack/releasemanifests",
		"-version", version, "-output", repository)
	command.Dir = checkout(t)
	output(t, command)

	folder := filepath.Join(repository, version)
	config := filepath.Join(into, "clusterctl.yaml")
	content := "providers:\n- {name: metal3, type: InfrastructureProvider, url: " +
		filepath.Join(folder, "infrastructure-components.yaml") + "}\n"
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return release{version: version, folder: folder, config: config}
}

// clusterctl runs clusterctl on the release, only with these variables, without network and cluster.
func (r release) clusterctl(t *testing.T, variables []string, arguments ...string) []byte {
	t.Helper()
	arguments = append(arguments, "--config", r.config)
	command := exec.CommandContext(t.Context(), program(t, binaries.ClusterAPI(), "clusterctl"), arguments...)
	home := t.TempDir()
	command.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_CONFIG_HOME=" + home,
		"CLUSTERCTL_DISABLE_VERSIONCHECK=1", "GOPROXY=off",
	}, variables...)
	return output(t, command)
}

// defaultVersion returns the version that make releases.
func defaultVersion(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(checkout(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`(?m)^VERSION \?= (\S+)$`).FindSubmatch(content)
	if match == nil {
		t.Fatal("the Makefile sets no VERSION")
	}
	return string(match[1])
}

// split returns the objects of a file of documents. A duplicate key is an error.
func split(t *testing.T, documents []byte) []unstructured.Unstructured {
	t.Helper()
	var objects []unstructured.Unstructured
	reader := apiyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(documents)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		object := unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			t.Fatalf("reading a document: %v\n%s", err, document)
		}
		if len(object.Object) != 0 {
			objects = append(objects, object)
		}
	}
}

// ofKind returns the objects of a kind.
func ofKind(objects []unstructured.Unstructured, kind string) []unstructured.Unstructured {
	var found []unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() == kind {
			found = append(found, object)
		}
	}
	return found
}

// only returns the only object of a kind, with its type.
func only[T any](t *testing.T, objects []unstructured.Unstructured, kind string) *T {
	t.Helper()
	found := ofKind(objects, kind)
	if len(found) != 1 {
		t.Fatalf("got %d objects of kind %s, want one", len(found), kind)
	}
	typed := new(T)
	decode(t, found[0], typed)
	return typed
}

// decode decodes an object into its type. An unknown field is an error.
func decode(t *testing.T, object unstructured.Unstructured, into any) {
	t.Helper()
	content, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(content, into); err != nil {
		t.Errorf("decoding %s %s: %v", object.GetKind(), object.GetName(), err)
	}
}

// decodeKnown decodes an object of any kind of the scheme. Kinds of cert-manager are not in it.
func decodeKnown(t *testing.T, scheme *runtime.Scheme, object unstructured.Unstructured) {
	t.Helper()
	kind := object.GroupVersionKind()
	if kind.Group == "cert-manager.io" {
		return
	}
	typed, err := scheme.New(kind)
	if err != nil {
		t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		return
	}
	decode(t, object, typed)
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admissionregistrationv1.AddToScheme, apiextensionsv1.AddToScheme, appsv1.AddToScheme, corev1.AddToScheme,
		rbacv1.AddToScheme,
		bootstrapv1.AddToScheme, clusterv1.AddToScheme, controlplanev1.AddToScheme, infrav1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

func title(object unstructured.Unstructured) string {
	return strings.TrimSpace(object.GetKind() + " " + object.GetName())
}
