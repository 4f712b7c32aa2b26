package pivot_test

import (
	"strings"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

func TestHoldOf(t *testing.T) {
	const ours, users = infrav1.HostPausedByProvider, "maintenance"
	superseded := pivot.Neighbour{Name: "c", Superseded: true}
	arrival := pivot.Neighbour{Name: "c", Verified: true, Epoch: 4, Arrival: 3}
	none := []string{"missing", "none", ""}
	cases := map[string]struct {
		reason  string
		by      string
		arrived []string
		epoch   string
		around  []pivot.Neighbour
		want    string
	}{
		"NotPaused":  {reason: "BMO acts on it already", arrived: none, around: []pivot.Neighbour{unverified}},
		"Unverified": {"the Ironic of another cluster answers", ours, none, "", []pivot.Neighbour{unverified}, "IronicEndpointReady"},
		"Ungated":    {"a second move would not wait", ours, none, "", []pivot.Neighbour{ungated}, "block-move"},
		"Running":    {"the manager is about to resume it", ours, none, "", []pivot.Neighbour{runs}, ""},
		"Parked":     {"a move is in progress", ours, none, "", []pivot.Neighbour{paused}, "unpause its Cluster"},
		"Fenced":     {"another management cluster manages the host", ours, none, "", []pivot.Neighbour{superseded}, "another management cluster"},
		"NoCluster":  {"only the user can know which Ironic answers", ours, none, "", nil, "Cluster c does not exist"},
		"ByUser":     {"the user ends the pause", users, none, "", []pivot.Neighbour{unverified}, ""},
		"Deleted": {
			"BMO would finish the deletion of the leftover", ours, []string{"foreign", "older", "deleted"}, "",
			[]pivot.Neighbour{runs}, "clusterctl metal3 pivot keep",
		},
		"DeletedByUser": {
			"the pause of the user stays", users, []string{"foreign", "older", "deleted"}, "",
			[]pivot.Neighbour{runs}, "clusterctl metal3 pivot keep",
		},
		"Outdated": {
			"the correct status is unknown", ours, []string{"foreign", "newer", ""}, "",
			[]pivot.Neighbour{runs}, "newer status",
		},
		"Pending": {
			"BMO would compare the old image with the spec", ours, []string{"foreign", "older", ""}, "",
			[]pivot.Neighbour{runs}, "wait for the manager",
		},
		"Abandoned": {
			"another cluster may manage it", ours, none, "1", []pivot.Neighbour{arrival}, "leftover of an earlier move",
		},
		"Taken": {"BMO restores the status that arrived", ours, []string{"foreign", "none", ""}, "3", []pivot.Neighbour{arrival}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			host := leftover(t, tc.arrived[0], tc.arrived[1], tc.arrived[2])
			if tc.by != "" {
				host.Annotations[bmov1alpha1.PausedAnnotation] = tc.by
			}
			if tc.epoch != "" {
				host.Annotations[infrav1.MoveEpochAnnotation] = tc.epoch
			}
			got := pivot.HoldOf(host, tc.around)
			if !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
