package plugin

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// managed is one side with the Cluster c, which runs or is paused, with an epoch.
func managed(paused bool, epoch string) *sight {
	cluster, infra := runningCluster("c"), runningInfra("c")
	cluster.Spec.Paused = ptr.To(paused)
	infra.Annotations[infrav1.MoveEpochAnnotation] = epoch
	return &sight{
		namespace: build.DefaultNamespace, clusters: []*clusterv1.Cluster{cluster}, infras: []*infrav1.Metal3Cluster{infra},
	}
}

// claimed is a side whose Metal3Cluster another management cluster has claimed with epoch 6.
func (s *sight) claimed(message string) *sight {
	s.infras[0].Status.Conditions = []metav1.Condition{{
		Type: infrav1.IronicEndpointReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.ManagedElsewhereReason,
		Message: message,
	}}
	return s
}

func claimedSide() *sight {
	side := managed(false, "4")
	return side.claimed(pivot.SupersededMessage(side.infras[0], pivot.Claim{Epoch: 6, Manager: "uid"}))
}

func codesOf(found []pivot.Obstacle) []pivot.Code {
	var codes []pivot.Code
	for _, each := range found {
		codes = append(codes, each.Code)
	}
	return codes
}

func TestFencing(t *testing.T) {
	both := claimedSide()
	both.clusters, both.infras = append(both.clusters, runningCluster("d")), append(both.infras, runningInfra("d"))
	for name, tc := range map[string]struct {
		reason      string
		here, there *sight
		want        []string
		refused     []pivot.Code
	}{
		"Claimed":   {"the condition says so", claimedSide(), nil, []string{"c"}, nil},
		"Newer":     {"without spec.ironic, the other side says so", managed(false, "4"), managed(false, "6"), []string{"c"}, nil},
		"OneOfTwo":  {"the other one is managed here", both, nil, []string{"c"}, nil},
		"Paused":    {"nothing is to be done", managed(true, "5"), managed(false, "6"), nil, nil},
		"Copy":      {"a paused copy manages nothing", managed(false, "6"), managed(true, "7"), nil, []pivot.Code{pivot.CodeWrongStage}},
		"Older":     {"a leftover was unpaused there", managed(false, "6"), managed(false, "4"), nil, []pivot.Code{pivot.CodeWrongStage}},
		"Unknown":   {"a pause begins a move", managed(false, "4"), nil, nil, []pivot.Code{pivot.CodeWrongStage}},
		"Elsewhere": {"the other side has nothing", managed(false, "4"), &sight{}, nil, []pivot.Code{pivot.CodeWrongStage}},
		"Empty":     {"nothing is to be done", &sight{}, nil, nil, nil},
	} {
		fenced, refusals := fencing(tc.here, tc.there)
		var got []string
		for _, cluster := range fenced {
			got = append(got, cluster.Name)
		}
		if !slices.Equal(tc.want, got) || !slices.Equal(tc.refused, codesOf(refusals)) {
			t.Errorf("%s: %s: got %v, %v", name, tc.reason, got, refusals)
		}
	}
}

func TestTakeover(t *testing.T) {
	takenOver := claimedSide()
	takenOver.infras[0].Annotations[infrav1.MoveEpochAnnotation] = "9"
	for name, tc := range map[string]struct {
		reason      string
		here, there *sight
		want        pivot.Epoch
		refused     []pivot.Code
	}{
		"Claimed":  {"the next epoch after the recorded one", claimedSide(), nil, 8, nil},
		"Copy":     {"a paused copy manages nothing", claimedSide(), managed(true, "7"), 8, nil},
		"Again":    {"an epoch only grows", takenOver, nil, 9, nil},
		"Gone":     {"the other cluster has no objects left", claimedSide(), &sight{}, 8, nil},
		"Runs":     {"BMO would act on each host twice", claimedSide(), managed(false, "6"), 0, []pivot.Code{pivot.CodeInTarget}},
		"Own":      {"nothing is to be taken over", managed(false, "4"), nil, 0, []pivot.Code{pivot.CodeWrongStage}},
		"NoNumber": {"nothing is guessed", managed(false, "4").claimed("Another one manages it."), nil, 0, []pivot.Code{pivot.CodeMoveUnclear}},
		"Empty":    {"there is nothing", &sight{}, nil, 0, []pivot.Code{pivot.CodeWrongStage}},
	} {
		claims, refusals := takeover(tc.here, tc.there)
		var got pivot.Epoch
		for _, each := range claims {
			got = each.epoch
		}
		if got != tc.want || !slices.Equal(tc.refused, codesOf(refusals)) {
			t.Errorf("%s: %s: got %v, %v", name, tc.reason, claims, refusals)
		}
	}
}

