package manifests_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/v1beta2"
)

// checkAdmission requires that the webhooks admit an object of a template without a warning.
func checkAdmission(t *testing.T, object unstructured.Unstructured) {
	t.Helper()
	if object.GroupVersionKind().GroupVersion() != infrav1.GroupVersion {
		return
	}
	switch kind := object.GetKind(); kind {
	case "Metal3Cluster":
		admit(t, object, &infrav1.Metal3Cluster{}, v1beta2.Metal3ClusterValidator())
	case "Metal3ClusterTemplate":
		admit(t, object, &infrav1.Metal3ClusterTemplate{}, v1beta2.Metal3ClusterTemplateValidator())
	case "Metal3DataTemplate":
		admit(t, object, &infrav1.Metal3DataTemplate{}, v1beta2.Metal3DataTemplateValidator())
	case "Metal3MachineTemplate":
		admit(t, object, &infrav1.Metal3MachineTemplate{}, v1beta2.Metal3MachineTemplateValidator())
	case "Metal3RemediationTemplate":
		admit(t, object, &infrav1.Metal3RemediationTemplate{}, v1beta2.Metal3RemediationTemplateValidator())
	default:
		t.Errorf("%s: the test has no webhook for the kind", title(object))
	}
}

func admit[T runtime.Object](t *testing.T, object unstructured.Unstructured, typed T, validator admission.Validator[T]) {
	t.Helper()
	decode(t, object, typed)
	warnings, err := validator.ValidateCreate(t.Context(), typed)
	if err != nil || len(warnings) > 0 {
		t.Errorf("%s: warnings %q, error %v", title(object), warnings, err)
	}
}
