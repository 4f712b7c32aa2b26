package lab

import (
	"strings"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// TestHostObjects follows the references from a host to its Secrets.
func TestHostObjects(t *testing.T) {
	first, second := newHost(0), newHost(1)
	objects, err := first.objects()
	if err != nil {
		t.Fatal(err)
	}
	cluster := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(objects...).Build()
	var host bmov1alpha1.BareMetalHost
	if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: Namespace, Name: "host-0"}, &host); err != nil {
		t.Fatal(err)
	}
	if want := "redfish-virtualmedia+http://172.22.0.1:8000/redfish/v1/Systems/host-0"; host.Spec.BMC.Address != want {
		t.Errorf("BMC %s, want %s", host.Spec.BMC.Address, want)
	}
	if want := "02:22:00:00:00:14"; host.Spec.BootMACAddress != want {
		t.Errorf("MAC address %s, want %s", host.Spec.BootMACAddress, want)
	}
	var credentials, network corev1.Secret
	for name, secret := range map[string]*corev1.Secret{
		host.Spec.BMC.CredentialsName: &credentials, host.Spec.PreprovisioningNetworkDataName: &network,
	} {
		if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: Namespace, Name: name}, secret); err != nil {
			t.Fatal(err)
		}
	}
	if string(credentials.Data["password"]) != first.password || first.password == second.password {
		t.Error("a BMC has the wrong password, or that of another one")
	}
	if !strings.Contains(string(network.Data["networkData"]), "172.22.0.20") {
		t.Errorf("network data %s, want the address of the host", network.Data["networkData"])
	}
}

func TestReserve(t *testing.T) {
	l := &Lab{}
	for _, want := range []int{0, 30} {
		if first, err := l.reserve(30); err != nil || first != want {
			t.Errorf("first host %d and error %v, want %d", first, err, want)
		}
	}
	if _, err := l.reserve(11); err == nil || !strings.Contains(err.Error(), "70") {
		t.Errorf("error %v, want one that names the limit", err)
	}
	if first, err := l.reserve(10); err != nil || first != 60 {
		t.Errorf("first host %d and error %v after a refusal, want 60", first, err)
	}
}

func TestAvailable(t *testing.T) {
	waiting := build.Host("host-1", build.InNamespace(Namespace))
	waiting.Status.Provisioning.State = bmov1alpha1.StateInspecting
	waiting.Status.ErrorMessage = "no answer"
	ready := build.Host("host-0", build.InNamespace(Namespace))
	ready.Status.Provisioning.State = bmov1alpha1.StateAvailable
	cluster := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(ready, waiting).Build()
	if err := available(t.Context(), cluster, []string{"host-0"}); err != nil {
		t.Error(err)
	}
	err := available(t.Context(), cluster, []string{"host-0", "host-1"})
	for _, want := range []string{"host-1", "inspecting", "no answer"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to contain %q", err, want)
		}
	}
	if err == nil || strings.Contains(err.Error(), "host-0") {
		t.Errorf("error %v, want it without the available host", err)
	}
}
