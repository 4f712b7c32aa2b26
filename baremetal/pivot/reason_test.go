package pivot_test

import (
	"testing"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// TestThePauseReasonIsTrue changes the reason of the pause of a host, and requires that the host has the new reason,
// its pause and its epoch.
func TestThePauseReasonIsTrue(t *testing.T) {
	superseded, waits := pivot.Neighbour{Name: "c", Superseded: true}, unverified
	arrived := pivot.Neighbour{Name: "c", Verified: true, Arrival: 7}
	lost := pivot.Neighbour{
		Name: "c", Verified: true, Endpoint: true, Holder: &infrav1.IronicHolder{Kind: infrav1.HolderControlPlane, Name: "n"},
	}
	image := func(host *bmov1alpha1.BareMetalHost) {
		host.Spec.Image = &bmov1alpha1.Image{URL: "http://images.example/node"}
	}
	situations := map[string]struct {
		reason string
		around pivot.Neighbour
		facts  pivot.HostFacts
		edit   func(*bmov1alpha1.BareMetalHost)
		want   string
	}{
		"Fenced": {
			"another management cluster claimed the cluster", superseded, pivot.HostFacts{}, image,
			"Another management cluster manages the host: see condition IronicEndpointReady of the Metal3Cluster whose " +
				"Ironic serves it",
		},
		"ProvisioningHeld": {
			"its Ironic is gone", lost, pivot.HostFacts{Unknown: true}, func(host *bmov1alpha1.BareMetalHost) {
				image(host)
				host.Status.Provisioning.State = bmov1alpha1.StateProvisioning
			},
			"The Ironic that was provisioning the host is gone: resumed when the workload cluster says whether the Node of " +
				"the host has joined",
		},
		"ArrivalHeld": {
			"the last move did not bring it", arrived, pivot.HostFacts{}, image,
			"Left by an earlier move, or arrived on a leftover: see condition ReadyForMove of the Metal3Cluster",
		},
		"StatusLost": {
			"it came out of a backup", runs, pivot.HostFacts{}, func(host *bmov1alpha1.BareMetalHost) {
				image(host)
				host.Status, host.Finalizers = bmov1alpha1.BareMetalHostStatus{}, []string{bmov1alpha1.BareMetalHostFinalizer}
			},
			"The host has an image and arrived without its status: resumed when the Machine that holds it has its Node",
		},
		"WaitingForIronic": {
			"the Ironic endpoint of another namespace has not arrived", runs, pivot.HostFacts{},
			func(host *bmov1alpha1.BareMetalHost) { bringIronic(host, "c2") },
			"The Ironic endpoint of another namespace serves the host: resumed when its Metal3Cluster has arrived and is ready",
		},
		"StatusLostToo": {
			"it came out of a backup, and the Ironic endpoint is not ready", waits, pivot.HostFacts{}, withoutStatus,
			"The host has an image and arrived without its status: resumed when the Machine that holds it has its Node",
		},
		"Parked": {
			"the next move takes it along", paused, pivot.HostFacts{Settled: true}, func(host *bmov1alpha1.BareMetalHost) {
				bringIronic(host, "c2")
				record(t, host)
			},
			"Paused for clusterctl move: resumed when the Cluster runs and its Ironic endpoint is ready",
		},
		"WaitingForEndpoint": {
			"the Ironic endpoint is not ready", waits, pivot.HostFacts{}, image,
			"Paused for clusterctl move: resumed when the Cluster runs and its Ironic endpoint is ready",
		},
	}
	before := map[string]string{}
	for name, situation := range situations {
		before[name] = situation.want
	}
	for name, tc := range situations {
		for was, reason := range before {
			t.Run(was+"To"+name, func(t *testing.T) {
				host := claimed()
				host.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
				host.Annotations[infrav1.PauseReasonAnnotation] = reason
				host.Annotations[infrav1.MoveEpochAnnotation] = "5"
				tc.edit(host)
				around := []pivot.Neighbour{tc.around}
				host = pivot.Apply(pivot.PlanHost(host, around, tc.facts), host, around)
				if got := host.Annotations[infrav1.PauseReasonAnnotation]; got != tc.want {
					t.Errorf("%s: the host says %q, want %q", tc.reason, got, tc.want)
				}
				if host.Annotations[bmov1alpha1.PausedAnnotation] != infrav1.HostPausedByProvider || pivot.EpochOf(host) != 5 {
					t.Errorf("%s: got %v", tc.reason, host.Annotations)
				}
			})
		}
	}
}

// TestAFreeHostWaitsForAllClustersOfItsMove unpauses the Clusters of a move one after the other.
func TestAFreeHostWaitsForAllClustersOfItsMove(t *testing.T) {
	move := func(name string, isPaused bool) pivot.Neighbour {
		if isPaused {
			return pivot.Neighbour{Name: name, Paused: true, Verified: true, Epoch: 3}
		}
		return pivot.Neighbour{Name: name, Verified: true, Epoch: 4}
	}
	const moves, waits = "Paused for clusterctl move: resumed when the Cluster runs and its Ironic endpoint is ready",
		"A Cluster that the host moves with is paused: resumed when all of them run in this management cluster"
	host := free()
	for _, step := range []struct {
		around []pivot.Neighbour
		want   string
	}{
		{[]pivot.Neighbour{move("a", true), move("b", true)}, moves},
		{[]pivot.Neighbour{move("a", false), move("b", true)}, waits},
		{[]pivot.Neighbour{move("a", true), move("b", true)}, moves},
		{[]pivot.Neighbour{move("a", true), move("b", false)}, waits},
		{[]pivot.Neighbour{move("a", false), move("b", false)}, ""},
	} {
		// The last step is Leave.
		for next := pivot.PlanHost(host, step.around, pivot.HostFacts{Settled: true}); next != pivot.Leave; {
			if host = pivot.Apply(next, host, step.around); next == pivot.Record {
				record(t, host)
			}
			next = pivot.PlanHost(host, step.around, pivot.HostFacts{Settled: true})
		}
		if got := host.Annotations[infrav1.PauseReasonAnnotation]; got != step.want {
			t.Errorf("%+v: the host says %q, want %q", step.around, got, step.want)
		}
		if _, isPaused := host.Annotations[bmov1alpha1.PausedAnnotation]; isPaused != (step.want != "") {
			t.Errorf("%+v: got %v", step.around, host.Annotations)
		}
	}
}

// TestThePauseOfAUserIsNotExplained replaces a pause of the provider by hand.
func TestThePauseOfAUserIsNotExplained(t *testing.T) {
	for _, around := range [][]pivot.Neighbour{{paused}, {runs}, {unverified}, {{Name: "c", Superseded: true}}, nil} {
		host := claimed()
		host.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
		record(t, host)
		host.Annotations[infrav1.PauseReasonAnnotation] = "Paused for clusterctl move: resumed when the Cluster runs"
		host.Annotations[bmov1alpha1.PausedAnnotation] = "maintenance"
		host = pivot.Apply(pivot.PlanHost(host, around, pivot.HostFacts{Settled: true}), host, around)
		if reason, says := host.Annotations[infrav1.PauseReasonAnnotation]; says {
			t.Errorf("%v: the host says %q", around, reason)
		}
		if host.Annotations[bmov1alpha1.PausedAnnotation] != "maintenance" {
			t.Errorf("%v: the pause of the user is gone", around)
		}
		if again := pivot.PlanHost(host, around, pivot.HostFacts{Settled: true}); again != pivot.Leave {
			t.Errorf("%v: the host gets %s", around, again)
		}
	}
	host := claimed()
	host.Annotations[infrav1.PauseReasonAnnotation] = "Paused for clusterctl move"
	around := []pivot.Neighbour{runs}
	host = pivot.Apply(pivot.PlanHost(host, around, pivot.HostFacts{}), host, around)
	if reason, says := host.Annotations[infrav1.PauseReasonAnnotation]; says {
		t.Errorf("the user has removed the pause, and the host says %q", reason)
	}
	host.Annotations[bmov1alpha1.PausedAnnotation] = "maintenance"
	host.Annotations[infrav1.PauseReasonAnnotation] = "Paused for clusterctl move"
	host.Annotations[infrav1.DeleteForMoveAnnotation] = ""
	host.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	if step := pivot.PlanHost(host, []pivot.Neighbour{paused}, pivot.HostFacts{}); step != pivot.Leave {
		t.Errorf("a host that clusterctl deletes gets %s", step)
	}
}
