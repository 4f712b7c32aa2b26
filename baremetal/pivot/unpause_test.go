package pivot_test

import (
	"slices"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// pausedHost returns a host that the provider has paused.
func pausedHost(host *bmov1alpha1.BareMetalHost, edits ...func(*bmov1alpha1.BareMetalHost)) *bmov1alpha1.BareMetalHost {
	host.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
	for _, edit := range edits {
		edit(host)
	}
	return host
}

func annotated(name, value string) func(*bmov1alpha1.BareMetalHost) {
	return func(host *bmov1alpha1.BareMetalHost) { metav1.SetMetaDataAnnotation(&host.ObjectMeta, name, value) }
}

// withoutStatus removes the status from a host, as a restore from a backup does.
func withoutStatus(host *bmov1alpha1.BareMetalHost) {
	host.Spec.Image = &bmov1alpha1.Image{URL: "http://images.example/x.img"}
	host.Finalizers = []string{bmov1alpha1.BareMetalHostFinalizer}
	host.Status = bmov1alpha1.BareMetalHostStatus{}
}

func codesOf(obstacles []pivot.Obstacle) []pivot.Code {
	var codes []pivot.Code
	for _, each := range obstacles {
		codes = append(codes, each.Code)
	}
	return codes
}

func TestUnpauseObstacles(t *testing.T) {
	brings := annotated(infrav1.IronicClusterIDAnnotation, "far")
	endpoint := func(verified bool) pivot.Neighbour {
		return pivot.Neighbour{Elsewhere: true, Endpoint: true, ClusterID: "far", Verified: verified}
	}
	deleted := func(host *bmov1alpha1.BareMetalHost) { host.DeletionTimestamp = &metav1.Time{Time: seenAt.Time} }
	var left pivot.Departure
	left.Enter([]*bmov1alpha1.BareMetalHost{free()})
	moves := func(host *bmov1alpha1.BareMetalHost) {
		annotated(infrav1.MoveEpochAnnotation, "3")(host)
		record(t, host)
		annotated(infrav1.StatusOriginAnnotation, string(host.UID))(host)
	}
	oneOfTwo := []pivot.Neighbour{{Name: "c", Verified: true, Epoch: 4}, {Name: "d", Paused: true, Epoch: 3}}
	waiting := []pivot.Neighbour{{Name: "c", Endpoint: true, Epoch: 4}}
	arrived := pivot.Neighbour{Name: "c", Verified: true, Arrival: 3}
	superseded := pivot.Neighbour{Name: "c", Superseded: true}
	cases := map[string]struct {
		reason string
		host   *bmov1alpha1.BareMetalHost
		around []pivot.Neighbour
		left   pivot.Departure
		want   pivot.Code
	}{
		"Free":         {reason: "CAPM3 paused it, and no Cluster is here", host: pausedHost(free())},
		"Waits":        {reason: "only the user knows that the Ironic does not move", host: pausedHost(free(), brings)},
		"WaitsHere":    {"the same beside a Cluster", pausedHost(free(), brings), []pivot.Neighbour{runs}, pivot.Departure{}, ""},
		"Claimed":      {"the same for a host with a Machine", pausedHost(claimed(), brings), []pivot.Neighbour{runs}, pivot.Departure{}, ""},
		"ByUser":       {"the user's own pause", pausedHost(claimed(), annotated(bmov1alpha1.PausedAnnotation, "")), []pivot.Neighbour{runs}, pivot.Departure{}, ""},
		"Comes":        {"the endpoint is here, and is not verified yet", pausedHost(free(), brings), []pivot.Neighbour{runs, endpoint(false)}, pivot.Departure{}, pivot.CodeEndpointNotReady},
		"Came":         {"the manager resumes it", pausedHost(free(), brings), []pivot.Neighbour{runs, endpoint(true)}, pivot.Departure{}, ""},
		"Unverified":   {"another Ironic may answer", pausedHost(free()), []pivot.Neighbour{unverified}, pivot.Departure{}, pivot.CodeEndpointNotReady},
		"Moving":       {"a move may be under way", pausedHost(free()), []pivot.Neighbour{paused}, pivot.Departure{}, pivot.CodePaused},
		"CAPM3":        {"its manager sets no block-move", pausedHost(free()), []pivot.Neighbour{{Name: "c", Verified: true, Ungated: true}}, pivot.Departure{}, ""},
		"Ungated":      {"its manager sets block-move first", pausedHost(free()), []pivot.Neighbour{{Name: "c", Verified: true, Endpoint: true, Ungated: true}}, pivot.Departure{}, pivot.CodeEndpointNotReady},
		"Left":         {"the target manages it", pausedHost(free()), nil, left, pivot.CodeInTarget},
		"OneOfTwo":     {"the other Cluster of its move is to stay paused", pausedHost(free(), moves), oneOfTwo, pivot.Departure{}, ""},
		"OneOfTwoLeft": {"the target may manage it", pausedHost(free(), moves), oneOfTwo, left, pivot.CodeInTarget},
		"LeftWaits":    {"the endpoint does not make it come back", pausedHost(free(), moves), waiting, left, pivot.CodeInTarget},
		"Back":         {"it has moved back", pausedHost(free()), []pivot.Neighbour{runs}, left, ""},
		"Orphan":       {"BMO would deprovision it when its Machine is deleted", pausedHost(claimed()), nil, pivot.Departure{}, pivot.CodeClusterMissing},
		"Superseded":   {"BMO would act on it twice", pausedHost(claimed()), []pivot.Neighbour{superseded}, pivot.Departure{}, pivot.CodeSuperseded},
		"Abandoned":    {"the source has deleted it", pausedHost(claimed(), annotated(infrav1.MoveEpochAnnotation, "1")), []pivot.Neighbour{arrived}, pivot.Departure{}, pivot.CodeLeftover},
		"Leftover":     {"BMO would finish the deletion", pausedHost(leftover(t, "foreign", "older", "deleted")), []pivot.Neighbour{runs}, pivot.Departure{}, pivot.CodeLeftover},
		"Deleted":      {"BMO would deprovision it", pausedHost(free(), deleted), []pivot.Neighbour{runs}, pivot.Departure{}, pivot.CodeBeingDeleted},
		"Leaving":      {"clusterctl deletes it", pausedHost(free(), annotated(infrav1.DeleteForMoveAnnotation, "")), nil, pivot.Departure{}, pivot.CodeBeingDeleted},
		"StatusLost":   {"BMO would write the image again", pausedHost(free(), withoutStatus), nil, pivot.Departure{}, pivot.CodeHostPaused},
		"Interrupted":  {"the next Ironic would write the image again", interrupted(), []pivot.Neighbour{heldElsewhere()}, pivot.Departure{}, pivot.CodeHostPaused},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := codesOf(pivot.UnpauseObstacles(tc.host, tc.around, tc.left))
			if tc.want == "" && len(got) > 0 || tc.want != "" && !slices.Equal(got, []pivot.Code{tc.want}) {
				t.Errorf("%s: got %v, want %q", tc.reason, got, tc.want)
			}
			if resumed := pivot.Apply(pivot.Resume, tc.host, tc.around); tc.want == "" {
				step := pivot.PlanHost(resumed, tc.around, pivot.HostFacts{Settled: true})
				if step != pivot.Leave {
					t.Errorf("%s: the manager answers with %s", tc.reason, step)
				}
			}
		})
	}
}

