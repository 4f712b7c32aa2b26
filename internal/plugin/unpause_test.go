package plugin

import (
	"slices"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func TestUnpausable(t *testing.T) {
	machine := build.Metal3Machine("m", "c", build.Annotations(map[string]string{infrav1.HostAnnotation: "metal3/host"}))
	whole := func(side *sight, hosts ...*bmov1alpha1.BareMetalHost) *scope {
		side.hosts = hosts
		return &scope{sight: side, naming: []metav1.Object{machine}}
	}
	host := build.Host("host")
	complete := whole(managed(true, "5"), host)
	listed := whole(managed(true, "5"), host)
	listed.infras[0].Annotations[infrav1.MoveInventoryAnnotation] = pivot.Inventory{"Machine": {"gone"}}.String()
	listed.objects = map[schema.GroupKind]belongings{clusterv1.GroupVersion.WithKind("Machine").GroupKind(): {}}
	data := whole(managed(true, "5"), host)
	data.infras[0].Annotations[infrav1.MoveInventoryAnnotation] = pivot.Inventory{"Metal3Data": {"gone"}}.String()
	data.objects = map[schema.GroupKind]belongings{infrav1.GroupVersion.WithKind("Metal3Data").GroupKind(): {}}
	both := whole(managed(true, "5"), host)
	both.infras[0].Annotations[infrav1.MoveInventoryAnnotation] = pivot.Inventory{"Machine": {"gone"}}.String()
	both.objects = listed.objects
	both.clusters, both.infras = append(both.clusters, runningCluster("d")), append(both.infras, runningInfra("d"))
	both.clusters[1].Spec.Paused = ptr.To(true)
	fenced := claimedSide()
	fenced.clusters[0].Spec.Paused = ptr.To(true)
	taken, same := claimedSide(), claimedSide()
	taken.clusters[0].Spec.Paused, same.clusters[0].Spec.Paused = ptr.To(true), ptr.To(true)
	taken.infras[0].Annotations[infrav1.MoveEpochAnnotation] = "8"
	same.infras[0].Annotations[infrav1.MoveEpochAnnotation] = "7"
	leftWith := func(infra string) pivot.Departure {
		return pivot.Departure{Infras: map[string]pivot.Epoch{infra: 5}, Hosts: []pivot.DepartedHost{{Name: "spare", Infras: []string{infra}}}}
	}
	over := leftWith("c")
	over.Infras["c"] = 3
	two := whole(managed(true, "5"), host)
	two.clusters, two.infras = append(two.clusters, runningCluster("d")), append(two.infras, runningInfra("d"))
	var left pivot.Departure
	left.Enter([]*bmov1alpha1.BareMetalHost{host, build.Host("spare")})
	var kept pivot.Departure
	kept.Enter([]*bmov1alpha1.BareMetalHost{host})
	for name, tc := range map[string]struct {
		reason   string
		here     *scope
		there    *sight
		departed pivot.Departure
		only     []string
		want     []string
		refused  []pivot.Code
	}{
		"Paused":        {"a user paused it", complete, nil, pivot.Departure{}, nil, []string{"c"}, nil},
		"Alone":         {"the other cluster has nothing", complete, &sight{}, pivot.Departure{}, nil, []string{"c"}, nil},
		"Runs":          {"it runs already", whole(managed(false, "4"), host), nil, pivot.Departure{}, nil, nil, nil},
		"OneOfTwo":      {"the other one runs", two, nil, pivot.Departure{}, []string{"c"}, []string{"c"}, nil},
		"Other":         {"only the named one", two, nil, pivot.Departure{}, []string{"d"}, nil, nil},
		"Typo":          {"the name is mistaken", complete, nil, pivot.Departure{}, []string{"x"}, nil, []pivot.Code{pivot.CodeClusterMissing}},
		"Superseded":    {"BMO would act on its hosts twice", whole(fenced, host), nil, pivot.Departure{}, nil, []string{"c"}, []pivot.Code{pivot.CodeSuperseded}},
		"TakenOver":     {"takeover has given it a newer epoch", whole(taken, host), nil, pivot.Departure{}, nil, []string{"c"}, nil},
		"SameEpoch":     {"the other cluster has claimed the epoch from before the pause", whole(same, host), nil, pivot.Departure{}, nil, []string{"c"}, []pivot.Code{pivot.CodeSuperseded}},
		"RunsThere":     {"the other cluster manages it", complete, managed(false, "6"), pivot.Departure{}, nil, []string{"c"}, []pivot.Code{pivot.CodeInTarget}},
		"Copied":        {"resume and abort look at both sides", complete, managed(true, "5"), pivot.Departure{}, nil, []string{"c"}, []pivot.Code{pivot.CodeWrongStage}},
		"DataGone":      {"machines would get the addresses of others", data, nil, pivot.Departure{}, nil, []string{"c"}, []pivot.Code{pivot.CodeMoveUnclear}},
		"OfTheOther":    {"the other Cluster lacks an object", both, nil, pivot.Departure{}, []string{"d"}, []string{"d"}, nil},
		"Inventory":     {"Cluster API would replace the Machine", listed, nil, pivot.Departure{}, nil, []string{"c"}, []pivot.Code{pivot.CodeMoveUnclear}},
		"HostGone":      {"clusterctl has deleted a free host", complete, nil, left, nil, []string{"c"}, []pivot.Code{pivot.CodeMoveUnclear}},
		"OfAnotherMove": {"another Cluster has moved away", complete, nil, leftWith("gone"), nil, []string{"c"}, nil},
		"OfThisMove":    {"clusterctl has deleted a host of this move", complete, nil, leftWith("c"), nil, []string{"c"}, []pivot.Code{pivot.CodeMoveUnclear}},
		"MoveOver":      {"the Cluster has run here since", complete, nil, over, nil, []string{"c"}, nil},
		"HostsHere":     {"clusterctl has not begun to delete", complete, nil, kept, nil, []string{"c"}, nil},
		"NotArrived":    {"the host of a Machine has not arrived", whole(managed(true, "5")), nil, pivot.Departure{}, nil, []string{"c"}, []pivot.Code{pivot.CodeMoveUnclear}},
	} {
		chosen, refusals := unpausable(tc.here, tc.there, tc.departed, tc.only)
		var got []string
		for _, cluster := range chosen {
			got = append(got, cluster.Name)
		}
		if !slices.Equal(tc.want, got) || !slices.Equal(tc.refused, codesOf(refusals)) {
			t.Errorf("%s: %s: got %v, %v", name, tc.reason, got, refusals)
		}
	}
}

func TestHeldByOthers(t *testing.T) {
	paused := build.Paused(infrav1.HostPausedByProvider)
	serving := func(cluster string, options ...build.HostOption) *bmov1alpha1.BareMetalHost {
		host := build.Host("host", append(options, build.Consumed(build.Metal3Machine("m", cluster)))...)
		host.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster}
		return host
	}
	runs := func(name string) pivot.Neighbour { return pivot.Neighbour{Name: name, Verified: true} }
	parked, unverified, fenced := runs("d"), runs("d"), runs("d")
	parked.Paused, unverified.Verified, fenced.Superseded = true, false, true
	slow := runs("c")
	slow.Verified = false
	free := build.Host("free", paused)
	for name, tc := range map[string]struct {
		reason string
		host   *bmov1alpha1.BareMetalHost
		around []pivot.Neighbour
		only   []string
		want   bool
	}{
		"Own":        {"its Cluster runs", serving("c", paused), []pivot.Neighbour{runs("c"), parked}, []string{"c"}, false},
		"Other":      {"its Cluster is paused", serving("d", paused), []pivot.Neighbour{runs("c"), parked}, []string{"c"}, true},
		"All":        {"no Cluster is named", serving("d", paused), []pivot.Neighbour{runs("c"), parked}, nil, false},
		"Running":    {"it is not paused", serving("d"), []pivot.Neighbour{runs("c"), runs("d")}, []string{"c"}, false},
		"Free":       {"one Cluster that runs is enough", free, []pivot.Neighbour{runs("c"), parked}, []string{"c"}, false},
		"Unverified": {"a free host waits for all Ironic endpoints", free, []pivot.Neighbour{runs("c"), unverified}, []string{"c"}, true},
		"Fenced":     {"another management cluster may manage a free host", free, []pivot.Neighbour{runs("c"), fenced}, []string{"c"}, true},
		"OwnSlow":    {"the named Cluster holds it back, too", free, []pivot.Neighbour{slow, unverified}, []string{"c"}, false},
	} {
		seen := &sight{hosts: []*bmov1alpha1.BareMetalHost{tc.host}, around: tc.around}
		if got := len(heldByOthers(seen, tc.only)) > 0; got != tc.want {
			t.Errorf("%s: %s: got %v", name, tc.reason, got)
		}
	}
}

