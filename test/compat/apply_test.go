package compat_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// TestServerSideApplyRemovesIronic applies a Metal3Cluster without spec.ironic, as a ClusterClass or Flux does. The API
// server keeps the virtual router ID, which the manager owns. When spec.ironic returns, its identity is the same.
func TestServerSideApplyRemovesIronic(t *testing.T) {
	server := startServer(t)
	const without = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: Metal3Cluster
metadata: {name: applied}
spec:
  controlPlaneEndpoint: {host: 192.0.2.10, port: 6443}
`
	const with = without + `
  ironic:
    endpoint: {virtualIPs: [172.22.0.2], cidrs: [172.22.0.0/24], interface: provisioning}
`
	kubectl := func(text string, arguments ...string) {
		t.Helper()
		output, err := server.KubectlWithInput(t.Context(), strings.NewReader(text),
			append(arguments, "-n", build.DefaultNamespace)...)
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
	}
	read := func() *infrav1.Metal3Cluster {
		t.Helper()
		stored := &infrav1.Metal3Cluster{}
		key := client.ObjectKey{Namespace: build.DefaultNamespace, Name: "applied"}
		if err := server.Client.Get(t.Context(), key, stored); err != nil {
			t.Fatal(err)
		}
		return stored
	}
	apply := []string{"apply", "--server-side", "--field-manager=topology", "-f", "-"}
	kubectl(with, apply...)
	kubectl("", "patch", "metal3cluster", "applied", "--type=merge", "--field-manager=provider",
		"--patch", `{"spec": {"ironic": {"vrrp": {"virtualRouterID": 50}}}}`)
	before := read()
	for _, command := range [][]string{apply, apply, {"replace", "-f", "-"}} {
		kubectl(without, command...)
		if stored := read(); stored.Spec.Ironic != nil {
			t.Errorf("spec.ironic is still there: %+v", stored.Spec.Ironic)
		}
	}
	kubectl(with, apply...)
	after := read()
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
		t.Errorf("spec.ironic returned with another identity (-want +got):\n%s", diff)
	}
	if kept := after.Annotations[infrav1.IronicIdentityAnnotation]; kept != "" {
		t.Errorf("the annotation is still there: %q", kept)
	}
}

// TestQuantityWithManyDigits creates Metal3Clusters with a quantity of a billion digits. A webhook decodes them before
// the API server validates them. The API server does not validate what the conversion restores.
func TestQuantityWithManyDigits(t *testing.T) {
	const ironic = `{"endpoint": {"virtualIPs": ["172.22.0.2"], "cidrs": ["172.22.0.0/24"], "interface": "provisioning"}, ` +
		`"overrides": {"containers": [{"name": "ironic", "resources": {"limits": {"cpu": "1e-999999999"}}}]}}`
	const path = "spec.ironic.overrides.containers[0].resources.limits.cpu: Invalid value: "
	server := startServer(t)
	for text, want := range map[string]string{
		clusterOfTenant + "  ironic: " + ironic: "should match",
		hiddenIronic(ironic):                    "is not a quantity",
	} {
		err := create(t, server, build.DefaultNamespace, text)
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want that %s", err, want)
		}
	}
}
