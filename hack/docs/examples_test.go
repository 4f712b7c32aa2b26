package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/v1beta2"
)

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme,
		bmov1alpha1.AddToScheme, infrav1.AddToScheme,
	} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	return kinds
}

func TestExamplesAreAdmitted(t *testing.T) {
	decoder := serializer.NewCodecFactory(scheme(t), serializer.EnableStrict).UniversalDeserializer()
	schemas := schemas(t)
	shown := map[string]bool{}
	for name, text := range texts(t) {
		for _, example := range blocks(text, "yaml") {
			reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(example.Text)))
			for {
				document, err := reader.Read()
				if errors.Is(err, io.EOF) {
					break
				}
				object, kind, err := decoder.Decode(document, nil, nil)
				if err != nil {
					t.Errorf("%s:%d: %v", name, example.Line, err)
					continue
				}
				shown[kind.Kind] = true
				warnings, err := admit(object)
				if err != nil || len(warnings) > 0 {
					t.Errorf("%s:%d: the example is not admitted silently: %v, warnings %q", name, example.Line, err, warnings)
				}
				for _, problem := range againstSchema(t, schemas[kind.Kind], document) {
					t.Errorf("%s:%d: the schema refuses the example: %v", name, example.Line, problem)
				}
			}
		}
	}
	for _, kind := range []string{
		"Metal3Cluster", "Metal3ClusterTemplate", "Metal3Data", "Metal3DataClaim", "Metal3DataTemplate", "Metal3Machine",
		"Metal3MachineTemplate", "Metal3Remediation", "Metal3RemediationTemplate",
	} {
		if !shown[kind] {
			t.Errorf("no document has an example of a %s", kind)
		}
	}
}

// TestHealthChecksWaitForProvisioning requires a timeout in examples of health checks. By default, Cluster API waits for
// a Node for ten minutes, and the provisioning of a host takes longer.
func TestHealthChecksWaitForProvisioning(t *testing.T) {
	const byDefault = 600
	found := 0
	for name, text := range texts(t) {
		for _, example := range blocks(text, "yaml") {
			check := &clusterv1.MachineHealthCheck{}
			if !strings.Contains(example.Text, "kind: MachineHealthCheck\n") {
				continue
			}
			if err := yaml.UnmarshalStrict([]byte(example.Text), check); err != nil {
				t.Fatalf("%s:%d: %v", name, example.Line, err)
			}
			found++
			if timeout := check.Spec.Checks.NodeStartupTimeoutSeconds; timeout == nil || *timeout <= byDefault {
				t.Errorf("%s:%d: the example replaces machines while their hosts are provisioned", name, example.Line)
			}
		}
	}
	if found == 0 {
		t.Error("no document has an example of a MachineHealthCheck: correct this test")
	}
}

// admit runs the rules of admission for the creation of an object. It skips kinds of other projects.
func admit(object runtime.Object) (admission.Warnings, error) {
	ctx := context.Background()
	switch typed := object.(type) {
	case *infrav1.Metal3Cluster:
		return v1beta2.Metal3ClusterValidator().ValidateCreate(ctx, typed)
	case *infrav1.Metal3ClusterTemplate:
		return v1beta2.Metal3ClusterTemplateValidator().ValidateCreate(ctx, typed)
	case *infrav1.Metal3Data:
		return v1beta2.Metal3DataValidator().ValidateCreate(ctx, typed)
	case *infrav1.Metal3DataClaim:
		return v1beta2.Metal3DataClaimValidator().ValidateCreate(ctx, typed)
	case *infrav1.Metal3DataTemplate:
		return v1beta2.Metal3DataTemplateValidator().ValidateCreate(ctx, typed)
	case *infrav1.Metal3Machine:
		return v1beta2.Metal3MachineValidator().ValidateCreate(ctx, typed)
	case *infrav1.Metal3MachineTemplate:
		return v1beta2.Metal3MachineTemplateValidator().ValidateCreate(ctx, typed)
	case *infrav1.Metal3Remediation:
		return v1beta2.Metal3RemediationValidator().ValidateCreate(ctx, typed)
	case *infrav1.Metal3RemediationTemplate:
		return v1beta2.Metal3RemediationTemplateValidator().ValidateCreate(ctx, typed)
	case runtime.Unstructured:
		return nil, fmt.Errorf("%T is not a typed object", object)
	default:
		return nil, nil
	}
}

// schemas returns the validators of the stored version, by kind.
func schemas(t *testing.T) map[string]validation.SchemaValidator {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), "config", "crd", "bases", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]validation.SchemaValidator{}
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, definition); err != nil {
			t.Fatal(err)
		}
		for _, version := range definition.Spec.Versions {
			if version.Name == infrav1.GroupVersion.Version {
				found[definition.Spec.Names.Kind] = schemaValidator(t, version.Schema.OpenAPIV3Schema)
			}
		}
	}
	return found
}

func schemaValidator(t *testing.T, schema *apiextensionsv1.JSONSchemaProps) validation.SchemaValidator {
	t.Helper()
	internal := &apiextensions.JSONSchemaProps{}
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(schema, internal, nil)
	if err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		t.Fatal(err)
	}
	return validator
}

// againstSchema validates an example of a kind of this provider. Other kinds have no schema here.
func againstSchema(t *testing.T, validator validation.SchemaValidator, document []byte) field.ErrorList {
	t.Helper()
	if validator == nil {
		return nil
	}
	content := map[string]any{}
	if err := yaml.Unmarshal(document, &content); err != nil {
		t.Fatal(err)
	}
	return validation.ValidateCustomResource(nil, content, validator)
}
