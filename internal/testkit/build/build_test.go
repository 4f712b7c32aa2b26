package build_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func TestObjectOptions(t *testing.T) {
	owner := build.Cluster("owner")
	owner.UID = "uid"
	yes := true
	want := metav1.ObjectMeta{
		Name: "object", Namespace: "elsewhere",
		Labels:      map[string]string{"a": "1", "b": "2"},
		Annotations: map[string]string{"c": "3"},
		Finalizers:  []string{"d"},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "owner", UID: "uid",
			Controller: &yes, BlockOwnerDeletion: &yes,
		}},
	}
	options := []build.ObjectOption{
		build.InNamespace("elsewhere"), build.Labels(map[string]string{"a": "1"}), build.Labels(map[string]string{"b": "2"}),
		build.Annotations(map[string]string{"c": "3"}), build.Finalizers("d"), build.OwnedBy(owner),
	}
	cases := map[string]struct {
		reason string
		object metav1.Object
	}{
		"Host":          {"a host accepts all options", build.Host("object", as[build.HostOption](options)...)},
		"Cluster":       {"and a Cluster", build.Cluster("object", as[build.ClusterOption](options)...)},
		"Metal3Cluster": {"a Metal3Cluster accepts all options", build.Metal3Cluster("object", as[build.Metal3ClusterOption](options)...)},
		"Template":      {"and a template", build.MachineTemplate("object", as[build.MachineTemplateOption](options)...)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := metav1.ObjectMeta{
				Name: tc.object.GetName(), Namespace: tc.object.GetNamespace(), Labels: tc.object.GetLabels(),
				Annotations: tc.object.GetAnnotations(), Finalizers: tc.object.GetFinalizers(),
				OwnerReferences: tc.object.GetOwnerReferences(),
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// as converts options of one type to options of an interface.
func as[T any](options []build.ObjectOption) []T {
	converted := make([]T, 0, len(options))
	for _, option := range options {
		converted = append(converted, any(option).(T)) //nolint:errcheck // a panic is a good way to fail here
	}
	return converted
}

func TestHost(t *testing.T) {
	machine := build.Metal3Machine("machine", "cluster")
	host := build.Host("host", build.Available(), build.InDomain("a"), build.Consumed(machine), build.Paused("me"),
		build.Hardware(4, 8192), build.NIC("eth0", "52:54:00:00:00:01", "192.0.2.1"))
	if got := host.Status.Provisioning.State; got != bmov1alpha1.StateAvailable {
		t.Errorf("state %q, want available", got)
	}
	if got := host.Labels[infrav1.FailureDomainLabel]; got != "a" {
		t.Errorf("failure domain %q, want a", got)
	}
	want := &corev1.ObjectReference{
		APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Machine", Namespace: build.DefaultNamespace, Name: "machine",
	}
	if diff := cmp.Diff(want, host.Spec.ConsumerRef); diff != "" {
		t.Errorf("consumer (-want +got):\n%s", diff)
	}
	details := host.Status.HardwareDetails
	if details.CPU.Count != 4 || details.RAMMebibytes != 8192 || len(details.NIC) != 1 {
		t.Errorf("hardware %+v, want 4 CPUs, 8192 MiB and an interface", details)
	}
	if diff := cmp.Diff(build.Host("host"), build.Host("host")); diff != "" {
		t.Errorf("the same name gives two different hosts:\n%s", diff)
	}
	if build.Host("host").Spec.BootMACAddress == build.Host("other").Spec.BootMACAddress {
		t.Error("two hosts have the same MAC address")
	}
}

func TestControllerSecretBelongsToHost(t *testing.T) {
	host := build.Host("host", build.InNamespace("elsewhere"))
	secret := build.ControllerSecret(host)
	if secret.Name != host.Spec.BMC.CredentialsName || secret.Namespace != "elsewhere" || len(secret.Data) != 2 {
		t.Errorf("Secret %s/%s with %d keys, want elsewhere/%s with 2", secret.Namespace, secret.Name, len(secret.Data),
			host.Spec.BMC.CredentialsName)
	}
}

func TestMachineAndSecretBelongTogether(t *testing.T) {
	machine := build.ControlPlaneMachine("machine", "cluster", build.InDomain("a"))
	if _, found := machine.Labels[clusterv1.MachineControlPlaneLabel]; !found {
		t.Error("a machine of the control plane lacks its label")
	}
	if machine.Spec.FailureDomain != "a" {
		t.Errorf("failure domain %q, want a", machine.Spec.FailureDomain)
	}
	secret := build.BootstrapSecret("machine", build.Ignition, []byte("{}"), build.Labels(map[string]string{"a": "1"}))
	if got := *machine.Spec.Bootstrap.DataSecretName; got != secret.Name {
		t.Errorf("the machine names Secret %s, but the Secret is %s", got, secret.Name)
	}
	if diff := cmp.Diff(map[string][]byte{"value": []byte("{}"), "format": []byte("ignition")}, secret.Data); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	if _, found := build.BootstrapSecret("machine", "", nil).Data["format"]; found {
		t.Error("got a format, want none")
	}
	waiting := build.Machine("machine", "cluster", build.WithoutBootstrapData())
	if waiting.Spec.Bootstrap.DataSecretName != nil {
		t.Error("a machine without bootstrap data has some")
	}
}

func TestCreateWithStatus(t *testing.T) {
	host := build.Host("host", build.Provisioned())
	c := fake.NewClientBuilder().WithScheme(build.Scheme()).WithStatusSubresource(host).Build()
	if err := build.CreateWithStatus(t.Context(), c, host); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]*bmov1alpha1.BareMetalHost{"answer": host, "stored": stored(t, c, host)} {
		if got.Status.Provisioning.State != bmov1alpha1.StateProvisioned {
			t.Errorf("%s: state %q, want provisioned", name, got.Status.Provisioning.State)
		}
	}
	// The kind has no status.
	if err := build.CreateWithStatus(t.Context(), c, build.BootstrapSecret("machine", "", nil)); err != nil {
		t.Error(err)
	}
	if err := build.CreateWithStatus(t.Context(), c, build.Host("host")); err == nil {
		t.Error("creating a host twice succeeds, want an error")
	}
}

func stored(t *testing.T, c client.Client, host *bmov1alpha1.BareMetalHost) *bmov1alpha1.BareMetalHost {
	t.Helper()
	var found bmov1alpha1.BareMetalHost
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(host), &found); err != nil {
		t.Fatal(err)
	}
	return &found
}

func TestInspectionIsRealistic(t *testing.T) {
	const least, most = 8 << 10, 10 << 10
	content, err := json.Marshal(build.Inspection("host-0999", 999))
	if err != nil {
		t.Fatal(err)
	}
	if len(content) < least || len(content) > most {
		t.Errorf("hardware details have %d bytes, want %d to %d", len(content), least, most)
	}
}
