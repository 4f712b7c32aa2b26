package hostdata_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	sigsyaml "sigs.k8s.io/yaml"

	infrav1beta1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta1"
	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
)

// manifestsFolder names the variable with the folder of manifests of CAPM3.
const manifestsFolder = "CAPM3_MANIFESTS"

// templatesOfCAPM3 returns the templates in a manifest of CAPM3, by name, converted and with the defaults of the
// schema.
func templatesOfCAPM3(t *testing.T, file string) map[string]*infrav1.Metal3DataTemplateSpec {
	t.Helper()
	folder := os.Getenv(manifestsFolder)
	if folder == "" {
		t.Skip(manifestsFolder + " is not set: it names a folder with manifests of CAPM3")
	}
	content, err := os.ReadFile(filepath.Join(folder, file))
	if err != nil {
		t.Fatal(err)
	}
	content = bytes.ReplaceAll(content, []byte("${CLUSTER_NAME}"), []byte("cluster"))
	found := map[string]*infrav1.Metal3DataTemplateSpec{}
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if template := templateOfCAPM3(t, file, document); template != nil {
			found[template.Name] = &template.Spec
		}
	}
}

// templateOfCAPM3 returns the template in a document. Nil if it contains an object of another kind.
func templateOfCAPM3(t *testing.T, file string, document []byte) *infrav1.Metal3DataTemplate {
	t.Helper()
	var head metav1.TypeMeta
	if err := sigsyaml.Unmarshal(document, &head); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if head.Kind != "Metal3DataTemplate" {
		return nil
	}
	if head.APIVersion != infrav1beta1.GroupVersion.String() {
		t.Fatalf("%s has a Metal3DataTemplate of %s, want %s", file, head.APIVersion, infrav1beta1.GroupVersion)
	}
	// The status of an example has a wrong type.
	spec, _, _ := bytes.Cut(document, []byte("\nstatus:"))
	var old infrav1beta1.Metal3DataTemplate
	if err := sigsyaml.Unmarshal(spec, &old); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	template := &infrav1.Metal3DataTemplate{}
	if err := infrav1beta1.ConvertMetal3DataTemplateToHub(t.Context(), &old, template); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	setDefaults(&template.Spec.NetworkData.Links)
	return template
}

// setDefaults sets the MTU that the schema gives to links without one.
func setDefaults(links *infrav1.NetworkLinks) {
	const mtu = 1500
	for i := range links.Ethernets {
		links.Ethernets[i].MTU = mtu
	}
	for i := range links.Bonds {
		links.Bonds[i].MTU = mtu
	}
	for i := range links.Vlans {
		links.Vlans[i].MTU = mtu
	}
}

func addressesOfCAPM3() map[hostdata.Pool]hostdata.Address {
	address := func(text, gateway string, prefix int32) hostdata.Address {
		return hostdata.Address{Address: text, Gateway: gateway, Prefix: ptr.To(prefix), DNSServers: []string{"8.8.8.8"}}
	}
	return map[hostdata.Pool]hostdata.Address{
		metal3("pool1"):   address("192.168.0.10", "192.168.0.1", 24),
		metal3("pool2"):   address("192.168.1.10", "192.168.1.1", 24),
		metal3("pool6-1"): address("2001:db8:1::10", "2001:db8:1::1", 64),
		metal3("pool6-2"): address("2001:db8:2::10", "2001:db8:2::1", 64),
		metal3("pool-1"):  address("10.0.0.10", "10.0.0.1", 16),
	}
}

func TestTemplatesOfCAPM3(t *testing.T) {
	templates := templatesOfCAPM3(t, "template-cluster.yaml")
	for _, name := range []string{"example-cp-metadata", "example-md-metadata"} {
		template := templates[name]
		if template == nil {
			t.Fatalf("there is no template %s, but %d others", name, len(templates))
		}
		uses, err := hostdata.Pools(template, subject())
		if err != nil || len(uses) != 4 {
			t.Errorf("%s names %v, want four pools, error %v", name, uses, err)
		}
		metaData, err := hostdata.MetaData(template.MetaData, subject(), addressesOfCAPM3())
		check(t, `{abc: def, index_0_1: "2", index_3: "5", index_5_2: "9", machine_name: machine, metal3machine_name: m3m, bmh_name: host,
			ip_1: 192.168.0.10, ip_2: 192.168.1.10, ip6_1: "2001:db8:1::10", ip6_2: "2001:db8:2::10",
			prefix_1: "24", prefix_2: "24", prefix6_1: "64", prefix6_2: "64",
			gateway_1: 192.168.0.1, gateway_2: 192.168.1.1, gateway6_1: "2001:db8:1::1", gateway6_2: "2001:db8:2::1",
			mac: "52:54:00:00:00:01", providerid: metal3/host/m3m}`, nil, metaData, err)
		networkData, err := hostdata.NetworkData(template.NetworkData, subject(), addressesOfCAPM3())
		check(t, `{
			links: [{type: phy, id: enp1s0, mtu: 1500, ethernet_mac_address: "52:54:00:00:00:01"},
				{type: phy, id: enp2s0, mtu: 1500, ethernet_mac_address: "52:54:00:00:00:02"}],
			networks: [{type: ipv4, id: baremetal, link: enp2s0, ip_address: 192.168.0.10, netmask: 255.255.255.0, routes: [
					{network: 0.0.0.0, netmask: 0.0.0.0, gateway: 192.168.0.1, services: [{type: dns, address: 8.8.4.4}]}]},
				{type: ipv4_dhcp, id: provisioning, link: enp1s0, routes: []}],
			services: [{type: dns, address: 8.8.8.8}]}`, nil, networkData, err)
	}
}

