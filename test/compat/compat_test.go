package compat_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/app"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks"
)

// Interval and limit of the wait for the webhook server.
const (
	pollEvery  = 100 * time.Millisecond
	startLimit = time.Minute
)

// manifestsFolder is the environment variable with the folder of manifests of CAPM3.
const manifestsFolder = "CAPM3_MANIFESTS"

// broken are the documents that CAPM3 refuses too, with the reasons.
func broken() map[string]string {
	return map[string]string{
		"api-06.yaml/Metal3Machine":         "matchExpressions is a map where the schema has a list",
		"api-09.yaml/Metal3MachineTemplate": "matchExpressions is a map where the schema has a list",
		"api-10.yaml/Metal3DataTemplate":    "routes have a field netmask and the status a field dataNames, which do not exist",
		"api-12.yaml/Metal3Data":            "the status has a field error, which does not exist",
		"template-clusterclass.yaml/Metal3ClusterTemplate": "cloudProviderEnabled stands in controlPlaneEndpoint, " +
			"where it does not exist",
	}
}

// variables are the values of the variables in the manifests.
func variables() map[string]string {
	return map[string]string{
		"NAMESPACE": build.DefaultNamespace, "CLUSTER_NAME": "cluster", "CAPI_VERSION": "v1beta2",
		"KUBERNETES_VERSION": "v1.36.3", "POD_CIDR": `"192.168.0.0/24"`, "SERVICE_CIDR": `"10.96.0.0/12"`,
		"CONTROL_PLANE_MACHINE_COUNT": "3", "WORKER_MACHINE_COUNT": "1",
		"IMAGE_URL": "http://images.example/node.qcow2", "IMAGE_CHECKSUM": "http://images.example/node.qcow2.sha256sum",
		"IMAGE_CHECKSUM_TYPE": "sha256", "IMAGE_FORMAT": "qcow2",
		"CLUSTER_APIENDPOINT_HOST": build.EndpointHost, "CLUSTER_APIENDPOINT_PORT": "6443",
	}
}

type document struct {
	name string
	text string
	head *unstructured.Unstructured
}

func TestManifestsOfCAPM3Apply(t *testing.T) {
	folder := os.Getenv(manifestsFolder)
	if folder == "" {
		t.Skipf("%s does not name a folder with manifests of CAPM3", manifestsFolder)
	}
	documents := ours(t, folder)
	if len(documents) == 0 {
		t.Fatalf("%s holds no document of this provider", folder)
	}
	server := startServer(t)
	for _, current := range documents {
		t.Run(current.name, func(t *testing.T) {
			namespace := current.head.GetNamespace()
			if namespace == "" {
				namespace = build.DefaultNamespace
			}
			apply(t, server, namespace, current.text)
			stored := current.head.GetKind() + ".v1beta2." + infrav1.GroupVersion.Group
			read, err := server.Kubectl(t.Context(), "get", stored, current.head.GetName(), "-n", namespace, "-o", "yaml")
			if err != nil {
				t.Fatalf("reading it in the stored version: %v", err)
			}
			// The webhook converts without them.
			earlier := current.head.GetKind() + ".v1beta1." + infrav1.GroupVersion.Group
			managers, err := server.Kubectl(t.Context(), "get", earlier, current.head.GetName(), "-n", namespace,
				"-o", "jsonpath={.metadata.managedFields[*].manager}")
			if err != nil || !strings.Contains(managers, "kubectl") {
				t.Errorf("the managers of fields in the earlier version are %q, %v, want kubectl", managers, err)
			}
			apply(t, server, namespace, asNew(t, read))
		})
	}
}

// ours returns the documents of this provider in a folder.
func ours(t *testing.T, folder string) []document {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	separator := regexp.MustCompile(`(?m)^---.*$`)
	var found []document
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		filled := os.Expand(string(content), func(name string) string { return variables()[name] })
		for _, part := range separator.Split(filled, -1) {
			head := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(part), &head.Object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if !strings.HasPrefix(head.GetAPIVersion(), infrav1.GroupVersion.Group+"/") {
				continue
			}
			name := filepath.Base(file) + "/" + head.GetKind()
			if reason, known := broken()[name]; known {
				t.Logf("Left out %s: %s", name, reason)
				continue
			}
			// The documentation omits the UIDs of owners, which every API server requires.
			head.SetOwnerReferences(nil)
			found = append(found, document{name: name + "/" + head.GetName(), text: text(t, head), head: head})
		}
	}
	return found
}

// asNew returns a read object so that it can be applied with another name.
func asNew(t *testing.T, read string) string {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(read), &object.Object); err != nil {
		t.Fatal(err)
	}
	name, annotations := object.GetName()+"-again", object.GetAnnotations()
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	labels := object.GetLabels()
	object.Object["metadata"] = map[string]any{}
	object.SetName(name)
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
	return text(t, object)
}

func text(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	content, err := yaml.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func apply(t *testing.T, server *env.Server, namespace, text string) {
	t.Helper()
	output, err := server.KubectlWithInput(t.Context(), strings.NewReader(text),
		"apply", "--validate=strict", "-n", namespace, "-f", "-")
	if err != nil {
		t.Fatalf("applying: %v\n%s\n%s", err, output, text)
	}
}

// startServer starts an API server with the webhooks of this provider.
func startServer(t *testing.T) *env.Server {
	t.Helper()
	ctrl.SetLogger(klog.Background())
	ctx, cancel := context.WithCancel(context.Background())
	server, err := env.Start(ctx, env.Options{Webhooks: true, Roomy: true})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Errorf("running the webhooks: %v", err)
		}
		if err := server.Stop(); err != nil {
			t.Errorf("stopping the server: %v", err)
		}
	})
	mgr, err := ctrl.NewManager(server.Config, ctrl.Options{
		Scheme:  app.NewScheme(),
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: server.Webhook.Host, Port: server.Webhook.Port, CertDir: server.Webhook.CertDir,
		}),
	})
	if err == nil {
		err = webhooks.SetupWithManager(mgr)
	}
	if err != nil {
		stopped <- nil
		t.Fatal(err)
	}
	go func() { stopped <- mgr.Start(ctx) }()
	waitForWebhooks(t, mgr)
	if err := server.Client.Create(ctx, build.Namespace(build.DefaultNamespace)); err != nil {
		t.Fatal(err)
	}
	return server
}

// waitForWebhooks waits until the webhook server answers.
func waitForWebhooks(t *testing.T, mgr ctrl.Manager) {
	t.Helper()
	answers := mgr.GetWebhookServer().StartedChecker()
	err := wait.PollUntilContextTimeout(t.Context(), pollEvery, startLimit, true,
		func(context.Context) (bool, error) { return answers(nil) == nil, nil })
	if err != nil {
		t.Fatalf("waiting for the webhooks: %v", err)
	}
}
