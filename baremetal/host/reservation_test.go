package host_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// foundOnline is the record of a host that was on and had a cluster label and user data.
const foundOnline = `{"online":true,"automatedCleaningMode":"metadata","clusterLabel":"mine",` +
	`"userData":{"name":"u","namespace":"metal3"}}`

// asFoundOnline sets the values of that record, except for the power.
func asFoundOnline(h *bmov1alpha1.BareMetalHost) {
	h.Spec.AutomatedCleaningMode = bmov1alpha1.CleaningModeMetadata
	h.Spec.UserData = secret("u")
	labelled(clusterv1.ClusterNameLabel, "mine")(h)
}

func online(h *bmov1alpha1.BareMetalHost) { h.Spec.Online = true }

func uncleaned(h *bmov1alpha1.BareMetalHost) {
	h.Spec.AutomatedCleaningMode = bmov1alpha1.CleaningModeDisabled
}

func TestWithoutReservation(t *testing.T) {
	bare := func(changes ...func(*bmov1alpha1.BareMetalHost)) *bmov1alpha1.BareMetalHost {
		return edit(available("host-0"), changes...)
	}
	record := note(infrav1.ReleaseAnnotation, foundOnline)
	cases := map[string]struct {
		reason string
		host   *bmov1alpha1.BareMetalHost
		want   *bmov1alpha1.BareMetalHost
	}{
		"Reserved": {
			reason: "the last owner restores the original values",
			host:   bare(reserved(owner), record, owners(ownerOfUser())),
			want:   bare(asFoundOnline, online, owners(ownerOfUser())),
		},
		"ReservedAndNotCleaned": {
			reason: "the old system would join as the deleted Node again",
			host:   bare(reserved(owner), record, uncleaned),
			want:   bare(asFoundOnline),
		},
		"ReservedWithoutARecord": {
			reason: "CAPM3 reserved it, and the original values are unknown",
			host:   bare(reserved(owner), uncleaned),
			want:   bare(uncleaned),
		},
		"ReservedByAnotherVersion": {
			reason: "CAPM3 wrote an older API version",
			host: bare(reserved(owner), func(h *bmov1alpha1.BareMetalHost) {
				h.Spec.ConsumerRef.APIVersion = "cluster.x-k8s.io/v1beta1"
			}),
			want: bare(),
		},
		"PausedByTheUser": {
			reason: "the user ends the pause",
			host:   bare(reserved(owner), record, note(bmov1alpha1.PausedAnnotation, "user")),
			want:   bare(asFoundOnline, online, note(bmov1alpha1.PausedAnnotation, "user")),
		},
		"PausedForAMove": {
			reason: "the copy in the target cluster stays reserved",
			host:   bare(reserved(owner), record, note(bmov1alpha1.PausedAnnotation, infrav1.HostPausedByProvider)),
		},
		"DeletedByAMove": {
			reason: "a write could stop the deletion",
			host:   bare(reserved(owner), record, note(infrav1.DeleteForMoveAnnotation, "")),
		},
		"ReservedForAnotherCluster": {
			reason: "several clusters may share a namespace",
			host:   bare(reserved(owner), record, consumer(clusterRef("other"))),
		},
		"ReservedInAnotherNamespace": {
			reason: "it belongs to another Cluster of the same name",
			host: bare(reserved(owner), record, func(h *bmov1alpha1.BareMetalHost) {
				h.Spec.ConsumerRef.Namespace = "elsewhere"
			}),
		},
		"ClaimedByAMachine": {
			reason: "the machine releases it",
			host:   bare(consumer(machineRef(machineName)), record),
		},
		"ClaimedByAnotherKindOfThatName": {
			reason: "the kind of the consumer differs",
			host: bare(reserved(owner), record, func(h *bmov1alpha1.BareMetalHost) {
				h.Spec.ConsumerRef.Kind = "Machine"
			}),
		},
		"ReservedByLabelOnly": {
			reason: "the Cluster of the reservation is unknown",
			host:   bare(labelled(infrav1.NodeReuseLabel, owner), record),
		},
		"Free": {reason: "there is no reservation", host: bare()},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.host.DeepCopy()
			got, was := host.WithoutReservation(tc.host, "metal3", clusterName)
			want := tc.want
			if want == nil {
				want = before
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if was != (tc.want != nil) {
				t.Errorf("%s: reserved is %t", tc.reason, was)
			}
			if diff := cmp.Diff(before, tc.host); diff != "" {
				t.Errorf("the given host was changed: -before +after:\n%s", diff)
			}
		})
	}
}

// TestTheEndOfAReservationRestoresTheOriginalValues reserves random hosts and releases them with their Cluster, and by
// hand with the cleanup that follows. A provisioned host that was not cleaned stays off.
func TestTheEndOfAReservationRestoresTheOriginalValues(t *testing.T) {
	endings := map[string]func(*bmov1alpha1.BareMetalHost) (*bmov1alpha1.BareMetalHost, bool){
		"with its Cluster": func(h *bmov1alpha1.BareMetalHost) (*bmov1alpha1.BareMetalHost, bool) {
			return host.WithoutReservation(h, "metal3", clusterName)
		},
		"by hand": func(h *bmov1alpha1.BareMetalHost) (*bmov1alpha1.BareMetalHost, bool) {
			h = h.DeepCopy()
			delete(h.Labels, infrav1.NodeReuseLabel)
			h.Spec.ConsumerRef = nil
			return host.WithoutLeftovers(h, false, false)
		},
	}
	for seed := range uint64(1000) {
		c := coin{rand.New(rand.NewPCG(seed, 2))}
		found := c.host()
		current := host.Desired(found, c.claim(machineName))
		c.mark(current)
		fastTrack := c.flip()
		kept := runRelease(t, current, host.Release{
			Machine: machineName, Namespace: "metal3", FastTrack: fastTrack, Reserve: owner, Cluster: clusterName,
		})
		want := found.DeepCopy()
		if (fastTrack || host.IsImaged(current)) && kept.Spec.AutomatedCleaningMode == bmov1alpha1.CleaningModeDisabled && !want.Spec.DisablePowerOff {
			want.Spec.Online = false
		}
		for how, end := range endings {
			got, ended := end(kept)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || !ended {
				t.Fatalf("seed %d: released %s (%t), the host has other values: -want +got:\n%s", seed, how, ended, diff)
			}
		}
	}
}
