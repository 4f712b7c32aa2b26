package lab_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
)

const (
	// patience is how long any single thing may take on a busy machine.
	patience = 10 * time.Minute

	// labVariable has to be 1 for the tests that start a lab.
	labVariable = "METAL3_LAB"
)

// needLab skips a test where there can be no lab, or where nobody asked for one.
func needLab(t *testing.T) {
	t.Helper()
	if os.Getenv(labVariable) != "1" {
		t.Skipf("set %s=1 to start a lab: it takes minutes, the first time the better part of an hour", labVariable)
	}
	if os.Geteuid() != 0 {
		t.Skip("a lab needs root")
	}
}

// start starts a lab that is stopped with the test, and demands that nothing of it is left.
func start(t *testing.T, options lab.Options) *lab.Lab {
	t.Helper()
	options.Progress = func(format string, args ...any) { t.Logf(format, args...) }
	started, err := lab.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if t.Failed() {
			if err := started.CollectArtefacts(ctx, options.Artefacts); err != nil {
				t.Error(err)
			}
		}
		if err := started.Stop(ctx); err != nil {
			t.Error(err)
		}
		left, err := lab.Leftovers(options.Name)
		if err != nil || len(left) > 0 {
			t.Errorf("left of the lab: %s (%v)", strings.Join(left, "\n"), err)
		}
	})
	return started
}

// TestLab is the whole story: hosts become a cluster by way of Ironic, and hosts again.
func TestLab(t *testing.T) {
	needLab(t)
	started := start(t, lab.Options{Name: "labtest", Hosts: 1, Artefacts: t.ArtifactDir()})
	if err := started.AddHosts(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := started.CreateCluster(t.Context(), "one", lab.Shape{ControlPlanes: 1, Workers: 1}); err != nil {
		t.Fatal(err)
	}
	if err := started.WaitForMachines(t.Context(), "one", 2, patience); err != nil {
		t.Fatal(err)
	}
	workload, err := started.Workload(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	if err := started.WaitForNodes(t.Context(), workload, 2, patience); err != nil {
		t.Fatal(err)
	}
	testPods(t, workload)
	testArtefacts(t, started)

	cluster := &clusterv1.Cluster{}
	cluster.Namespace, cluster.Name = lab.Namespace, "one"
	management := started.Management().Client
	if err := management.Delete(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if err := started.WaitForHosts(t.Context(), patience, "host-0", "host-1"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"host-0", "host-1"} {
		if started.Machine(name).Running() {
			t.Errorf("an operating system still runs on %s", name)
		}
	}
	if err := management.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
}

// testPods lets a pod of a worker find a Service by its name, and a pod that the API server talks to.
func testPods(t *testing.T, workload *lab.Cluster) {
	t.Helper()
	if _, err := workload.Kubectl(t.Context(), "--namespace=kube-system", "rollout", "status", "deployment/coredns",
		"--timeout=2m"); err != nil {
		t.Error(err)
	}
	logs, err := workload.Kubectl(t.Context(), "--namespace=kube-system", "logs", "--selector=k8s-app=kube-dns")
	if err != nil || !strings.Contains(logs, "CoreDNS") {
		t.Errorf("logs %q, error %v", logs, err)
	}
}

// testArtefacts looks whether what is collected holds what it should.
func testArtefacts(t *testing.T, started *lab.Lab) {
	t.Helper()
	folder := t.TempDir()
	if err := started.CollectArtefacts(t.Context(), folder); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]string{
		"cluster-management/overview.txt":     "capm3-system",
		"cluster-management/objects.yaml":     "kind: BareMetalHost",
		"cluster-one/overview.txt":            "host-0",
		"cluster-one/events.txt":              "kube-system",
		"machine-host-0/journal.txt":          "kubelet",
		"machine-management/console.txt":      "cloud-init",
		"machine-host-1/cloud-init.txt":       "kubeadm",
		"machine-host-0/addresses.txt":        "172.22.0.20",
		"machine-management/ironic-logs.txt":  "keepalived",
		"machine-management/ironic-state.txt": "virtualRouterID",
		"bmc.json":                            "\"resource\": \"disk\"",
		"cluster-management/dump/nodes.json":  "management",
	} {
		content, err := os.ReadFile(folder + "/" + path)
		if err != nil || !strings.Contains(string(content), want) {
			t.Errorf("%s does not contain %q (%v)", path, want, err)
		}
	}
	if secrets := grep(t, folder, "kind: Secret"); secrets != "" {
		t.Errorf("%s holds Secrets", secrets)
	}
}

// grep names the first file of a folder that contains a text.
func grep(t *testing.T, folder, text string) string {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		path := folder + "/" + file.Name()
		if file.IsDir() {
			if found := grep(t, path, text); found != "" {
				return found
			}
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), text) {
			return path
		}
	}
	return ""
}
