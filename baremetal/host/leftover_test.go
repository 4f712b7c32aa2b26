package host_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

func TestWithoutLeftovers(t *testing.T) {
	type change = func(*bmov1alpha1.BareMetalHost)
	bare := func(changes ...change) *bmov1alpha1.BareMetalHost { return edit(available("host-0"), changes...) }
	ownPause := note(bmov1alpha1.PausedAnnotation, infrav1.HostPausedByProvider)
	block := note(blockMove, "true")
	record := note(infrav1.ReleaseAnnotation, foundOff)
	restorable := note(infrav1.ReleaseAnnotation, foundOnline)
	oldOwner := owners(machineOwner("v1beta1"), ownerOfUser())
	userOwner := owners(ownerOfUser())
	held := consumer(machineRef(machineName))
	other := machineRef(machineName)
	other.APIVersion, other.Kind = "metal3.io/v1alpha1", "HostClaim"
	moving := note("clusterctl.cluster.x-k8s.io/delete-for-move", "")

	cases := map[string]struct {
		reason   string
		host     *bmov1alpha1.BareMetalHost
		paused   bool
		recorded bool
		want     *bmov1alpha1.BareMetalHost
	}{
		"NoLeftovers": {
			reason: "most hosts have none and must not be written",
			host:   bare(userOwner, note(bmov1alpha1.PausedAnnotation, "user")),
		},
		"EverythingOnAnUnclaimedHost": {
			reason: "no machine removes them",
			host:   bare(ownPause, block, record, oldOwner),
			want:   bare(ownPause, userOwner),
		},
		"OwnerOnAClaimedHost": {
			reason: "the garbage collector would delete the host with its machine",
			host:   bare(held, oldOwner),
			want:   bare(held, userOwner),
		},
		"AnnotationsOfAClaimedHostStay": {
			reason: "the machine removes them",
			host:   bare(held, ownPause, block, record),
		},
		"BlockOnAReservedHost": {
			reason: "no machine removes it; the next machine requires the record, and hostmove removes the pause",
			host:   bare(reserved(owner), ownPause, block, record),
			want:   bare(reserved(owner), ownPause, record),
		},
		"BlockOnAReservedHostWhileAClusterIsPaused": {
			reason: "a move may run and require it",
			host:   bare(reserved(owner), block, record),
			paused: true,
		},
		"AnnotationsOfAHostOfAnotherConsumer": {
			reason: "the other consumer removes them",
			host:   bare(consumer(other), block, record),
		},
		"RecordOfAHostThatOnlyTheLabelReserves": {
			reason: "the next machine of the owner requires the record",
			host:   bare(labelled(infrav1.NodeReuseLabel, owner), record, block),
			want:   bare(labelled(infrav1.NodeReuseLabel, owner), record),
		},
		"RecordOfAHostWithoutConsumer": {
			reason: "the values of the machine would stay forever",
			host:   bare(restorable),
			want:   bare(asFoundOnline, online),
		},
		"RecordOfAHostWithoutConsumerThatWasNotCleaned": {
			reason: "the old system would join as the deleted Node again",
			host:   bare(restorable, uncleaned),
			want:   bare(asFoundOnline),
		},
		"RecordOfAHostThatIsNotSettled": {
			reason: "BMO deprovisions the host first",
			host:   bare(restorable, state(bmov1alpha1.StateDeprovisioning)),
		},
		"RecordOfAHostThatMovesWhileBusy": {
			reason: "BMO deprovisions the host by the cleaning mode of the machine",
			host:   bare(restorable, state(bmov1alpha1.StateDeprovisioning), note(infrav1.MoveWhileBusyAnnotation, "")),
		},
		"RecordOfAHostThatBMORegisters": {
			reason: "BMO cleans the host by the cleaning mode of the machine",
			host:   bare(restorable, state(bmov1alpha1.StateRegistering)),
		},
		"RecordOfAHostInUse": {
			reason: "the user provisioned the host with the current values",
			host:   bare(restorable, image, state(bmov1alpha1.StateProvisioned)),
			want:   bare(image, state(bmov1alpha1.StateProvisioned)),
		},
		"InvalidRecord": {
			reason: "it counts as none",
			host:   bare(note(infrav1.ReleaseAnnotation, "{"), uncleaned),
			want:   bare(uncleaned),
		},
		"EverythingOnAnUnclaimedHostThatAMachineHasRecorded": {
			reason:   "the machine requires the record only",
			host:     bare(block, record, oldOwner),
			recorded: true,
			want:     bare(record, userOwner),
		},
		"OwnerWhileAClusterIsPaused": {
			reason: "the garbage collector also runs during a move",
			host:   bare(ownPause, block, record, oldOwner),
			paused: true,
			want:   bare(ownPause, block, record, userOwner),
		},
		"AnnotationsWhileAClusterIsPaused": {
			reason: "a move may run and require them",
			host:   bare(ownPause, block, record),
			paused: true,
		},
		"HostThatAMoveDeletes": {
			reason: "a write could stop the deletion",
			host:   bare(ownPause, block, record, oldOwner, moving),
		},
		"PauseOfTheUserOnAnUnclaimedHost": {
			reason: "the user ends it",
			host:   bare(note(bmov1alpha1.PausedAnnotation, ""), block),
			want:   bare(note(bmov1alpha1.PausedAnnotation, "")),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.host.DeepCopy()
			got, changed := host.WithoutLeftovers(tc.host, tc.paused, tc.recorded)
			want := tc.want
			if want == nil {
				want = before
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if changed != (tc.want != nil) || changed == (got == tc.host) {
				t.Errorf("%s: changed is %t, copied is %t", tc.reason, changed, got != tc.host)
			}
			if diff := cmp.Diff(before, tc.host); diff != "" {
				t.Errorf("the given host was changed: -before +after:\n%s", diff)
			}
			if _, again := host.WithoutLeftovers(got, tc.paused, tc.recorded); again {
				t.Error("a second call changed the host again")
			}
		})
	}
}