func TestUnblockable(t *testing.T) {
	gated, free, external := *runningInfra("c"), *build.Metal3Cluster("c"), *runningInfra("c")
	metav1.SetMetaDataAnnotation(&gated.ObjectMeta, infrav1.BlockMoveAnnotation, "")
	metav1.SetMetaDataAnnotation(&external.ObjectMeta, infrav1.BlockMoveAnnotation, "")
	metav1.SetMetaDataAnnotation(&external.ObjectMeta, clusterv1.ManagedByAnnotation, "")
	delete(free.Annotations, infrav1.BlockMoveAnnotation)
	cluster, paused := *runningCluster("c"), *runningCluster("c")
	paused.Spec.Paused = ptr.To(true)
	for name, tc := range map[string]struct {
		reason  string
		infra   infrav1.Metal3Cluster
		cluster clusterv1.Cluster
		runs    bool
		want    int
		refused []pivot.Code
	}{
		"CAPM3":    {"CAPM3 does not remove it", gated, cluster, false, 1, nil},
		"Without":  {"nothing is to be done", free, cluster, true, 0, nil},
		"External": {"an external system manages it", external, cluster, false, 0, nil},
		"Manager":  {"the manager removes it for each move", gated, cluster, true, 0, []pivot.Code{pivot.CodeWrongStage}},
		"Paused":   {"clusterctl may wait for the hosts", gated, paused, false, 0, []pivot.Code{pivot.CodePaused}},
	} {
		blocked, refusals := unblockable([]infrav1.Metal3Cluster{tc.infra}, []clusterv1.Cluster{tc.cluster}, tc.runs)
		if len(blocked) != tc.want || !slices.Equal(tc.refused, codesOf(refusals)) {
			t.Errorf("%s: %s: got %v, %v", name, tc.reason, blocked, refusals)
		}
	}
}
