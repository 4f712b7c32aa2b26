package manifests_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

const targetNamespace = "target"

// sample returns a value for each variable without a default.
func sample() []string {
	return []string{
		"CLUSTER_APIENDPOINT_HOST=192.0.2.10", "KUBERNETES_VERSION=v1.36.3",
		"IRONIC_ADDRESS=192.0.2.20", "IRONIC_CIDR=192.0.2.0/24",
		"IMAGE_URL=http://192.0.2.1/node.qcow2", "IMAGE_CHECKSUM=http://192.0.2.1/node.qcow2.sha256sum",
	}
}

// render returns the objects that clusterctl renders from a flavour.
func (r release) render(t *testing.T, flavour string, variables ...string) []unstructured.Unstructured {
	t.Helper()
	return split(t, r.clusterctl(t, append(sample(), variables...), "generate", "cluster", "example",
		"--infrastructure", "metal3:"+r.version, "--target-namespace", targetNamespace, "--flavor", flavour))
}

func TestTemplatesAreValid(t *testing.T) {
	made := newRelease(t)
	validators := newValidators(t)
	for _, flavour := range flavours(t) {
		t.Run("flavour "+flavour, func(t *testing.T) {
			checkObjects(t, validators, made.render(t, flavour))
		})
	}
}

// TestTemplatesAcceptIPv6 requires that addresses of IPv6 in variables need no quotes.
func TestTemplatesAcceptIPv6(t *testing.T) {
	made := newRelease(t)
	validators := newValidators(t)
	for _, flavour := range flavours(t) {
		t.Run("flavour "+flavour, func(t *testing.T) {
			objects := made.render(t, flavour, "CLUSTER_APIENDPOINT_HOST=fd00:172:22::3", "POD_CIDR=fd01::/48",
				"SERVICE_CIDR=fd02::/112", "IRONIC_ADDRESS=fd00:172:22::2", "IRONIC_CIDR=fd00:172:22::/64",
				"IRONIC_PEERS=[fd00:172:22::21, fd00:172:22::22]")
			checkObjects(t, validators, objects)
			cluster := only[clusterv1.Cluster](t, objects, "Cluster")
			if pods := cluster.Spec.ClusterNetwork.Pods.CIDRBlocks; !slices.Equal(pods, []string{"fd01::/48"}) {
				t.Errorf("the networks of the pods are %q", pods)
			}
		})
	}
}

// TestPeersFromFile requires that the document about templates shows how peers reach the cluster from clusterctl.yaml.
func TestPeersFromFile(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(checkout(t), "docs", "templates.md"))
	if err != nil {
		t.Fatal(err)
	}
	setting := regexp.MustCompile(`(?m)^IRONIC_PEERS: .*$`).Find(page)
	made := newRelease(t)
	content, err := os.ReadFile(made.config)
	if err != nil {
		t.Fatal(err)
	}
	made.config = filepath.Join(t.TempDir(), "clusterctl.yaml")
	if err := os.WriteFile(made.config, append(content, setting...), 0o600); err != nil {
		t.Fatal(err)
	}
	infra := only[infrav1.Metal3Cluster](t, made.render(t, "ironic"), "Metal3Cluster")
	want := []string{"172.22.0.10", "172.22.0.21"}
	if peers := infra.Spec.Ironic.VRRP.Peers; !slices.Equal(peers, want) {
		t.Errorf("%s: the peers are %q, want %q", setting, peers, want)
	}
}

// checkObjects validates objects as an API server does. It requires that they refer only to each other and that the
// data templates of the machines exist.
func checkObjects(t *testing.T, validators map[schema.GroupVersionKind]validation.SchemaValidator,
	objects []unstructured.Unstructured) {
	t.Helper()
	scheme := newScheme(t)
	names := map[string]bool{}
	for _, object := range objects {
		names[object.GetKind()+"/"+object.GetName()] = true
	}
	for _, object := range objects {
		decodeKnown(t, scheme, object)
		checkAdmission(t, object)
		template, hasTemplate, _ := unstructured.NestedString(object.Object, "spec", "template", "spec", "dataTemplate", "name")
		if hasTemplate && !names["Metal3DataTemplate/"+template] {
			t.Errorf("%s refers to Metal3DataTemplate %s, which is missing", title(object), template)
		}
		if object.GetNamespace() != targetNamespace {
			t.Errorf("%s is in namespace %q, want %q", title(object), object.GetNamespace(), targetNamespace)
		}
		validator, known := validators[object.GroupVersionKind()]
		if !known {
			t.Errorf("%s: no CRD serves %s", title(object), object.GroupVersionKind())
			continue
		}
		if problems := validation.ValidateCustomResource(nil, object.Object, validator); len(problems) != 0 {
			t.Errorf("%s: %v", title(object), problems.ToAggregate())
		}
		for _, reference := range references(object.Object) {
			if !names[reference] {
				t.Errorf("%s refers to %s, which is missing", title(object), reference)
			}
		}
	}
}

// references returns the references in a value, as kind/name.
func references(value any) []string {
	var found []string
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			found = append(found, references(item)...)
		}
	case map[string]any:
		for key, item := range value {
			if fields, isMap := item.(map[string]any); isMap {
				found = append(found, reference(key, fields)...)
			}
			found = append(found, references(item)...)
		}
	}
	return found
}

