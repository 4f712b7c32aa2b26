package env_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
)

// patience is the time limit for other programs.
const patience = time.Minute

// TestServer shares one management cluster with all groups, because its start takes most of the time.
func TestServer(t *testing.T) {
	ctx := t.Context()
	started := time.Now()
	server, err := env.Start(ctx, env.Options{ControllerManager: true, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %s", time.Since(started).Round(time.Millisecond))
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := server.Client.Create(ctx, build.Namespace(build.DefaultNamespace)); err != nil {
		t.Fatal(err)
	}
	t.Run("Definitions", func(t *testing.T) { testDefinitions(t, server) })
	t.Run("Kinds", func(t *testing.T) { testKinds(t, server) })
	t.Run("Status", func(t *testing.T) { testStatus(t, server) })
	t.Run("GarbageCollection", func(t *testing.T) { testGarbageCollection(t, server) })
	t.Run("NamespaceEnds", func(t *testing.T) { testNamespaceEnds(t, server) })
	t.Run("Requests", func(t *testing.T) { testRequests(t, server) })
	t.Run("UserWithoutRights", func(t *testing.T) { testUserWithoutRights(t, server) })
	t.Run("InstallDefinitions", func(t *testing.T) { testInstallDefinitions(t, server) })
	t.Run("SecondServer", testSecondServer)
}

func testDefinitions(t *testing.T, server *env.Server) {
	contract := map[string]string{
		"clusterctl.cluster.x-k8s.io": "", "cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2",
	}
	const clusterctl = "clusterctl.cluster.x-k8s.io"
	cases := map[string]struct {
		reason string
		want   map[string]string
	}{
		"metal3clusters.infrastructure.cluster.x-k8s.io":             {"our own", contract},
		"metal3datas.infrastructure.cluster.x-k8s.io":                {"CRD of this provider", contract},
		"metal3remediationtemplates.infrastructure.cluster.x-k8s.io": {"our own", contract},
		"machines.cluster.x-k8s.io":                                  {"core", contract},
		"kubeadmconfigs.bootstrap.cluster.x-k8s.io":                  {"bootstrap", contract},
		"kubeadmcontrolplanes.controlplane.cluster.x-k8s.io":         {"control plane", contract},

		"ippools.ipam.metal3.io":   {"installed by clusterctl", map[string]string{clusterctl: ""}},
		"hardwaredata.metal3.io":   {"moves", map[string]string{clusterctl + "/move": ""}},
		"baremetalhosts.metal3.io": {"hosts move with their dependents", map[string]string{clusterctl + "/move-hierarchy": ""}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var definition apiextensionsv1.CustomResourceDefinition
			if err := server.Client.Get(t.Context(), client.ObjectKey{Name: name}, &definition); err != nil {
				t.Fatal(err)
			}
			for key, value := range tc.want {
				if got, found := definition.Labels[key]; !found || got != value {
					t.Errorf("%s: label %s = %q (found: %t), want %q", tc.reason, key, got, found, value)
				}
			}
		})
	}
}

func testKinds(t *testing.T, server *env.Server) {
	machine := build.Metal3Machine("kinds", "kinds")
	for _, object := range []client.Object{
		build.Cluster("kinds", build.InfrastructureReady()),
		build.Metal3Cluster("kinds", build.Domains("a", "b")),
		build.Machine("kinds", "kinds", build.InDomain("a")),
		build.ControlPlaneMachine("kinds-cp", "kinds", build.WithoutBootstrapData()),
		machine,
		build.MachineTemplate("kinds", build.NodeReuse(), build.Selecting(map[string]string{"rack": "1"})),
		build.BootstrapSecret("kinds", build.CloudConfig, []byte("#cloud-config\n")),
		build.Host("kinds-registered"),
		build.Host("kinds-available", build.Available(), build.InDomain("a"),
			build.NIC("eth0", "52:54:00:00:00:01", "192.0.2.1")),
		build.Host("kinds-provisioned", build.Provisioned(), build.Consumed(machine),
			build.Paused(infrav1.HostPausedByProvider)),
		build.Host("kinds-error", build.State(bmov1alpha1.StateInspecting), build.Error("no power"), build.Hardware(2, 1024)),
	} {
		if err := build.CreateWithStatus(t.Context(), server.Client, object); err != nil {
			t.Errorf("the API server refuses an object of package build: %v", err)
		}
	}
}

func testStatus(t *testing.T, server *env.Server) {
	host := build.Host("status", build.Provisioned())
	if err := build.CreateWithStatus(t.Context(), server.Client, host); err != nil {
		t.Fatal(err)
	}
	var stored bmov1alpha1.BareMetalHost
	if err := server.Client.Get(t.Context(), client.ObjectKeyFromObject(host), &stored); err != nil {
		t.Fatal(err)
	}
	if got := stored.Status.Provisioning.State; got != bmov1alpha1.StateProvisioned {
		t.Errorf("state = %q, want provisioned: the status is lost", got)
	}
	if !stored.Status.PoweredOn || stored.Status.Provisioning.Image.URL != build.ImageURL {
		t.Errorf("status = %+v, want power and the image", stored.Status)
	}
}

func testGarbageCollection(t *testing.T, server *env.Server) {
	g := NewWithT(t)
	owner := build.Metal3Cluster("collected")
	g.Expect(server.Client.Create(t.Context(), owner)).To(Succeed())
	dependent := build.Metal3Machine("collected", "collected", build.OwnedBy(owner))
	g.Expect(server.Client.Create(t.Context(), dependent)).To(Succeed())
	g.Expect(server.Client.Delete(t.Context(), owner)).To(Succeed())
	g.Eventually(func() bool {
		err := server.Client.Get(t.Context(), client.ObjectKeyFromObject(dependent), &infrav1.Metal3Machine{})
		return apierrors.IsNotFound(err)
	}, patience).Should(BeTrue(), "the machine still exists")
}

func testNamespaceEnds(t *testing.T, server *env.Server) {
	g := NewWithT(t)
	namespace := build.Namespace("ends")
	g.Expect(server.Client.Create(t.Context(), namespace)).To(Succeed())
	g.Expect(server.Client.Create(t.Context(), build.Host("host", build.InNamespace("ends")))).To(Succeed())
	g.Expect(server.Client.Delete(t.Context(), namespace)).To(Succeed())
	g.Eventually(func() bool {
		err := server.Client.Get(t.Context(), client.ObjectKeyFromObject(namespace), &corev1.Namespace{})
		return apierrors.IsNotFound(err)
	}, patience).Should(BeTrue(), "the namespace still exists")
}

func testRequests(t *testing.T, server *env.Server) {
	config, err := server.User("counted", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	config.UserAgent = "counting-test"
	counted, err := client.New(config, client.Options{Scheme: build.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"counted-0", "counted-1"} {
		if err := build.CreateWithStatus(t.Context(), counted, build.Host(name, build.Available())); err != nil {
			t.Fatal(err)
		}
	}
	if err := counted.List(t.Context(), &bmov1alpha1.BareMetalHostList{}); err != nil {
		t.Fatal(err)
	}
	if err := counted.Create(t.Context(), build.Host("counted-2"), client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	requests, err := server.Requests()
	if err != nil {
		t.Fatal(err)
	}
	got := env.CountRequests(requests, func(request env.Request) string {
		if request.User != "counted" || request.UserAgent != "counting-test" {
			return ""
		}
		return request.String()
	})
	want := map[string]int{
		"create baremetalhosts": 2, "patch baremetalhosts/status": 2, "list baremetalhosts": 1, "create baremetalhosts (dry run)": 1,
	}
	for name, count := range want {
		if got[name] != count {
			t.Errorf("%s: got %d, want %d; all counts: %v", name, got[name], count, got)
		}
	}
}

func testUserWithoutRights(t *testing.T, server *env.Server) {
	config, err := server.User("nobody")
	if err != nil {
		t.Fatal(err)
	}
	nobody, err := client.New(config, client.Options{Scheme: build.Scheme()})
	if err == nil {
		err = nobody.List(t.Context(), &corev1.SecretList{})
	}
	if !apierrors.IsForbidden(err) {
		t.Errorf("listing Secrets without any role: %v, want Forbidden", err)
	}
}

func testInstallDefinitions(t *testing.T, server *env.Server) {
	if err := server.InstallDefinitions(t.Context(), components.CertManager); err != nil {
		t.Fatal(err)
	}
	// The second installation must succeed too.
	if err := server.InstallDefinitions(t.Context(), components.CertManager); err != nil {
		t.Fatal(err)
	}
	issuers := &metav1.PartialObjectMetadataList{}
	issuers.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("IssuerList"))
	issuers.APIVersion = "cert-manager.io/v1"
	if err := server.Client.List(t.Context(), issuers); err != nil {
		t.Errorf("listing Issuers: %v", err)
	}
}

// testSecondServer starts a second, empty management cluster, and runs kubectl with its kubeconfig file.
func testSecondServer(t *testing.T) {
	server, err := env.Start(t.Context(), env.Options{
		Definitions: []components.Group{}, APIServerFlags: []string{"max-requests-inflight=50"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	var definitions apiextensionsv1.CustomResourceDefinitionList
	if err := server.Client.List(t.Context(), &definitions); err != nil || len(definitions.Items) != 0 {
		t.Errorf("%d definitions (error: %v), want none", len(definitions.Items), err)
	}
	output, err := server.Kubectl(t.Context(), "get", "--raw", "/version")
	if err != nil {
		t.Fatal(err)
	}
	var version struct{ GitVersion string }
	if err := json.Unmarshal([]byte(output), &version); err != nil || version.GitVersion == "" {
		t.Errorf("version %q (error: %v), want a version, which clusterctl requires", output, err)
	}
	if _, err := server.Requests(); err == nil {
		t.Error("counting requests without Options.Audit succeeds, want an error")
	}
}

// TestContextEnds cancels a start, which must leave no folder. The folder is removed when no process is left.
func TestContextEnds(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := env.Start(ctx, env.Options{}); err == nil {
		t.Error("starting with a context that has ended succeeds, want an error")
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("%v is left (error: %v), want nothing", left, err)
	}
}
