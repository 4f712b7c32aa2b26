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

// foundOnline is the record of a host that was found switched on, in a group of its owner and with data of its own.
const foundOnline = `{"online":true,"automatedCleaningMode":"metadata","clusterLabel":"mine",` +
	`"userData":{"name":"u","namespace":"metal3"}}`

// asFoundOnline is what that record describes, but for the power.
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
			reason: "nobody else would ever put back what was found",
			host:   bare(reserved(owner), record, owners(ownerOfUser())),
			want:   bare(asFoundOnline, online, owners(ownerOfUser())),
		},
		"ReservedAndNotCleaned": {
			reason: "powered on, the old system would bring the deleted node back",
			host:   bare(reserved(owner), record, uncleaned),
			want:   bare(asFoundOnline),
		},
		"ReservedWithoutARecord": {
			reason: "CAPM3 reserved it, and what it found is not known",
			host:   bare(reserved(owner), uncleaned),
			want:   bare(uncleaned),
		},
		"ReservedByAnotherVersion": {
			reason: "CAPM3 wrote the versions of its time",
			host: bare(reserved(owner), func(h *bmov1alpha1.BareMetalHost) {
				h.Spec.ConsumerRef.APIVersion = "cluster.x-k8s.io/v1beta1"
			}),
			want: bare(),
		},
		"PausedByTheUser": {
			reason: "only the user knows when the pause may end, and the host is free all the same",
			host:   bare(reserved(owner), record, note(bmov1alpha1.PausedAnnotation, "user")),
			want:   bare(asFoundOnline, online, note(bmov1alpha1.PausedAnnotation, "user")),
		},
		"PausedForAMove": {
			reason: "the copy on the other side goes on waiting for its owner",
			host:   bare(reserved(owner), record, note(bmov1alpha1.PausedAnnotation, infrav1.HostPausedByProvider)),
		},
		"DeletedByAMove": {
			reason: "writing to it could bring its deletion to a halt",
			host:   bare(reserved(owner), record, note(infrav1.DeleteForMoveAnnotation, "")),
		},
		"ReservedForAnotherCluster": {
			reason: "several clusters may share a namespace",
			host:   bare(reserved(owner), record, consumer(clusterRef("other"))),
		},
		"ReservedInAnotherNamespace": {
			reason: "a Cluster of the same name is another one there",
			host: bare(reserved(owner), record, func(h *bmov1alpha1.BareMetalHost) {
				h.Spec.ConsumerRef.Namespace = "elsewhere"
			}),
		},
		"HeldByAMachine": {
			reason: "its machine lets go of it",
			host:   bare(consumer(machineRef(machineName)), record),
		},
		"HeldByAnotherKindOfThatName": {
			reason: "the kind counts as well",
			host: bare(reserved(owner), record, func(h *bmov1alpha1.BareMetalHost) {
				h.Spec.ConsumerRef.Kind = "Machine"
			}),
		},
		"ReservedForWhomeverBearsTheLabel": {
			reason: "it does not say which Cluster it waits for",
			host:   bare(labelled(infrav1.NodeReuseLabel, owner), record),
		},
		"Free": {reason: "there is nothing to free", host: bare()},
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

// TestTheEndOfAReservationRestoresWhatWasFound reserves random hosts and frees them in both ways: with their Cluster,
// and by hand with the sweep after it. The exception is that of a release: a host that was not cleaned stays off.
func TestTheEndOfAReservationRestoresWhatWasFound(t *testing.T) {
	endings := map[string]func(*bmov1alpha1.BareMetalHost) (*bmov1alpha1.BareMetalHost, bool){
		"with its Cluster": func(h *bmov1alpha1.BareMetalHost) (*bmov1alpha1.BareMetalHost, bool) {
			return host.WithoutReservation(h, "metal3", clusterName)
		},
		"by hand": func(h *bmov1alpha1.BareMetalHost) (*bmov1alpha1.BareMetalHost, bool) {
			h = h.DeepCopy()
			delete(h.Labels, infrav1.NodeReuseLabel)
			h.Spec.ConsumerRef = nil
			return host.WithoutLeftovers(h, false)
		},
	}
	for seed := range uint64(1000) {
		c := coin{rand.New(rand.NewPCG(seed, 2))}
		found := c.host()
		current := host.Desired(found, c.claim(machineName))
		c.mark(current)
		kept := let(t, current, host.Release{
			Machine: machineName, Namespace: "metal3", FastTrack: c.flip(), Reserve: owner, Cluster: clusterName,
		})
		want := found.DeepCopy()
		if kept.Spec.AutomatedCleaningMode == bmov1alpha1.CleaningModeDisabled && !want.Spec.DisablePowerOff {
			want.Spec.Online = false
		}
		for how, end := range endings {
			got, ended := end(kept)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || !ended {
				t.Fatalf("seed %d: freed %s (%t), the host is not as it was found: -want +got:\n%s", seed, how, ended, diff)
			}
		}
	}
}
