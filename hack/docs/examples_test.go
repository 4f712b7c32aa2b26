package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

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
				warnings, err := admit(object)
				if err != nil || len(warnings) > 0 {
					t.Errorf("%s:%d: the example is not admitted silently: %v, warnings %q", name, example.Line, err, warnings)
				}
				if strings.HasPrefix(name, "docs/spec/") {
					shown[kind.Kind] = true
				}
			}
		}
	}
	for _, kind := range []string{
		"Metal3Cluster", "Metal3ClusterTemplate", "Metal3Data", "Metal3DataClaim", "Metal3DataTemplate", "Metal3Machine",
		"Metal3MachineTemplate", "Metal3Remediation", "Metal3RemediationTemplate",
	} {
		if !shown[kind] {
			t.Errorf("no page of docs/spec has an example of a %s", kind)
		}
	}
}

// admit asks the rules of admission what they think of the creation of an object. Kinds of others are not judged.
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
