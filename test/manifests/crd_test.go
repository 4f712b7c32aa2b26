package manifests_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/contract"
)

const (
	skipNameCheckAnnotation = "clusterctl.cluster.x-k8s.io/skip-crd-name-preflight-check"
	injectAnnotation        = "cert-manager.io/inject-ca-from"
	certificate             = "capm3-system/capm3-serving-cert"
	moveLabel               = "clusterctl.cluster.x-k8s.io/move"
	group                   = "infrastructure.cluster.x-k8s.io"
)

// definitions returns the installed CRDs by kind.
func definitions(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	found := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, object := range ofKind(components(t), "CustomResourceDefinition") {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		decode(t, object, definition)
		found[definition.Spec.Names.Kind] = definition
	}
	return found
}

func TestAllKindsAreInstalled(t *testing.T) {
	got := slices.Sorted(maps.Keys(definitions(t)))
	want := []string{
		"Metal3Cluster", "Metal3ClusterTemplate", "Metal3Data", "Metal3DataClaim", "Metal3DataTemplate",
		"Metal3Machine", "Metal3MachineTemplate", "Metal3Remediation", "Metal3RemediationTemplate",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds: -want, +got:\n%s", diff)
	}
}

func TestDefinitionsAreRecognised(t *testing.T) {
	want := map[string]string{
		"cluster.x-k8s.io/provider":   "infrastructure-metal3",
		"cluster.x-k8s.io/v1beta1":    "v1beta1",
		"cluster.x-k8s.io/v1beta2":    "v1beta2",
		"clusterctl.cluster.x-k8s.io": "",
	}
	// These kinds have no owner, so clusterctl moves them only with the label.
	moved := []string{"Metal3DataTemplate", "Metal3RemediationTemplate"}
	for kind, definition := range definitions(t) {
		got := map[string]string{}
		for key, value := range definition.Labels {
			if key != moveLabel {
				got[key] = value
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("labels of %s: -want, +got:\n%s", kind, diff)
		}
		if _, moves := definition.Labels[moveLabel]; moves != slices.Contains(moved, kind) {
			t.Errorf("%s: label %s exists: %t, want %t", kind, moveLabel, moves, !moves)
		}
		if !slices.Contains(definition.Spec.Names.Categories, "cluster-api") {
			t.Errorf("%s: not in the category cluster-api, so kubectl get cluster-api does not show it", kind)
		}
	}
}

// TestDefinitionsAreNamedAsComputed requires the names that clusterctl computes from the kinds. clusterctl refuses to
// install other CRDs.
func TestDefinitionsAreNamedAsComputed(t *testing.T) {
	var exceptions []string
	for kind, definition := range definitions(t) {
		if definition.Spec.Group != group {
			t.Errorf("%s: group is %s, want %s", kind, definition.Spec.Group, group)
		}
		if contract.CalculateCRDName(definition.Spec.Group, kind) == definition.Name {
			continue
		}
		exceptions = append(exceptions, kind)
		if _, skipped := definition.Annotations[skipNameCheckAnnotation]; !skipped {
			t.Errorf("%s: the name %s is not the computed one and annotation %s is missing",
				kind, definition.Name, skipNameCheckAnnotation)
		}
	}
	if diff := cmp.Diff([]string{"Metal3Data"}, exceptions); diff != "" {
		t.Errorf("kinds with another name: -want, +got:\n%s", diff)
	}
}

func TestDefinitionsAreConverted(t *testing.T) {
	want := &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				Service: &apiextensionsv1.ServiceReference{
					Namespace: "capm3-system", Name: "capm3-webhook-service", Path: ptr.To("/convert"),
				},
			},
		},
	}
	for kind, definition := range definitions(t) {
		if diff := cmp.Diff(want, definition.Spec.Conversion); diff != "" {
			t.Errorf("conversion of %s: -want, +got:\n%s", kind, diff)
		}
		if got := definition.Annotations[injectAnnotation]; got != certificate {
			t.Errorf("%s: annotation %s is %q, want %q", kind, injectAnnotation, got, certificate)
		}
	}
}

func TestDefinitionsServeBothVersions(t *testing.T) {
	type version struct {
		Name                        string
		Served, Storage, Deprecated bool
	}
	want := []version{
		{Name: "v1beta1", Served: true, Deprecated: true},
		{Name: "v1beta2", Served: true, Storage: true},
	}
	for kind, definition := range definitions(t) {
		var got []version
		for _, v := range definition.Spec.Versions {
			got = append(got, version{Name: v.Name, Served: v.Served, Storage: v.Storage, Deprecated: v.Deprecated})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("versions of %s: -want, +got:\n%s", kind, diff)
		}
	}
}

