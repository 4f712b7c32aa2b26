package hostdata_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
)

// TestIncompleteLinks compares with convert_net_json of cloud-init.
func TestIncompleteLinks(t *testing.T) {
	const remedy = " cloud-init does not configure the network with such network data. spec.networkData is immutable: create " +
		"a corrected Metal3DataTemplate, and name it in spec.template.spec.dataTemplate of a new Metal3MachineTemplate."
	mac := "macAddress: {fromHostInterface: eth0}"
	for name, tc := range map[string]struct{ template, want string }{
		"complete": {
			template: "{links: {ethernets: [{id: a, name: eth0}, {id: b, " + mac + "}], bonds: [{id: c, bondLinks: [a, b]}], " +
				"vlans: [{id: d, vlanLink: c, " + mac + "}]}, networks: {ipv4: [{id: one, link: d}], ipv6SLAAC: [{id: one, link: c}]}}",
		},
		"links": {
			template: "{links: {ethernets: [{id: a}], bonds: [{id: c, bondLinks: [a, b]}], vlans: [{id: d, vlanLink: x}]}}",
			want: "spec.networkData.links.ethernets[a] has neither macAddress nor name. " +
				"spec.networkData.links.bonds[c] has the link b, which does not exist. " +
				"spec.networkData.links.vlans[d] has no macAddress. " +
				"spec.networkData.links.vlans[d] has the link x, which does not exist." + remedy,
		},
		"networks": {
			template: "{networks: {ipv6: [{id: one, link: far}], ipv4DHCP: [{id: two, link: off-1}]}}",
			want: "spec.networkData.networks.ipv6[one] has the link far, which does not exist. " +
				"spec.networkData.networks.ipv4DHCP[two] has the link off-1, which does not exist." + remedy,
		},
	} {
		template := read[infrav1.NetworkData](t, tc.template)
		if diff := cmp.Diff(tc.want, hostdata.IncompleteLinks(&template)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	if got := hostdata.IncompleteLinks(nil); got != "" {
		t.Errorf("a template without network-data: %s", got)
	}
}
