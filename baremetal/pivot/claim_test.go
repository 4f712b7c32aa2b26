package pivot_test

import (
	"strings"
	"testing"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

func TestStandingOf(t *testing.T) {
	us := func(epoch pivot.Epoch) *pivot.Claim { return &pivot.Claim{Epoch: epoch, Manager: "us"} }
	them := func(epoch pivot.Epoch) *pivot.Claim { return &pivot.Claim{Epoch: epoch, Manager: "them"} }
	for name, tc := range map[string]struct {
		reason   string
		own      pivot.Epoch
		recorded *pivot.Claim
		want     pivot.Standing
	}{
		"New":        {"no management cluster has claimed the cluster", 0, nil, pivot.Claims},
		"Arrived":    {"the target continues with the next epoch", 2, them(0), pivot.Claims},
		"Given up":   {"the source continues", 2, us(0), pivot.Claims},
		"Recorded":   {"nothing has changed", 2, us(2), pivot.Current},
		"Restored":   {"a copy that did not come with clusterctl", 0, them(0), pivot.Superseded},
		"Both run":   {"the other side was unpaused first", 2, them(2), pivot.Superseded},
		"Older":      {"the target has claimed the cluster in a later move", 2, them(4), pivot.Superseded},
		"Made again": {"the Metal3Cluster lost its annotation", 0, us(4), pivot.Behind},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pivot.StandingOf(pivot.Claim{Epoch: tc.own, Manager: "us"}, tc.recorded); got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

// TestOneSideActs unpauses both sides of a move in any order, and requires that the claims let one side act.
func TestOneSideActs(t *testing.T) {
	for _, facts := range combinations(
		[]string{"0", "2", "4"}, []string{"0", "2", "4"}, []string{"source", "target"},
	) {
		epochs := map[string]pivot.Epoch{}
		for i, side := range []string{"source", "target"} {
			infra := bringing(facts[i], "")
			epochs[side] = pivot.EpochOf(infra)
		}
		var recorded *pivot.Claim
		order := []string{"source", "target"}
		if facts[2] == "target" {
			order = []string{"target", "source"}
		}
		acts := map[string]bool{}
		for range 3 {
			for _, side := range order {
				own := pivot.Claim{Epoch: epochs[side], Manager: side}
				standing := pivot.StandingOf(own, recorded)
				if standing == pivot.Claims {
					recorded = &own
				}
				acts[side] = standing != pivot.Superseded
			}
		}
		if acts["source"] == acts["target"] {
			t.Errorf("%v: source acts: %v, target acts: %v", facts, acts["source"], acts["target"])
		}
		if epochs["source"] > epochs["target"] != acts["source"] && epochs["source"] != epochs["target"] {
			t.Errorf("%v: the older side acts", facts)
		}
	}
}

// TestFencing requires that BMO stops acting on the hosts of a superseded cluster.
func TestFencing(t *testing.T) {
	superseded := pivot.Neighbour{Name: "c", Superseded: true}
	verified, paused := superseded, superseded
	verified.Verified, paused.Paused = true, true
	for _, around := range [][]pivot.Neighbour{
		{superseded}, {verified}, {superseded, {Name: "other", Verified: true}}, {paused},
	} {
		for _, state := range []bmov1alpha1.ProvisioningState{
			bmov1alpha1.StateProvisioned, bmov1alpha1.StateProvisioning, bmov1alpha1.StateDeprovisioning,
		} {
			for _, host := range []*bmov1alpha1.BareMetalHost{claimed(), free()} {
				host.Status.Provisioning.State = state
				host.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
				step := pivot.PlanHost(host, around, pivot.HostFacts{Joined: true})
				fenced := pivot.Apply(step, host, around)
				if by := fenced.Annotations[bmov1alpha1.PausedAnnotation]; by != infrav1.HostPausedByProvider {
					t.Errorf("%s with %v: BMO goes on acting after %s", state, around, step)
				}
				if again := pivot.PlanHost(fenced, around, pivot.HostFacts{Settled: true}); again != pivot.Leave {
					t.Errorf("%s with %v: a fenced host gets %s", state, around, again)
				}
				if phase := pivot.PhaseOf(fenced, around); phase != pivot.PhaseFenced {
					t.Errorf("%s with %v: got phase %s", state, around, phase)
				}
			}
		}
	}
	lost, _ := pivot.MayLeave(pivot.MoveFacts{Around: []pivot.Neighbour{paused}})
	if len(lost) != 1 || !strings.Contains(lost[0].Message, "managed by another management cluster") {
		t.Errorf("the gate opens: %q", lost)
	}
	elsewhere := superseded
	elsewhere.Elsewhere = true
	for name, around := range map[string][]pivot.Neighbour{
		"Another namespace": {{Name: "c", Verified: true}, elsewhere},
		"Another Cluster":   {{Name: "c", Verified: true}, {Name: "other", Superseded: true}},
	} {
		if step := pivot.PlanHost(claimed(), around, pivot.HostFacts{}); step == pivot.FenceOff {
			t.Errorf("%s: the host is fenced", name)
		}
	}
}

// TestFencingFromAnotherNamespace has remedies for the namespace of the Cluster that is managed elsewhere.
func TestFencingFromAnotherNamespace(t *testing.T) {
	away := pivot.Neighbour{Elsewhere: true, Namespace: "far", Endpoint: true, ClusterID: "c1", Superseded: true}
	lost, _ := pivot.MayLeave(pivot.MoveFacts{Around: []pivot.Neighbour{{Name: "c", Verified: true}, away}})
	if len(lost) != 1 || !strings.Contains(lost[0].Remedy, "pivot fence --namespace far") {
		t.Errorf("the gate opens although another namespace fences the hosts: %q", lost)
	}
	held := pausedHost(claimed())
	refused := pivot.UnpauseObstacles(held, []pivot.Neighbour{{Name: "c", Verified: true}, away}, pivot.Departure{})
	if len(refused) != 1 || !strings.Contains(refused[0].Remedy, "pivot takeover --namespace far") {
		t.Errorf("the pause of a fenced host may be removed: %q", refused)
	}
}

func TestIsSuperseded(t *testing.T) {
	infra := &infrav1.Metal3Cluster{}
	infra.Namespace, infra.Name = "metal3", "infra"
	infra.Spec.Ironic = &infrav1.Ironic{}
	if pivot.IsSuperseded(infra) {
		t.Error("superseded without a condition")
	}
	infra.Status.Conditions = []metav1.Condition{{
		Type: infrav1.IronicEndpointReadyCondition, Reason: infrav1.ManagedElsewhereReason,
	}}
	if !pivot.IsSuperseded(infra) {
		t.Error("not superseded despite the condition")
	}
	if !pivot.FencesOthers(infra) {
		t.Error("hosts of other namespaces that its Ironic serves are not fenced")
	}
	infra.Status.Conditions = append(infra.Status.Conditions,
		metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue})
	if pivot.FencesOthers(infra) {
		t.Error("hosts of other namespaces stay fenced after the user has paused the older side")
	}
	infra.Spec.Ironic = nil
	if pivot.IsSuperseded(infra) {
		t.Error("superseded by an old condition, without an endpoint")
	}
	message := pivot.SupersededMessage(infra, pivot.Claim{Epoch: 4, Manager: "uid"})
	for _, want := range []string{
		"UID uid", "move epoch 4", "`clusterctl metal3 pivot fence --namespace metal3`",
		"`clusterctl metal3 pivot clean --namespace metal3 --to-kubeconfig newer.kubeconfig`",
		"`clusterctl metal3 pivot takeover --namespace metal3`",
	} {
		if !strings.Contains(message, want) {
			t.Errorf("%q is missing: %s", want, message)
		}
	}
}
