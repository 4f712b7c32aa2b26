package remediation_test

import (
	"strings"
	"testing"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/remediation"
)

func TestProtect(t *testing.T) {
	management := func(ready ...bool) []remediation.ManagementNode {
		names := []string{"cp-0", "cp-1", "cp-2", "cp-3"}
		var nodes []remediation.ManagementNode
		for i, isReady := range ready {
			nodes = append(nodes, remediation.ManagementNode{Name: names[i], Ready: isReady})
		}
		return nodes
	}
	carrier := func(name string, armed, ready bool) remediation.Carrier {
		return remediation.Carrier{Name: name, Armed: armed, Ready: ready}
	}
	type plane = remediation.ControlPlane
	cases := map[string]struct {
		why             string
		in              plane
		reason, message string
	}{
		"WorkloadCluster":  {why: "the management cluster powers its only node on again", in: plane{}},
		"OnlyNode":         {"nothing would be left", plane{Management: management(true)}, infrav1.ManagementClusterAtRiskReason, "0 of 1 control-plane nodes"},
		"OnlyNodeIsHung":   {"nothing would be left", plane{Management: management(false)}, infrav1.ManagementClusterAtRiskReason, "requires 1"},
		"OneOfTwo":         {"etcd requires both", plane{Management: management(false, true)}, infrav1.ManagementClusterAtRiskReason, "1 of 2"},
		"OneOfThree":       {why: "two are a quorum", in: plane{Management: management(false, true, true)}},
		"HealthyIsNotTold": {why: "the node itself does not count", in: plane{Management: management(true, true, true)}},
		"TwoOfThree":       {"etcd would stop", plane{Management: management(false, false, true)}, infrav1.ManagementClusterAtRiskReason, "1 of 3"},
		"OneOfFour":        {why: "three are a quorum of four", in: plane{Management: management(false, true, true, true)}},
		"TwoOfFour":        {"two are none", plane{Management: management(false, false, true, true)}, infrav1.ManagementClusterAtRiskReason, "requires 3"},
		"Holder": {
			why: "keepalived gives the VIP to cp-1",
			in:  plane{Carriers: []remediation.Carrier{carrier("cp-0", true, true), carrier("cp-1", true, true)}},
		},
		"OnlyCarrier": {
			"Ironic would power itself off", plane{Carriers: []remediation.Carrier{carrier("cp-0", true, true)}},
			infrav1.IronicEndpointAtRiskReason, "Node cp-0 may hold the VIP",
		},
		"OthersAreBroken": {
			"none of them could serve", plane{Carriers: []remediation.Carrier{
				carrier("cp-0", true, false), carrier("cp-1", true, false), carrier("cp-2", false, true),
			}}, infrav1.IronicEndpointAtRiskReason, "no other armed Node has ready Ironic pods",
		},
		"NotArmed": {
			why: "the VIP cannot be there", in: plane{Carriers: []remediation.Carrier{carrier("cp-0", false, true), carrier("cp-1", false, false)}},
		},
		"Unknown": {"cp-0 may hold the VIP", plane{CarriersUnknown: true}, infrav1.WorkloadClusterUnreachableReason, "does not answer"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.in.Node, tc.in.Host = "cp-0", "host"
			got := remediation.Protect(tc.in)
			if got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) || got.IsDone() != (tc.reason == "") {
				t.Errorf("%s: got %+v", tc.why, got)
			}
			if !got.IsDone() && !strings.Contains(got.Message, "reboot ") {
				t.Errorf("a person may do what the provider does not: %s", got.Message)
			}
		})
	}
}