// reference returns the reference in a field, if there is one.
func reference(field string, content map[string]any) []string {
	name, hasName, _ := unstructured.NestedString(content, "name")
	kind, hasKind, _ := unstructured.NestedString(content, "kind")
	switch {
	case hasName && field == "dataTemplate":
		return []string{"Metal3DataTemplate/" + name}
	case hasName && hasKind && strings.HasSuffix(field, "Ref"):
		return []string{kind + "/" + name}
	default:
		return nil
	}
}

// newValidators returns the validators of an API server for the kinds of this provider and of Cluster API.
func newValidators(t *testing.T) map[schema.GroupVersionKind]validation.SchemaValidator {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api")
	list.Dir = checkout(t)
	module := strings.TrimSpace(string(output(t, list)))
	found := ofKind(components(t), "CustomResourceDefinition")
	for _, part := range []string{"core", "bootstrap/kubeadm", "controlplane/kubeadm"} {
		paths, err := filepath.Glob(filepath.Join(module, filepath.FromSlash(part), "config", "crd", "bases", "*.yaml"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("finding the CRDs of %s: %v", part, err)
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, split(t, content)...)
		}
	}
	validators := map[schema.GroupVersionKind]validation.SchemaValidator{}
	for _, object := range found {
		addValidators(t, object, validators)
	}
	return validators
}

func addValidators(t *testing.T, object unstructured.Unstructured,
	validators map[schema.GroupVersionKind]validation.SchemaValidator) {
	t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	decode(t, object, definition)
	for _, version := range definition.Spec.Versions {
		internal := &apiextensions.CustomResourceValidation{}
		err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(
			version.Schema, internal, nil)
		if err != nil {
			t.Fatal(err)
		}
		validator, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
		if err != nil {
			t.Fatal(err)
		}
		kind := schema.GroupVersionKind{
			Group: definition.Spec.Group, Version: version.Name, Kind: definition.Spec.Names.Kind,
		}
		validators[kind] = validator
	}
}

// TestDefaultTemplateTakesTheVariablesOfCAPM3 uses variables of CAPM3 that contain YAML, and variables that look like
// addresses.
func TestDefaultTemplateTakesTheVariablesOfCAPM3(t *testing.T) {
	folder := os.Getenv("CAPM3_MANIFESTS")
	if folder == "" {
		t.Skip("requires CAPM3_MANIFESTS: a folder with manifests and variables of CAPM3")
	}
	source := exec.CommandContext(t.Context(), "bash", "-c", `set -a; source "$0" 2>/dev/null; env -0`,
		filepath.Join(folder, "variables.rc"))
	source.Env = []string{"PATH=" + os.Getenv("PATH")}
	variables := strings.Split(strings.TrimSuffix(string(output(t, source)), "\x00"), "\x00")
	if !slices.ContainsFunc(variables, func(variable string) bool {
		return strings.HasPrefix(variable, "CTLPLANE_KUBEADM_EXTRA_CONFIG=")
	}) {
		t.Fatal("variables.rc sets no CTLPLANE_KUBEADM_EXTRA_CONFIG")
	}

	objects := newRelease(t).render(t, "", variables...)
	checkObjects(t, newValidators(t), objects)
	for kind, path := range map[string][]string{
		"KubeadmControlPlane":   {"spec", "kubeadmConfigSpec"},
		"KubeadmConfigTemplate": {"spec", "template", "spec"},
	} {
		for _, object := range ofKind(objects, kind) {
			commands, _, _ := unstructured.NestedStringSlice(object.Object, append(path, "preKubeadmCommands")...)
			files, _, _ := unstructured.NestedSlice(object.Object, append(path, "files")...)
			if len(commands) == 0 || len(files) == 0 {
				t.Errorf("%s has %d commands and %d files, want those of variables.rc", title(object), len(commands), len(files))
			}
		}
	}
}

// clusterClass returns the ClusterClass of the release.
func clusterClass(t *testing.T) *clusterv1.ClusterClass {
	t.Helper()
	return only[clusterv1.ClusterClass](t, classObjects(t), "ClusterClass")
}

func classObjects(t *testing.T) []unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(checkout(t), "templates", "clusterclass-metal3.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return split(t, content)
}

// TestClassPatchesHaveAnEffect requires paths below spec.template.spec, because Cluster API ignores other paths.
func TestClassPatchesHaveAnEffect(t *testing.T) {
	class := clusterClass(t)
	if class.Name != "metal3" {
		t.Errorf("clusterclass-metal3.yaml has the class %s, but clusterctl requires the name in the file name", class.Name)
	}
	var templates []string
	for _, object := range classObjects(t) {
		templates = append(templates, object.GetAPIVersion()+"/"+object.GetKind())
	}
	var variables []string
	for _, variable := range class.Spec.Variables {
		variables = append(variables, variable.Name)
	}
	for _, patch := range class.Spec.Patches {
		for _, definition := range patch.Definitions {
			selected := definition.Selector.APIVersion + "/" + definition.Selector.Kind
			if !slices.Contains(templates, selected) {
				t.Errorf("patch %s selects %s, which the class does not have", patch.Name, selected)
			}
			for _, operation := range definition.JSONPatches {
				if !strings.HasPrefix(operation.Path, "/spec/template/spec/") {
					t.Errorf("patch %s writes %s, which has no effect", patch.Name, operation.Path)
				}
				source := operation.ValueFrom
				if source != nil && source.Variable != "" && !slices.Contains(variables, source.Variable) {
					t.Errorf("patch %s reads the variable %s, which the class does not have", patch.Name, source.Variable)
				}
			}
		}
	}
}