// interrupted returns a paused host that a lost Ironic was provisioning.
func interrupted() *bmov1alpha1.BareMetalHost {
	return pausedHost(claimed(), annotated(infrav1.IronicHolderAnnotation, "Management/m"),
		annotated(infrav1.PauseReasonAnnotation, pivot.PauseReason(pivot.Hold)), func(host *bmov1alpha1.BareMetalHost) {
			host.Status.Provisioning.State = bmov1alpha1.StateProvisioning
		})
}

// heldElsewhere is a Cluster at whose endpoint another Ironic answers.
func heldElsewhere() pivot.Neighbour {
	return pivot.Neighbour{
		Name: "c", Verified: true, Endpoint: true, ClusterID: "id",
		Holder: &infrav1.IronicHolder{Kind: infrav1.HolderControlPlane, Name: "node-0"},
	}
}

func TestDiscardObstacles(t *testing.T) {
	arrived := []pivot.Neighbour{{Name: "c", Verified: true, Arrival: 3}}
	old := annotated(infrav1.MoveEpochAnnotation, "1")
	leaves := annotated(infrav1.DeleteForMoveAnnotation, "")
	cases := map[string]struct {
		reason  string
		host    *bmov1alpha1.BareMetalHost
		around  []pivot.Neighbour
		claimed bool
		want    pivot.Code
	}{
		"Abandoned":  {"the source has deleted it", pausedHost(free(), old), arrived, false, ""},
		"StatusLost": {"it is out of a backup", pausedHost(free(), withoutStatus), nil, false, ""},
		"Leftover":   {"it was being deleted when it arrived", pausedHost(leftover(t, "foreign", "older", "deleted")), []pivot.Neighbour{runs}, false, ""},
		"Leaving":    {"clusterctl has left it", pausedHost(free(), leaves), []pivot.Neighbour{runs}, false, ""},
		"Moving":     {"clusterctl is deleting it", pausedHost(free(), leaves), []pivot.Neighbour{paused}, false, pivot.CodeWrongStage},
		"Claimed":    {"a Machine would lose its host", pausedHost(claimed(), old), arrived, true, pivot.CodeInTarget},
		"Runs":       {"BMO manages it", free(), arrived, false, pivot.CodeLeftoverRuns},
		"Parked":     {"the move needs it", pausedHost(free()), []pivot.Neighbour{paused}, false, pivot.CodeWrongStage},
		"ByUser":     {"no move has left it", pausedHost(free(), annotated(bmov1alpha1.PausedAnnotation, "")), []pivot.Neighbour{runs}, false, pivot.CodeWrongStage},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := codesOf(pivot.DiscardObstacles(tc.host, tc.around, tc.claimed))
			if tc.want == "" && len(got) > 0 || tc.want != "" && !slices.Equal(got, []pivot.Code{tc.want}) {
				t.Errorf("%s: got %v, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

// TestAllowObstacles requires that a host is allowed exactly if a move with the annotation does not wait for it.
func TestAllowObstacles(t *testing.T) {
	for _, state := range []bmov1alpha1.ProvisioningState{
		bmov1alpha1.StateNone, bmov1alpha1.StateRegistering, bmov1alpha1.StateInspecting, bmov1alpha1.StatePreparing,
		bmov1alpha1.StateAvailable, bmov1alpha1.StateProvisioning, bmov1alpha1.StateProvisioned,
		bmov1alpha1.StateDeprovisioning, bmov1alpha1.StateDeleting, "unheard of",
	} {
		host := free()
		host.Status.Provisioning.State, host.Spec.Online, host.Status.PoweredOn = state, true, true
		waited := pivot.Delays(host) != ""
		metav1.SetMetaDataAnnotation(&host.ObjectMeta, infrav1.MoveWhileBusyAnnotation, "")
		helps := waited && pivot.Delays(host) == ""
		if got := pivot.AllowObstacles(host); (len(got) == 0) != helps {
			t.Errorf("state %q: helps %v, got %v", state, helps, got)
		}
	}
}
