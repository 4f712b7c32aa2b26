package remediation_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/remediation"
)

// TestProtectOperators reboots the worker w-0, which runs BMO, beside the control-plane node cp-0. By default, BMO
// tolerates no taint.
func TestProtectOperators(t *testing.T) {
	type nodeEdit = func(*remediation.ManagementNode)
	controlPlane := corev1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}
	node := func(name string, edits ...nodeEdit) remediation.ManagementNode {
		made := managementNode(name, true)
		for _, edit := range edits {
			edit(&made)
		}
		return made
	}
	tainted := func(taint corev1.Taint) nodeEdit {
		return func(n *remediation.ManagementNode) { n.Node.Spec.Taints = append(n.Node.Spec.Taints, taint) }
	}
	hung := func(n *remediation.ManagementNode) { n.Node.Status.Conditions = nil }
	down := func(n *remediation.ManagementNode) { n.Down = true }
	cordoned := func(n *remediation.ManagementNode) { n.Node.Spec.Unschedulable = true }
	master := func(edits ...nodeEdit) remediation.ManagementNode {
		return node("cp-0", append(edits, tainted(controlPlane), func(n *remediation.ManagementNode) { n.ControlPlane = true })...)
	}

	type podEdit = func(*corev1.Pod)
	pod := func(on string, edits ...podEdit) corev1.Pod {
		made := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "bmo"}, Spec: corev1.PodSpec{NodeName: on}}
		made.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		for _, edit := range edits {
			edit(&made)
		}
		return made
	}
	tolerating := func(tolerations ...corev1.Toleration) podEdit {
		return func(p *corev1.Pod) { p.Spec.Tolerations = tolerations }
	}
	selecting := func(labels map[string]string) podEdit { return func(p *corev1.Pod) { p.Spec.NodeSelector = labels } }
	broken := func(p *corev1.Pod) { p.Status.Conditions = nil }
	leaving := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: metav1.Now().Time} }
	elsewhere := func(p *corev1.Pod) { p.Namespace = "tenant" }
	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }

	type nodes = []remediation.ManagementNode
	type pods = []corev1.Pod
	cases := map[string]struct {
		reason string
		nodes  nodes
		pods   pods
		goes   bool
	}{
		"only worker":        {"BMO cannot start on cp-0", nodes{master(), node("w-0")}, pods{pod("w-0")}, false},
		"another worker":     {"BMO starts there", nodes{master(), node("w-0"), node("w-1")}, pods{pod("w-0")}, true},
		"tolerates":          {"BMO starts on cp-0", nodes{master(), node("w-0")}, pods{pod("w-0", tolerating(corev1.Toleration{Key: controlPlane.Key, Effect: controlPlane.Effect}))}, true},
		"tolerates all":      {"BMO starts on cp-0", nodes{master(), node("w-0")}, pods{pod("w-0", tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists}))}, true},
		"tolerates another":  {"the taint counts", nodes{master(), node("w-0")}, pods{pod("w-0", tolerating(corev1.Toleration{Key: "other", Operator: corev1.TolerationOpExists}))}, false},
		"hung worker":        {"pods on w-1 stop soon", nodes{master(), node("w-0"), node("w-1", hung)}, pods{pod("w-0")}, false},
		"worker is down":     {"the Node is Ready for 50 seconds", nodes{master(), node("w-0"), node("w-1", down)}, pods{pod("w-0")}, false},
		"cordoned worker":    {"no pod starts there", nodes{node("w-0"), node("w-1", cordoned)}, pods{pod("w-0")}, false},
		"replica there":      {"the replica takes over", nodes{node("w-0"), node("w-1", cordoned)}, pods{pod("w-0"), pod("w-1")}, true},
		"broken replica":     {"the replica may never be ready", nodes{node("w-0"), node("w-1", cordoned)}, pods{pod("w-0"), pod("w-1", broken)}, false},
		"leaving replica":    {"the replica ends", nodes{node("w-0"), node("w-1", cordoned)}, pods{pod("w-0"), pod("w-1", leaving)}, false},
		"replica is down":    {"the replica has no node", nodes{node("w-0"), node("w-1", down)}, pods{pod("w-0"), pod("w-1")}, false},
		"runs elsewhere":     {"w-0 does not matter", nodes{master(), node("w-0")}, pods{pod("cp-0")}, true},
		"pending":            {"only w-0 could run the pod", nodes{master(), node("w-0")}, pods{pod("")}, false},
		"selector":           {"w-1 lacks the label", nodes{node("w-0"), node("w-1")}, pods{pod("w-0", selecting(map[string]string{"bmo": "yes"}))}, false},
		"preferred":          {"the taint is a preference", nodes{node("w-0"), node("w-1", tainted(corev1.Taint{Key: "x", Effect: corev1.TaintEffectPreferNoSchedule}))}, pods{pod("w-0")}, true},
		"evicts":             {"the pod would be deleted", nodes{node("w-0"), node("w-1", tainted(corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoExecute}))}, pods{pod("w-0")}, false},
		"ended pod":          {"an ended pod does not count", nodes{node("w-0")}, pods{pod("w-0", ended)}, true},
		"decoy":              {"a user labelled a pod like BMO", nodes{node("w-0"), node("w-1", cordoned)}, pods{pod("w-0"), pod("w-1", elsewhere)}, false},
		"other namespace":    {"BMO is installed in another namespace", nodes{node("w-0"), node("w-1", cordoned)}, pods{pod("w-0", elsewhere), pod("w-1", elsewhere)}, true},
		"none":               {"BMO runs outside of the cluster", nodes{node("w-0")}, nil, true},
		"of another cluster": {"the nodes of another cluster are not read", nil, nil, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := remediation.Protect(remediation.Surroundings{
				Host: "host", Node: "w-0", Management: tc.nodes,
				Operators: []remediation.Operator{{Name: "the manager"}, {Name: "the Baremetal Operator", Namespace: "bmo", Pods: tc.pods}},
			})
			if got.IsDone() != tc.goes {
				t.Fatalf("%s: got %+v", tc.reason, got)
			}
			if !tc.goes && (got.Reason != infrav1.ManagementClusterAtRiskReason ||
				!strings.Contains(got.Message, "no ready Node of the management cluster runs, or may run, the Baremetal Operator")) {
				t.Errorf("got %+v", got)
			}
		})
	}
}