// usualColumns are the columns of kubectl get without -o wide for each kind, besides Age, Ready and Reason.
var usualColumns = map[string]map[string]string{
	"Metal3Cluster": {
		"Cluster":      clusterLabelPath,
		"Provisioned":  ".status.initialization.provisioned",
		"Endpoint":     ".spec.controlPlaneEndpoint.host",
		"Ironic":       ".status.ironic.holder.name",
		"ReadyForMove": `.status.conditions[?(@.type=="ReadyForMove")].status`,
	},
	"Metal3ClusterTemplate": {
		"ClusterClass": `.metadata.ownerReferences[?(@.kind=="ClusterClass")].name`,
		"Endpoint":     ".spec.template.spec.controlPlaneEndpoint.host",
		"Ironic":       ".spec.template.spec.ironic.endpoint.virtualIPs[0]",
	},
	"Metal3Data": {
		"Cluster":  clusterLabelPath,
		"Template": ".spec.template.name",
		"Index":    ".spec.index",
		"Claim":    ".spec.claim.name",
	},
	"Metal3DataClaim": {
		"Cluster":  clusterLabelPath,
		"Template": ".spec.template.name",
		"Data":     ".status.renderedData.name",
	},
	"Metal3DataTemplate": {"Cluster": clusterLabelPath},
	"Metal3Machine": {
		"Cluster":     clusterLabelPath,
		"Host":        `.metadata.annotations.metal3\.io/BareMetalHost`,
		"Provisioned": ".status.initialization.provisioned",
	},
	"Metal3MachineTemplate": {"Image": ".spec.template.spec.image.url"},
	"Metal3Remediation": {
		"Machine":         `.metadata.ownerReferences[?(@.kind=="Machine")].name`,
		"Phase":           ".status.phase",
		"Retry count":     ".status.retryCount",
		"Retry limit":     ".spec.strategy.retryLimit",
		"Last Remediated": ".status.lastRemediated",
	},
	"Metal3RemediationTemplate": {
		"Strategy":    ".spec.template.spec.strategy.type",
		"Retry limit": ".spec.template.spec.strategy.retryLimit",
		"Timeout":     ".spec.template.spec.strategy.timeoutSeconds",
	},
}

const clusterLabelPath = `.metadata.labels.cluster\.x-k8s\.io/cluster-name`

// wideReason is the kind whose reason only -o wide shows: its row has a long URL.
const wideReason = "Metal3MachineTemplate"

// TestColumnsAnswerTheUsualQuestions requires columns for the owner, the readiness with its reason, and the age.
func TestColumnsAnswerTheUsualQuestions(t *testing.T) {
	for kind, definition := range definitions(t) {
		version := storedVersion(t, definition)
		shown := map[string]string{}
		for _, column := range version.AdditionalPrinterColumns {
			if field := column.JSONPath; !hasField(version.Schema.OpenAPIV3Schema, field) {
				t.Errorf("%s: column %s shows %s, which the schema does not have", kind, column.Name, field)
			}
			if column.Description == "" && column.Name != "Age" {
				t.Errorf("%s: column %s has no description", kind, column.Name)
			}
			if column.Priority == 0 || kind == wideReason && column.Name == "Reason" {
				shown[column.Name] = column.JSONPath
			}
		}
		want := map[string]string{"Age": ".metadata.creationTimestamp"}
		if hasField(version.Schema.OpenAPIV3Schema, ".status.conditions") {
			want["Ready"] = `.status.conditions[?(@.type=="Ready")].status`
			want["Reason"] = `.status.conditions[?(@.type=="Ready")].reason`
		}
		maps.Copy(want, usualColumns[kind])
		if diff := cmp.Diff(want, shown); diff != "" {
			t.Errorf("columns of %s: -want, +got:\n%s", kind, diff)
		}
	}
}

func storedVersion(t *testing.T, definition *apiextensionsv1.CustomResourceDefinition,
) apiextensionsv1.CustomResourceDefinitionVersion {
	t.Helper()
	for _, version := range definition.Spec.Versions {
		if version.Storage {
			return version
		}
	}
	t.Fatalf("%s has no stored version", definition.Name)
	return apiextensionsv1.CustomResourceDefinitionVersion{}
}

// hasField returns true if a schema has the field at a path. The schema does not describe metadata.
func hasField(schema *apiextensionsv1.JSONSchemaProps, path string) bool {
	if strings.HasPrefix(path, ".metadata.") {
		return true
	}
	found := *schema
	for name := range strings.SplitSeq(regexp.MustCompile(`\[[^]]*]`).ReplaceAllString(path[1:], ""), ".") {
		if found.AdditionalProperties != nil {
			return true
		}
		if found.Items != nil {
			found = *found.Items.Schema
		}
		next, has := found.Properties[name]
		if !has {
			return false
		}
		found = next
	}
	return true
}