// TestExampleOfCAPM3 renders the example of the API documentation, whose MAC addresses are placeholders.
func TestExampleOfCAPM3(t *testing.T) {
	template := templatesOfCAPM3(t, "api-10.yaml")["nodepool-1"]
	if template == nil {
		t.Fatal("there is no template nodepool-1")
	}
	of := subject()
	of.Machine.Labels["mylabelkey"] = "label of the machine"
	of.Machine.Annotations["primary-mac"] = "52:54:00:00:00:0d"
	of.Machine.Annotations["myannotationkey"] = "annotation of the machine"
	_, err := hostdata.NetworkData(template.NetworkData, of, addressesOfCAPM3())
	check(t, "", []string{
		`links.bonds[bond0].macAddress.string: Invalid value: "XX:XX:XX:XX:XX:XX": is not a MAC address`,
		`links.vlans[vlan1].macAddress.string: Invalid value: "YY:YY:YY:YY:YY:YY": is not a MAC address`,
	}, nil, err)

	links := &template.NetworkData.Links
	links.Bonds[0].MACAddress.String, links.Vlans[0].MACAddress.String = "52:54:00:00:00:0e", "52:54:00:00:00:0f"
	networkData, err := hostdata.NetworkData(template.NetworkData, of, addressesOfCAPM3())
	check(t, `{
		links: [{type: bond, id: bond0, mtu: 1500, bond_mode: 802.3ad, bond_xmit_hash_policy: "", bond_links: [enp1s0, enp2s0],
				ethernet_mac_address: "52:54:00:00:00:0e"},
			{type: phy, id: enp1s0, mtu: 1500, ethernet_mac_address: "52:54:00:00:00:0d"},
			{type: phy, id: enp2s0, mtu: 1500, ethernet_mac_address: "52:54:00:00:00:02"},
			{type: vlan, id: vlan1, mtu: 1500, vlan_id: 1, vlan_link: bond0, vlan_mac_address: "52:54:00:00:00:0f"}],
		networks: [{type: ipv4, id: Baremetal, link: vlan1, ip_address: 10.0.0.10, netmask: 255.255.0.0, routes: [
				{network: 0.0.0.0, netmask: 0.0.0.0, gateway: 10.0.0.1, services: [
					{type: dns, address: 8.8.4.4}, {type: dns, address: 8.8.8.8}]}]},
			{type: ipv6, id: Baremetal6, link: vlan1, ip_address: "2001:db8:1::10", netmask: "ffff:ffff:ffff:ffff::", routes: [
				{network: "0::0", netmask: "::", gateway: "2001:0db8:85a3::8a2e:0370:1", services: [
					{type: dns, address: "2001:4860:4860::8844"}, {type: dns, address: 8.8.8.8}]}]},
			{type: ipv4_dhcp, id: provisioning, link: bond0, routes: []},
			{type: ipv6_dhcp, id: provisioning6, link: bond0, routes: []},
			{type: ipv6_slaac, id: provisioning6slaac, link: bond0, routes: []}],
		services: [{type: dns, address: 8.8.8.8}, {type: dns, address: "2001:4860:4860::8888"}]}`, nil, networkData, err)

	metaData, err := hostdata.MetaData(template.MetaData, of, addressesOfCAPM3())
	check(t, `{abc: def, name_m3m: m3m, name_machine: machine, name_bmh: host, index: "2", ip: "16", gateway: 10.0.0.1,
		dns: 8.8.8.8, mac: "52:54:00:00:00:01", label-1: label of the machine, annotation-1: annotation of the machine,
		providerid: metal3/host/m3m}`, nil, metaData, err)
}
