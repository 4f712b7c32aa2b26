package main

import (
	"bufio"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
)

// TestOwnAddressOfANode renders the example of a control plane whose nodes may hold VIPs, as for a machine with an
// address of the pool. kubeadm and the kubelet must get the address that the network-data configures.
func TestOwnAddressOfANode(t *testing.T) {
	const own = "fd00:172:22::21"
	controlPlane, template := ownAddressExample(t)
	meta, network := rendered(t, template, own)
	if !strings.Contains(network, own) {
		t.Errorf("the network-data does not configure %s:\n%s", own, network)
	}
	spec := controlPlane.Spec.KubeadmConfigSpec
	got := map[string]string{
		"advertiseAddress of kubeadm init": filled(t, spec.InitConfiguration.LocalAPIEndpoint.AdvertiseAddress, meta),
		"advertiseAddress of kubeadm join": filled(t, spec.JoinConfiguration.ControlPlane.LocalAPIEndpoint.AdvertiseAddress, meta),
		"node-ip of kubeadm init":          filled(t, nodeIP(spec.InitConfiguration.NodeRegistration), meta),
		"node-ip of kubeadm join":          filled(t, nodeIP(spec.JoinConfiguration.NodeRegistration), meta),
	}
	want := map[string]string{}
	for setting := range got {
		want[setting] = own
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("addresses of the node: -want +got:\n%s", diff)
	}
}

// ownAddressExample returns the objects of the example.
func ownAddressExample(t *testing.T) (*controlplanev1.KubeadmControlPlane, *infrav1.Metal3DataTemplate) {
	t.Helper()
	controlPlane, template := &controlplanev1.KubeadmControlPlane{}, &infrav1.Metal3DataTemplate{}
	for _, example := range blocks(read(t, "docs/templates.md"), "yaml") {
		if !strings.Contains(example.Text, "advertiseAddress:") {
			continue
		}
		reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(example.Text)))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				return controlPlane, template
			}
			var into any = controlPlane
			if strings.Contains(string(document), "kind: Metal3DataTemplate\n") {
				into = template
			}
			if err := errors.Join(err, yaml.UnmarshalStrict(document, into)); err != nil {
				t.Fatalf("docs/templates.md:%d: %v", example.Line, err)
			}
		}
	}
	t.Fatal("docs/templates.md has no example with advertiseAddress")
	return nil, nil
}

// rendered returns the meta-data with the keys of BMO, and the network-data.
func rendered(t *testing.T, template *infrav1.Metal3DataTemplate, own string) (map[string]string, string) {
	t.Helper()
	subject := hostdata.Subject{
		Machine:       &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m-1"}},
		Metal3Machine: &infrav1.Metal3Machine{ObjectMeta: metav1.ObjectMeta{Name: "m-1"}},
		Host: &bmov1alpha1.BareMetalHost{Status: bmov1alpha1.BareMetalHostStatus{
			HardwareDetails: &bmov1alpha1.HardwareDetails{NIC: []bmov1alpha1.NIC{{Name: "eth0", MAC: "52:54:00:00:00:01"}}},
		}},
	}
	uses, err := hostdata.Pools(&template.Spec, subject)
	if err != nil {
		t.Fatal(err)
	}
	addresses := map[hostdata.Pool]hostdata.Address{}
	for _, use := range uses {
		addresses[use.Pool] = hostdata.Address{Address: own, Prefix: new(int32(64)), Gateway: "fd00:172:22::1"}
	}
	content, err := hostdata.MetaData(template.Spec.MetaData, subject, addresses)
	if err != nil {
		t.Fatal(err)
	}
	for i := range template.Spec.NetworkData.Links.Ethernets {
		// The API server sets this default.
		template.Spec.NetworkData.Links.Ethernets[i].MTU = 1500
	}
	network, err := hostdata.NetworkData(template.Spec.NetworkData, subject, addresses)
	if err != nil {
		t.Fatal(err)
	}
	meta := map[string]string{}
	if err := yaml.UnmarshalStrict(content, &meta); err != nil {
		t.Fatal(err)
	}
	meta["local_hostname"], meta["uuid"] = "node-1", "00000000-0000-0000-0000-000000000001"
	return meta, string(network)
}

var expression = regexp.MustCompile(`{{ ds\.meta_data\.([a-z0-9_]+) }}`)

// filled replaces the expressions of cloud-init in a value.
func filled(t *testing.T, value string, meta map[string]string) string {
	t.Helper()
	return expression.ReplaceAllStringFunc(value, func(found string) string {
		key := expression.FindStringSubmatch(found)[1]
		if meta[key] == "" {
			t.Errorf("the meta-data has no %s: %v", key, meta)
		}
		return meta[key]
	})
}

// nodeIP returns the argument node-ip of the kubelet. Empty if there is none.
func nodeIP(node bootstrapv1.NodeRegistrationOptions) string {
	for _, argument := range node.KubeletExtraArgs {
		if argument.Name == "node-ip" && argument.Value != nil {
			return *argument.Value
		}
	}
	return ""
}
