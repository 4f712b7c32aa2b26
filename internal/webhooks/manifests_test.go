package webhooks_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	infrav1beta1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta1"
	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/v1beta2"
)

// manifestsFolder is the environment variable with the folder of manifests of CAPM3.
const manifestsFolder = "CAPM3_MANIFESTS"

// notAdmitted are documents that CAPM3 refuses too, with the reasons.
func notAdmitted() map[string]string {
	return map[string]string{
		"api-06.yaml/Metal3Machine":         "the selector is a map where a list belongs",
		"api-09.yaml/Metal3MachineTemplate": "the selector is a map where a list belongs",
		"api-10.yaml/Metal3DataTemplate":    "the status maps indexes to claims, the schema claims to indexes",
		"api-12.yaml/Metal3Data":            "the name does not follow from template and index",
	}
}

// variables are the values of the variables in the manifests.
func variables() map[string]string {
	return map[string]string{
		"NAMESPACE": "metal3", "CLUSTER_NAME": "cluster", "IMAGE_URL": "https://images.example/node.qcow2",
		"IMAGE_CHECKSUM": "https://images.example/node.qcow2.sha256sum", "IMAGE_CHECKSUM_TYPE": "sha256",
		"IMAGE_FORMAT": "qcow2", "CLUSTER_APIENDPOINT_HOST": "192.0.2.10", "CLUSTER_APIENDPOINT_PORT": "6443",
	}
}

// TestManifestsAreAdmitted requires that documents that CAPM3 accepts pass conversion, defaults and validation.
func TestManifestsAreAdmitted(t *testing.T) {
	folder := os.Getenv(manifestsFolder)
	if folder == "" {
		t.Skipf("%s does not name a folder with manifests of CAPM3", manifestsFolder)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	separator := regexp.MustCompile(`(?m)^---.*$`)
	admitted := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		filled := os.Expand(string(text), func(name string) string { return variables()[name] })
		for _, document := range separator.Split(filled, -1) {
			if admits(t, filepath.Base(file), []byte(document)) {
				admitted++
			}
		}
	}
	if admitted == 0 {
		t.Errorf("%s holds no document of this provider", folder)
	}
}

// admits returns true if the document is of this provider and is admitted.
func admits(t *testing.T, file string, document []byte) bool {
	t.Helper()
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(document, &head); err != nil {
		t.Logf("%s: left out, a fragment that is not YAML", file)
		return false
	}
	if head.APIVersion != infrav1beta1.GroupVersion.String() || !slices.Contains(kinds(), head.Kind) {
		return false
	}
	err := ways()[head.Kind](t.Context(), document)
	reason, expected := notAdmitted()[file+"/"+head.Kind]
	switch {
	case expected && err == nil:
		t.Errorf("%s: %s is admitted, although %s", file, head.Kind, reason)
	case !expected && err != nil:
		t.Errorf("%s: %s is refused: %v", file, head.Kind, err)
	}
	return err == nil
}

// ways returns the conversion and admission of a document, by kind.
func ways() map[string]func(context.Context, []byte) error {
	zeros := func(bytes []byte) (int, error) { return len(bytes), nil }
	return map[string]func(context.Context, []byte) error{
		"Metal3Cluster": way(&infrav1beta1.Metal3Cluster{}, &infrav1.Metal3Cluster{},
			infrav1beta1.ConvertMetal3ClusterToHub, v1beta2.Metal3ClusterDefaulter(zeros),
			v1beta2.Metal3ClusterValidator()),
		"Metal3ClusterTemplate": way(&infrav1beta1.Metal3ClusterTemplate{}, &infrav1.Metal3ClusterTemplate{},
			infrav1beta1.ConvertMetal3ClusterTemplateToHub, nil, v1beta2.Metal3ClusterTemplateValidator()),
		"Metal3Data": way(&infrav1beta1.Metal3Data{}, &infrav1.Metal3Data{},
			infrav1beta1.ConvertMetal3DataToHub, nil, v1beta2.Metal3DataValidator()),
		"Metal3DataClaim": way(&infrav1beta1.Metal3DataClaim{}, &infrav1.Metal3DataClaim{},
			infrav1beta1.ConvertMetal3DataClaimToHub, nil, v1beta2.Metal3DataClaimValidator()),
		"Metal3DataTemplate": way(&infrav1beta1.Metal3DataTemplate{}, &infrav1.Metal3DataTemplate{},
			infrav1beta1.ConvertMetal3DataTemplateToHub, nil, v1beta2.Metal3DataTemplateValidator()),
		"Metal3Machine": way(&infrav1beta1.Metal3Machine{}, &infrav1.Metal3Machine{},
			infrav1beta1.ConvertMetal3MachineToHub, nil, v1beta2.Metal3MachineValidator()),
		"Metal3MachineTemplate": way(&infrav1beta1.Metal3MachineTemplate{}, &infrav1.Metal3MachineTemplate{},
			infrav1beta1.ConvertMetal3MachineTemplateToHub, nil, v1beta2.Metal3MachineTemplateValidator()),
		"Metal3Remediation": way(&infrav1beta1.Metal3Remediation{}, &infrav1.Metal3Remediation{},
			infrav1beta1.ConvertMetal3RemediationToHub, v1beta2.Metal3RemediationDefaulter(),
			v1beta2.Metal3RemediationValidator()),
		"Metal3RemediationTemplate": way(&infrav1beta1.Metal3RemediationTemplate{}, &infrav1.Metal3RemediationTemplate{},
			infrav1beta1.ConvertMetal3RemediationTemplateToHub, v1beta2.Metal3RemediationTemplateDefaulter(),
			v1beta2.Metal3RemediationTemplateValidator()),
	}
}

// way converts a document to the hub version, sets its defaults and validates it.
func way[S, H client.Object](
	spoke S, hub H, toHub func(context.Context, S, H) error,
	defaulter admission.Defaulter[H], validator admission.Validator[H],
) func(context.Context, []byte) error {
	return func(ctx context.Context, document []byte) error {
		if err := yaml.Unmarshal(document, spoke); err != nil {
			return fmt.Errorf("decoding: %w", err)
		}
		if err := toHub(ctx, spoke, hub); err != nil {
			return fmt.Errorf("converting: %w", err)
		}
		if defaulter != nil {
			if err := defaulter.Default(ctx, hub); err != nil {
				return fmt.Errorf("filling in: %w", err)
			}
		}
		_, err := validator.ValidateCreate(ctx, hub)
		return err
	}
}
