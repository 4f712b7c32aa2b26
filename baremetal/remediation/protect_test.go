package remediation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/remediation"
)

func TestProtect(t *testing.T) {
	type nodes = []remediation.ManagementNode
	management := func(ready ...bool) nodes {
		var all nodes
		for i, isReady := range ready {
			all = append(all, managementNode(fmt.Sprintf("cp-%d", i), isReady))
			all[i].ControlPlane = true
		}
		return all
	}
	down := func(all nodes, names ...string) nodes {
		for i := range all {
			all[i].Down = slices.Contains(names, all[i].Node.Name)
		}
		return all
	}
	carrier := func(name string, armed, ready bool) remediation.Carrier {
		return remediation.Carrier{Name: name, Armed: armed, Ready: ready}
	}
	type plane = remediation.Surroundings
	cases := map[string]struct {
		why             string
		in              plane
		reason, message string
	}{
		"WorkloadCluster": {why: "the management cluster powers its only node on again", in: plane{}},
		"OnlyNode":        {"etcd would stop", plane{Management: management(true)}, infrav1.ManagementClusterAtRiskReason, "0 of 1 control-plane nodes"},
		"OnlyNodeIsHung":  {"etcd would stop", plane{Management: management(false)}, infrav1.ManagementClusterAtRiskReason, "requires 1"},
		"OneOfTwo":        {"etcd requires both", plane{Management: management(false, true)}, infrav1.ManagementClusterAtRiskReason, "1 of 2"},
		"OneOfThree":      {why: "two are a quorum", in: plane{Management: management(false, true, true)}},
		"ItselfIsHealthy": {why: "the node itself does not count", in: plane{Management: management(true, true, true)}},
		"TwoOfThree":      {"etcd would stop", plane{Management: management(false, false, true)}, infrav1.ManagementClusterAtRiskReason, "1 of 3"},
		"OneOfFour":       {why: "three are a quorum of four", in: plane{Management: management(false, true, true, true)}},
		"TwoOfFour":       {"two of four are no quorum", plane{Management: management(false, false, true, true)}, infrav1.ManagementClusterAtRiskReason, "requires 3"},
		"OneOfThreeIsDown": {
			"its Node is Ready for 50 seconds after the power-off", plane{Management: down(management(true, true, true), "cp-1")},
			infrav1.ManagementClusterAtRiskReason, "1 of 3 control-plane nodes of the management cluster are ready, and etcd requires " +
				"2: nothing could power BareMetalHost host on again. Node cp-1 is off or being rebooted. ",
		},
		"TwoOfFiveAreDown": {
			"two of five are no quorum", plane{Management: down(management(true, true, true, true, true), "cp-1", "cp-4")},
			infrav1.ManagementClusterAtRiskReason, "Nodes cp-1, cp-4 are off or being rebooted.",
		},
		"OneOfFiveIsDown": {why: "three are a quorum", in: plane{Management: down(management(true, true, true, true, true), "cp-1")}},
		"ItselfIsDown":    {why: "the node itself does not count", in: plane{Management: down(management(true, true, true), "cp-0")}},
		"Worker": {
			why: "etcd does not run on a worker", in: plane{Management: append(nodes{managementNode("cp-0", true)}, management(true, false)[1])},
		},
		"Holder": {
			why: "keepalived moves the VIP to cp-1",
			in:  plane{Carriers: []remediation.Carrier{carrier("cp-0", true, true), carrier("cp-1", true, true)}},
		},
		"OnlyCarrier": {
			"Ironic would power its own host off", plane{Carriers: []remediation.Carrier{carrier("cp-0", true, true)}},
			infrav1.IronicEndpointAtRiskReason, "Node cp-0 may hold the VIP",
		},
		"OthersAreBroken": {
			"no other node could serve", plane{Carriers: []remediation.Carrier{
				carrier("cp-0", true, false), carrier("cp-1", true, false), carrier("cp-2", false, true),
			}}, infrav1.IronicEndpointAtRiskReason, "no other armed Node has ready Ironic pods",
		},
		"OtherIsDown": {
			"its pods are reported as ready for some time", plane{Carriers: []remediation.Carrier{
				carrier("cp-0", true, true), {Name: "cp-1", Armed: true, Ready: true, Down: true},
			}}, infrav1.IronicEndpointAtRiskReason, "Node cp-1 is off or being rebooted",
		},
		"NotArmed": {
			why: "an unarmed node cannot hold the VIP", in: plane{Carriers: []remediation.Carrier{carrier("cp-0", false, true), carrier("cp-1", false, false)}},
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
				t.Errorf("the message does not name the manual reboot: %s", got.Message)
			}
		})
	}
}

func managementNode(name string, ready bool) remediation.ManagementNode {
	node := &corev1.Node{}
	node.Name = name
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue}, {Type: corev1.NodeReady, Status: status},
	}
	return remediation.ManagementNode{Node: node}
}
