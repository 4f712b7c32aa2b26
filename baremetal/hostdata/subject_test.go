package hostdata_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	infrav1beta1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta1"
	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// subject returns the machine of all tests: index 2, two network interfaces, annotations and labels on each object.
func subject() hostdata.Subject {
	machine := build.Machine("machine", "cluster")
	machine.Labels = map[string]string{"rack": "m-rack"}
	machine.Annotations = map[string]string{"mac": "52:54:00:00:00:0a", "pool": "pool4", "bad": "nonsense"}
	metal3Machine := build.Metal3Machine("m3m", "cluster")
	metal3Machine.Labels = map[string]string{"rack": "3-rack"}
	metal3Machine.Annotations = map[string]string{"mac": "52:54:00:00:00:0b", "pool": "pool6"}
	host := build.Host("host")
	host.Labels = map[string]string{"rack": "h-rack"}
	host.Annotations = map[string]string{"mac": "52:54:00:00:00:0c", "pool": "pool4"}
	host.Spec.BootMACAddress = "52:54:00:00:00:01"
	host.Status.HardwareDetails = &bmov1alpha1.HardwareDetails{NIC: []bmov1alpha1.NIC{
		{Name: "eth0", MAC: "52:54:00:00:00:01"}, {Name: "eth1", MAC: "52:54:00:00:00:02"}, {Name: "ib0", MAC: "not-a-mac"},
	}}
	for _, object := range []metav1.Object{machine, metal3Machine, host} {
		annotations := object.GetAnnotations()
		annotations["ipv4"], annotations["ipv6"] = "pool4", "pool6"
	}
	return hostdata.Subject{Machine: machine, Metal3Machine: metal3Machine, Host: host, Index: 2}
}

func metal3(name string) hostdata.Pool {
	return hostdata.Pool{Group: hostdata.Metal3PoolGroup, Kind: hostdata.Metal3PoolKind, Name: name}
}

// inCluster is a pool of a provider of the IPAM contract.
func inCluster(name string) hostdata.Pool {
	return hostdata.Pool{Group: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: name}
}

func addresses() map[hostdata.Pool]hostdata.Address {
	return map[hostdata.Pool]hostdata.Address{
		metal3("pool4"): {
			Address: "192.168.0.14", Prefix: ptr.To[int32](24), Gateway: "192.168.0.1", DNSServers: []string{"8.8.8.8", "8.8.4.4"},
		},
		metal3("pool6"): {
			Address: "2001:db8::14", Prefix: ptr.To[int32](96), Gateway: "2001:db8::1", DNSServers: []string{"2001:4860:4860::8888"},
		},
		metal3("bare"):      {Address: "10.0.0.5"},
		metal3("beyond"):    {Address: "10.0.0.5", Prefix: ptr.To[int32](64)},
		inCluster("pool4"):  {Address: "10.0.0.14", Prefix: ptr.To[int32](16), Gateway: "10.0.0.1"},
		inCluster("pool6"):  {Address: "fd00::14", Prefix: ptr.To[int32](64), Gateway: "fd00::1"},
		metal3("unrouted4"): {Address: "10.1.0.14", Prefix: ptr.To[int32](16)},
	}
}

// read decodes YAML, so that tests compare contents and not the style of the encoder.
func read[T any](t *testing.T, content string) T {
	t.Helper()
	var into T
	if err := yaml.UnmarshalStrict([]byte(content), &into); err != nil {
		t.Fatalf("%v in\n%s", err, content)
	}
	return into
}

// check compares rendered YAML with the expected one, or requires all parts in the message of the error.
func check(t *testing.T, want string, problems []string, got []byte, err error) {
	t.Helper()
	if len(problems) > 0 {
		if err == nil {
			t.Fatalf("rendered\n%s, want an error with %q", got, problems)
		}
		for _, part := range problems {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error does not contain %q:\n%v", part, err)
			}
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(read[any](t, want), read[any](t, string(got))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// throughOldVersion returns a template that was written in v1beta1 and converted. Nil if v1beta1 cannot express it.
func throughOldVersion(t *testing.T, spec infrav1.Metal3DataTemplateSpec) *infrav1.Metal3DataTemplateSpec {
	t.Helper()
	var old infrav1beta1.Metal3DataTemplate
	hub := &infrav1.Metal3DataTemplate{Spec: spec}
	if err := infrav1beta1.ConvertMetal3DataTemplateFromHub(t.Context(), hub, &old); err != nil {
		t.Fatal(err)
	}
	if len(old.Annotations) > 0 {
		t.Logf("v1beta1 cannot express it: %v", old.Annotations)
		return nil
	}
	var converted infrav1.Metal3DataTemplate
	if err := infrav1beta1.ConvertMetal3DataTemplateToHub(t.Context(), &old, &converted); err != nil {
		t.Fatal(err)
	}
	return &converted.Spec
}
