package pivot_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// said returns the parts of obstacles that a user reads: code, message and remedy.
func said(obstacles []pivot.Obstacle) (all [][3]string) {
	for _, each := range obstacles {
		all = append(all, [3]string{string(each.Code), each.Message, each.Remedy})
	}
	return all
}

// contains returns a function that returns true for a text that contains a part.
func contains(part string) func(string) bool {
	return func(text string) bool { return strings.Contains(text, part) }
}

// TestHostObstacles tests the obstacles of one host, and their order.
func TestHostObstacles(t *testing.T) {
	in := func(state bmov1alpha1.ProvisioningState) func(*bmov1alpha1.BareMetalHost) {
		return func(host *bmov1alpha1.BareMetalHost) { host.Status.Provisioning.State = state }
	}
	pausedBy := func(by string) func(*bmov1alpha1.BareMetalHost) { return annotated(bmov1alpha1.PausedAnnotation, by) }
	deleted := func(host *bmov1alpha1.BareMetalHost) { host.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	leaving, blocks := annotated(infrav1.DeleteForMoveAnnotation, ""), annotated(infrav1.BlockMoveAnnotation, "")
	moves, epoch := annotated(infrav1.MoveWhileBusyAnnotation, ""), annotated(infrav1.MoveEpochAnnotation, "1")
	recorded := func(host *bmov1alpha1.BareMetalHost) { record(t, host) }
	const provider = infrav1.HostPausedByProvider
	const wait, command = "wait until it is done", "clusterctl metal3 pivot "
	mayMove := wait + ", or let it move meanwhile with `" + command + "allow-busy --namespace metal3 --host host-0`"
	unpause := "remove its annotation " + bmov1alpha1.PausedAnnotation
	blocked := [3]string{"MoveBlocked", "host host-0 has annotation " + infrav1.BlockMoveAnnotation, "remove it"}
	refusal := [3]string{
		"PauseRefused", "BareMetalHost host-0 cannot be paused, because the API server refuses to change it: spec.raid is wrong",
		"correct the host",
	}
	parking := [3]string{"HostParking", "host host-0 is being paused", "wait until it is paused"}
	type edits []func(*bmov1alpha1.BareMetalHost)
	later := pivot.Neighbour{Name: "c", Paused: true, Verified: true, Epoch: 3}
	for name, tc := range map[string]struct {
		reason  string
		edits   edits
		around  pivot.Neighbour
		refused string
		want    [][3]string
	}{
		"Runs":    {"no move has begun", nil, runs, "", nil},
		"Parking": {"its status is not recorded", nil, paused, "", [][3]string{parking}},
		"Parked":  {"clusterctl may copy it", edits{pausedBy(provider), recorded}, paused, "", nil},
		"Earlier": {"it was parked for the move before", edits{pausedBy(provider), recorded, epoch}, later, "", [][3]string{parking}},
		"Busy": {"BMO would begin the operation again", edits{in("provisioning")}, runs, "", [][3]string{
			{"HostBusy", "host host-0 is provisioning", wait},
		}},
		"BusyPausedByProvider": {"the manager resumes it", edits{in("provisioning"), pausedBy(provider)}, paused, "", [][3]string{
			{"HostBusy", "host host-0 is provisioning", wait},
		}},
		"BusyPausedByUser": {"BMO does not continue", edits{in("provisioning"), pausedBy("me")}, paused, "", [][3]string{
			{"HostPaused", "host host-0 is paused in the middle of provisioning", unpause},
		}},
		"MayMove": {"Ironic continues", edits{in("inspecting")}, runs, "", [][3]string{
			{"HostBusy", "host host-0 is inspecting", mayMove},
		}},
		"MayMovePausedByProvider": {"the pause does not end it", edits{in("inspecting"), pausedBy(provider)}, paused, "", [][3]string{
			{"HostBusy", "host host-0 is inspecting", mayMove},
		}},
		"MayMovePausedByUser": {"the user has to decide", edits{in("inspecting"), pausedBy("me")}, runs, "", [][3]string{
			{"HostPaused", "host host-0 is paused in the middle of inspecting", unpause},
		}},
		"Moves": {"its user lets it move", edits{in("inspecting"), moves}, paused, "", [][3]string{parking}},
		"Deleted": {"BMO deprovisions it", edits{deleted}, runs, "", [][3]string{
			{"HostBusy", "host host-0 is being deleted", wait},
		}},
		"DeletedPausedByProvider": {"BMO does not continue", edits{deleted, pausedBy(provider)}, paused, "", [][3]string{
			{"HostBusy", "host host-0 is being deleted, and kept as it is while its Cluster is paused", "unpause the Cluster, so that BMO wipes and deletes the host"},
		}},
		"DeletedPausedByUser": {"BMO does not continue", edits{deleted, pausedBy("me")}, paused, "", [][3]string{
			{"HostPaused", "host host-0 is paused in the middle of being deleted", unpause},
		}},
		"Refused":        {"its status could not be recorded", nil, runs, "spec.raid is wrong", [][3]string{refusal}},
		"RefusedBusy":    {"it stays when BMO is done", edits{in("provisioning")}, runs, "spec.raid is wrong", [][3]string{refusal}},
		"Blocked":        {"no controller removes it", edits{blocks}, runs, "", [][3]string{blocked}},
		"BlockedRefused": {"both have a remedy", edits{blocks}, runs, "spec.raid is wrong", [][3]string{refusal, blocked}},
		"Leaving":        {"clusterctl deletes it", edits{leaving, blocks}, paused, "", nil},
		"Left": {"clusterctl was killed", edits{leaving}, runs, "", [][3]string{
			{"Leftover", "BareMetalHost host-0 is a leftover of an earlier move", "remove it with `" + command + "discard --namespace metal3 --host host-0`"},
		}},
		"Abandoned": {
			"the pause is not the reason", edits{pausedBy(provider), epoch}, pivot.Neighbour{Name: "c", Arrival: 3}, "spec.raid is wrong",
			[][3]string{{
				"Leftover", "BareMetalHost host-0 is a leftover of an earlier move, is not in the last one, and stays paused, because it was deleted in the source since",
				"keep it with `" + command + "keep --namespace metal3 --host host-0`, or remove it with `" + command + "discard --namespace metal3 --host host-0`",
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			host := claimed()
			host.Spec.Online, host.Status.PoweredOn = true, true
			for _, edit := range tc.edits {
				edit(host)
			}
			facts := pivot.MoveFacts{
				Hosts: []*bmov1alpha1.BareMetalHost{host}, Naming: []metav1.Object{consumer()}, Around: []pivot.Neighbour{tc.around},
			}
			if tc.refused != "" {
				facts.Refuse(&bmov1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "host-0"}}, tc.refused)
				facts.Refuse(&bmov1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, "x")
			}
			_, waits := pivot.MayLeave(facts)
			if diff := cmp.Diff(tc.want, said(waits)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestOrphanedHost(t *testing.T) {
	cluster := func(name string) *clusterv1.Cluster {
		return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	for name, tc := range map[string]struct {
		host     *bmov1alpha1.BareMetalHost
		clusters []*clusterv1.Cluster
		want     [][3]string
	}{
		"Served":  {claimed(), []*clusterv1.Cluster{cluster("other"), cluster("c")}, nil},
		"Free":    {free(), []*clusterv1.Cluster{cluster("other")}, nil},
		"Unknown": {claimed(), nil, nil},
		"Orphaned": {claimed(), []*clusterv1.Cluster{cluster("other")}, [][3]string{{
			"ClusterMissing", "host host-0 serves Cluster c, which does not exist",
			"delete the Metal3Machine m that claims the host, or remove spec.consumerRef of the host",
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, waits := pivot.MayLeave(pivot.MoveFacts{
				Hosts: []*bmov1alpha1.BareMetalHost{tc.host}, Clusters: tc.clusters, Naming: []metav1.Object{consumer()},
				Around: []pivot.Neighbour{runs},
			})
			if diff := cmp.Diff(tc.want, said(waits)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestEndpointObstacles(t *testing.T) {
	infra := pivot.About("Metal3Cluster", &metav1.ObjectMeta{Namespace: "metal3", Name: "c"})
	got := pivot.EndpointObstacles(pivot.EndpointFacts{
		Infra: infra, Endpoint: outcome.Waiting("Unreachable", "no answer"), NodesUnknown: "no connection",
		BareNodes: []string{"node-0", "node-1"},
	})
	want := [][3]string{
		{"EndpointNotReady", "Ironic endpoint: no answer", ""},
		{"NodesUnknown", "it is unknown whether the control plane can take the Ironic endpoint", "no connection"},
		{"PodsMissing", "node node-0 does not run the pods of the Ironic endpoint", "check its pods, or roll the control plane out"},
		{"PodsMissing", "node node-1 does not run the pods of the Ironic endpoint", "check its pods, or roll the control plane out"},
	}
	if diff := cmp.Diff(want, said(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got[0].Name != "c" || got[2].Kind != "Node" {
		t.Errorf("got %+v, want the Metal3Cluster and the Node", got)
	}
	if got := pivot.EndpointObstacles(pivot.EndpointFacts{Infra: infra, Endpoint: outcome.Done()}); len(got) > 0 {
		t.Errorf("got %v without a problem", got)
	}
}

// TestTheOrderOfNames tests lists whose order depends on the API server or on a map.
func TestTheOrderOfNames(t *testing.T) {
	var facts pivot.MoveFacts
	for _, name := range []string{"b", "a"} {
		young := consumer()
		young.Name, young.OwnerReferences = name, nil
		facts.Naming = append(facts.Naming, young)
		facts.AddOwner("MachineSet", &metav1.ObjectMeta{Name: name, DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}})
		facts.AddDefinition(name+".metal3.io", nil)
	}
	facts.MissingLabels = []string{"b.metal3.io: label", "a.metal3.io: label"}
	lost, _ := pivot.MayLeave(facts)
	messages := texts(lost)
	for _, pair := range [][2]string{
		{"Metal3Machine a has no", "Metal3Machine b has no"}, {"MachineSet a is", "MachineSet b is"}, {"a.metal3.io", "b.metal3.io"},
	} {
		first := slices.IndexFunc(messages, contains(pair[0]))
		if second := slices.IndexFunc(messages, contains(pair[1])); first < 0 || second < first {
			t.Errorf("%q is at %d, and %q at %d of %q", pair[0], first, pair[1], second, messages)
		}
	}
}
