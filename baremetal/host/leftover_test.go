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
		reason string
		host   *bmov1alpha1.BareMetalHost
		paused bool
		want   *bmov1alpha1.BareMetalHost
	}{
		"NothingLeft": {
			reason: "most hosts are clean and must not be written",
			host:   bare(userOwner, note(bmov1alpha1.PausedAnnotation, "user")),
		},
		"EverythingOnAnUnclaimedHost": {
			reason: "nobody else takes these away",
			host:   bare(ownPause, block, record, oldOwner),
			want:   bare(ownPause, userOwner),
		},
		"OwnerOnAClaimedHost": {
			reason: "the garbage collector would delete the host with its machine",
			host:   bare(held, oldOwner),
			want:   bare(held, userOwner),
		},
		"MarksOfAClaimedHostStay": {
			reason: "its machine takes care of them",
			host:   bare(held, ownPause, block, record),
		},
		"BlockOnAReservedHost": {
			reason: "no machine would ever lift it; the next machine needs the record, and the pause is not swept",
			host:   bare(reserved(owner), ownPause, block, record),
			want:   bare(reserved(owner), ownPause, record),
		},
		"BlockOnAReservedHostWhileAClusterIsPaused": {
			reason: "a move may be under way and needs it",
			host:   bare(reserved(owner), block, record),
			paused: true,
		},
		"MarksOfAHostOfSomebodyElse": {
			reason: "another consumer takes care of its marks itself",
			host:   bare(consumer(other), block, record),
		},
		"RecordOfAHostThatOnlyTheLabelReserves": {
			reason: "the next machine of the owner needs the record",
			host:   bare(labelled(infrav1.NodeReuseLabel, owner), record, block),
			want:   bare(labelled(infrav1.NodeReuseLabel, owner), record),
		},
		"RecordOfAHostThatWasFreedByHand": {
			reason: "what the machines wrote would stay for ever",
			host:   bare(restorable),
			want:   bare(asFoundOnline, online),
		},
		"RecordOfAHostThatWasFreedByHandAndNotCleaned": {
			reason: "powered on, the old system would bring the deleted node back",
			host:   bare(restorable, uncleaned),
			want:   bare(asFoundOnline),
		},
		"RecordOfAHostThatIsNotSettled": {
			reason: "BMO still undoes what the machine wanted; the record is needed afterwards",
			host:   bare(restorable, state(bmov1alpha1.StateDeprovisioning)),
		},
		"RecordOfAHostThatSomebodyUses": {
			reason: "the host runs with what it has now",
			host:   bare(restorable, image, state(bmov1alpha1.StateProvisioned)),
			want:   bare(image, state(bmov1alpha1.StateProvisioned)),
		},
		"RecordThatNobodyCanRead": {
			reason: "it is as good as none",
			host:   bare(note(infrav1.ReleaseAnnotation, "{"), uncleaned),
			want:   bare(uncleaned),
		},
		"OwnerWhileAClusterIsPaused": {
			reason: "the owner reference does its harm during a move as well",
			host:   bare(ownPause, block, record, oldOwner),
			paused: true,
			want:   bare(ownPause, block, record, userOwner),
		},
		"MarksWhileAClusterIsPaused": {
			reason: "a move may be under way and needs them",
			host:   bare(ownPause, block, record),
			paused: true,
		},
		"HostThatAMoveDeletes": {
			reason: "writing to it could bring its deletion to a halt",
			host:   bare(ownPause, block, record, oldOwner, moving),
		},
		"PauseOfTheUserOnAnUnclaimedHost": {
			reason: "only the user knows when it may end",
			host:   bare(note(bmov1alpha1.PausedAnnotation, ""), block),
			want:   bare(note(bmov1alpha1.PausedAnnotation, "")),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.host.DeepCopy()
			got, changed := host.WithoutLeftovers(tc.host, tc.paused)
			want := tc.want
			if want == nil {
				want = before
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if changed != (tc.want != nil) {
				t.Errorf("%s: changed is %t", tc.reason, changed)
			}
			if diff := cmp.Diff(before, tc.host); diff != "" {
				t.Errorf("the given host was changed: -before +after:\n%s", diff)
			}
			if _, again := host.WithoutLeftovers(got, tc.paused); again {
				t.Error("there are leftovers of the leftovers")
			}
		})
	}
}