// TestTakeoverUnpauses expects that takeover raises the epoch and unpauses the Cluster, which fence has paused.
func TestTakeoverUnpauses(t *testing.T) {
	machine := build.Metal3Machine("m", "c", build.Annotations(map[string]string{infrav1.HostAnnotation: "metal3/host"}))
	for name, tc := range map[string]struct {
		reason, epoch string
		hosts         []client.Object
		want          string
		isPaused      bool
		refused       []pivot.Code
	}{
		"Fenced":     {"the next epoch after the recorded one", "5", []client.Object{build.Host("host")}, "8", false, nil},
		"Again":      {"an epoch only grows", "9", []client.Object{build.Host("host")}, "9", false, nil},
		"Incomplete": {"BMO would wipe the host", "5", nil, "5", true, []pivot.Code{pivot.CodeMoveUnclear}},
	} {
		side := claimedSide()
		owner, infra := side.clusters[0], side.infras[0]
		owner.Spec.Paused = ptr.To(true)
		infra.Annotations[infrav1.MoveEpochAnnotation] = tc.epoch
		objects := append(tc.hosts, build.Namespace(metav1.NamespaceSystem), owner, infra, machine)
		c := &recovery{
			yes: true, where: sides{namespace: build.DefaultNamespace}, timeout: time.Minute, progress: newProgress(&bytes.Buffer{}),
			source: &cluster{client: fake.NewClientBuilder().WithScheme(scheme()).WithObjects(objects...).Build(), side: sourceSide},
		}
		err := c.takeOver(t.Context())
		for _, object := range []client.Object{owner, infra} {
			if err := c.source.client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil || c.done.Done == tc.isPaused || !slices.Equal(tc.refused, codesIn(c.done.Refusals)) ||
			isPaused(owner) != tc.isPaused || infra.Annotations[infrav1.MoveEpochAnnotation] != tc.want {
			t.Errorf("%s: %s: got epoch %s, %+v, %v", name, tc.reason, infra.Annotations[infrav1.MoveEpochAnnotation], c.done, err)
		}
	}
}

func TestForgetful(t *testing.T) {
	a, b := build.Host("a"), build.Host("b")
	departed := pivot.Departure{Infras: map[string]pivot.Epoch{"c": 7}}
	departed.Enter([]*bmov1alpha1.BareMetalHost{a, b})
	renamed := build.Host("renamed")
	renamed.Spec.BMC.Address = a.Spec.BMC.Address
	leaving := build.Host("a", build.Annotations(map[string]string{infrav1.DeleteForMoveAnnotation: ""}))
	all := []string{"BareMetalHost a", "BareMetalHost b", "Metal3Cluster c"}
	for name, tc := range map[string]struct {
		reason, host string
		there        *sight
		forgotten    []string
		hosts        int
		infras       int
		refused      []pivot.Code
	}{
		"All":     {reason: "the other cluster is not named", forgotten: all},
		"GivenUp": {reason: "the other cluster has none of them", there: &sight{hosts: []*bmov1alpha1.BareMetalHost{build.Host("x"), leaving}}, forgotten: all},
		"One":     {reason: "the other host and the Metal3Cluster stay remembered", host: "b", forgotten: []string{"BareMetalHost b"}, hosts: 1, infras: 1},
		"OneOfTwo": {
			reason: "the other host may live there", host: "b", there: &sight{hosts: []*bmov1alpha1.BareMetalHost{a}},
			forgotten: []string{"BareMetalHost b"}, hosts: 1, infras: 1,
		},
		"Managed": {
			reason: "the other cluster manages it", there: &sight{hosts: []*bmov1alpha1.BareMetalHost{a}, infras: []*infrav1.Metal3Cluster{runningInfra("c")}},
			forgotten: all, refused: []pivot.Code{pivot.CodeInTarget, pivot.CodeInTarget},
		},
		"Renamed": {
			reason: "the same machine under another name", host: "a", there: &sight{hosts: []*bmov1alpha1.BareMetalHost{renamed}},
			forgotten: []string{"BareMetalHost a"}, hosts: 1, infras: 1, refused: []pivot.Code{pivot.CodeInTarget},
		},
		"Stranger": {reason: "the name is mistaken", host: "x", hosts: 2, infras: 1, refused: []pivot.Code{pivot.CodeWrongStage}},
	} {
		forgotten, rest, refusals := forgetful(departed, tc.host, tc.there)
		if !slices.Equal(tc.forgotten, forgotten) || !slices.Equal(tc.refused, codesOf(refusals)) ||
			len(rest.Hosts) != tc.hosts || len(rest.Infras) != tc.infras {
			t.Errorf("%s: %s: got %v, %+v, %v", name, tc.reason, forgotten, rest, refusals)
		}
	}
}

func TestYieldObstacles(t *testing.T) {
	busy := &sight{hosts: []*bmov1alpha1.BareMetalHost{build.Host("busy", build.State(bmov1alpha1.StateInspecting))}}
	other := managed(false, "4")
	other.infras[0].Spec.Ironic.ClusterID = "another"
	for name, tc := range map[string]struct {
		reason      string
		undo        bool
		here, there *sight
		want        []pivot.Code
	}{
		"New":        {"nothing is there yet", false, &sight{}, managed(false, "4"), nil},
		"Runs":       {"the provider would remove the key", false, managed(false, "4"), nil, []pivot.Code{pivot.CodeClusterRuns}},
		"Leftover":   {"a paused copy", false, managed(true, "3"), nil, nil},
		"Another":    {"the key is for another cluster", false, other, nil, nil},
		"Undo":       {"nothing is under way", true, &sight{}, managed(false, "4"), nil},
		"UndoBusy":   {"the next Ironic would begin the operation again", true, &sight{}, busy, []pivot.Code{pivot.CodeHostBusy}},
		"UndoNobody": {"the other cluster is not named", true, &sight{}, nil, nil},
	} {
		var got []pivot.Code
		for _, each := range yieldObstacles("c1", tc.undo, tc.here, tc.there) {
			got = append(got, each.Code)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s: -want +got:\n%s", name, tc.reason, diff)
		}
	}
}

func TestChooseClusterID(t *testing.T) {
	two := managed(false, "4")
	two.infras = append(two.infras, runningInfra("d"), runningInfra("e"))
	two.infras[1].Spec.Ironic.ClusterID = "c2"
	without := managed(false, "4")
	without.infras[0].Spec.Ironic = nil
	for name, tc := range map[string]struct {
		named, want, problem string
		there                *sight
	}{
		"Named":   {named: "c9", there: two, want: "c9"},
		"Only":    {there: managed(false, "4"), want: "c1"},
		"Several": {there: two, problem: "use one of: c1, c2"},
		"None":    {there: without, problem: "--cluster-id is empty"},
		"Unnamed": {problem: "--cluster-id is empty"},
	} {
		got, err := chooseClusterID(tc.named, tc.there)
		if got != tc.want || (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}
