package hostdata_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	sigsyaml "sigs.k8s.io/yaml"

	infrav1beta1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta1"
	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
)

// manifestsFolder names the variable with the folder of manifests of CAPM3.
const manifestsFolder = "CAPM3_MANIFESTS"

// templatesOfCAPM3 returns the templates in a manifest of CAPM3, by name, converted and with the defaults of the schema.
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
	reader := yaml.NewDocumentDecoder(readCloser{bytes.NewReader(content)})
	for document := make([]byte, 1<<20); ; {
		size, err := reader.Read(document)
		if err != nil {
			return found
		}
		// The status of an example is not of the type that it should be.
		spec, _, _ := bytes.Cut(document[:size], []byte("\nstatus:"))
		var old infrav1beta1.Metal3DataTemplate
		if err := sigsyaml.Unmarshal(spec, &old); err != nil || old.Kind != "Metal3DataTemplate" ||
			!strings.HasSuffix(old.APIVersion, "v1beta1") {
			continue
		}
		var template infrav1.Metal3DataTemplate
		if err := infrav1beta1.ConvertMetal3DataTemplateToHub(t.Context(), &old, &template); err != nil {
			t.Fatal(err)
		}
		setDefaults(&template.Spec.NetworkData.Links)
		found[template.Name] = &template.Spec
	}
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

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
		if _, err := hostdata.NetworkData(template.NetworkData, subject(), addressesOfCAPM3()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestExampleOfCAPM3 renders the example of the API documentation, whose MAC addresses are placeholders.
func TestExampleOfCAPM3(t *testing.T) {
	template := templatesOfCAPM3(t, "api-10.yaml")["nodepool-1"]
	if template == nil {
		t.Fatal("there is no template nodepool-1")
	}
	of := subject()
	of.Machine.Annotations["primary-mac"] = "52:54:00:00:00:0d"
	_, err := hostdata.NetworkData(template.NetworkData, of, addressesOfCAPM3())
	check(t, "", []string{
		`links.bonds[bond0].macAddress.string: Invalid value: "XX:XX:XX:XX:XX:XX": is not a MAC address`,
		`links.vlans[vlan1].macAddress.string: Invalid value: "YY:YY:YY:YY:YY:YY": is not a MAC address`,
	}, nil, err)
	metaData, err := hostdata.MetaData(template.MetaData, of, addressesOfCAPM3())
	if err != nil {
		t.Fatal(err)
	}
	if got := read[map[string]string](t, string(metaData))["dns"]; got != "8.8.8.8" {
		t.Errorf("dnsServersFromIPPool renders %q", got)
	}
}
