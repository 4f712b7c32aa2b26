package pivot_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

const (
	leftMAC        = "02:00:00:00:00:aa"
	leftController = "redfish://bmc.example/redfish/v1/Systems/1"
)

// left is a host as its user has written it.
func left(name, controller, mac string, options ...build.HostOption) *bmov1alpha1.BareMetalHost {
	host := build.Host(name, options...)
	host.Spec.BMC.Address, host.Spec.BootMACAddress = controller, mac
	return host
}

func departed(t *testing.T) pivot.Departure {
	t.Helper()
	leaves := pivot.Departure{Infras: map[string]pivot.Epoch{"cluster.one": 5}}
	leaves.Enter([]*bmov1alpha1.BareMetalHost{left("plain", "", ""), left("host", leftController, leftMAC)})
	read, err := pivot.DepartureOf(leaves.Data())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(pivot.Departure{
		Infras: map[string]pivot.Epoch{"cluster.one": 5},
		Hosts:  []pivot.DepartedHost{{Name: "host", Controller: leftController, BootMAC: leftMAC}, {Name: "plain"}},
	}, read); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	return read
}

func TestHostRefusal(t *testing.T) {
	annotated := func(key string) build.HostOption { return build.Annotations(map[string]string{key: "7"}) }
	known := build.Finalizers(bmov1alpha1.BareMetalHostFinalizer)
	for name, tc := range map[string]struct {
		created *bmov1alpha1.BareMetalHost
		refused bool
	}{
		"SameName":           {left("host", "", ""), true},
		"SameNameWithoutAny": {left("plain", "redfish://new.example/1", ""), true},
		"SameController":     {left("other", leftController, ""), true},
		"SameMAC":            {left("other", "", strings.ToUpper(leftMAC)), true},
		"Paused":             {left("host", "", "", annotated(bmov1alpha1.PausedAnnotation)), true},
		"Another":            {left("other", "redfish://bmc.example/redfish/v1/Systems/2", "02:00:00:00:00:ab"), false},
		"AnotherWithoutAny":  {left("other", "", ""), false},
		"BringsStatus":       {left("host", "", "", annotated(bmov1alpha1.StatusAnnotation)), false},
		"BringsEpoch":        {left("host", "", "", annotated(infrav1.MoveEpochAnnotation)), false},
		"OutOfBackup":        {left("host", "", "", known), false},
	} {
		t.Run(name, func(t *testing.T) {
			left := departed(t)
			if refusal := left.HostRefusal(tc.created); (refusal != "") != tc.refused {
				t.Errorf("refused with %q", refusal)
			}
			var nothing pivot.Departure
			if refusal := nothing.HostRefusal(tc.created); refusal != "" {
				t.Errorf("refused where nothing has left: %s", refusal)
			}
		})
	}
	left, created := departed(t), left("other", leftController, "")
	created.Namespace = "metal3"
	for _, want := range []string{
		"BareMetalHost host moved to another management cluster", "reboots the machine", "stop the GitOps controller",
		"`clusterctl metal3 pivot forget --namespace metal3 --host ",
	} {
		if refusal := left.HostRefusal(created); !strings.Contains(refusal, want) {
			t.Errorf("%q does not say %q", refusal, want)
		}
	}
}

func TestInfraRefusal(t *testing.T) {
	annotated := build.Annotations(map[string]string{infrav1.MoveEpochAnnotation: "7"})
	for name, tc := range map[string]struct {
		created *infrav1.Metal3Cluster
		refused bool
	}{
		"Same":        {build.Metal3Cluster("cluster.one"), true},
		"Another":     {build.Metal3Cluster("cluster"), false},
		"Arrives":     {build.Metal3Cluster("cluster.one", annotated), false},
		"OutOfBackup": {build.Metal3Cluster("cluster.one", build.Finalizers(infrav1.ClusterFinalizer)), false},
	} {
		left := departed(t)
		if refusal := left.InfraRefusal(tc.created); (refusal != "") != tc.refused {
			t.Errorf("%s: refused with %q", name, refusal)
		}
	}
}

func TestDepartureThatIsNone(t *testing.T) {
	if _, err := pivot.DepartureOf(map[string]string{"hosts": "{"}); err == nil ||
		!strings.Contains(err.Error(), "parsing key hosts of ConfigMap metal3-moved-away") {
		t.Errorf("%v", err)
	}
}

// TestLongDeparture keeps the record of 10,000 hosts below the 1 MiB of a ConfigMap.
func TestLongDeparture(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	leaves := pivot.Departure{Infras: map[string]pivot.Epoch{"production-frankfurt": 1}}
	for i := range 10_000 {
		leaves.Hosts = append(leaves.Hosts, pivot.DepartedHost{
			Name:       fmt.Sprintf("rack-%03d-node-%02d", i/40, i%40),
			Controller: fmt.Sprintf("idrac-virtualmedia://192.0.%d.%d/redfish/v1/Systems/System.Embedded.1", i/256, i%256),
			BootMAC:    fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", i/256, i%256, random.IntN(256), random.IntN(256), random.IntN(256)),
			Infras:     []string{"production-frankfurt"},
		})
	}
	data := leaves.Data()
	if size := len(data["hosts"]); size > 1<<19 {
		t.Errorf("the ConfigMap has %d bytes", size)
	}
	if got, err := pivot.DepartureOf(data); err != nil || !cmp.Equal(leaves, got) {
		t.Errorf("got %d hosts, %v", len(got.Hosts), err)
	}
	data["hosts"] = data["hosts"][:len(data["hosts"])/2]
	if _, err := pivot.DepartureOf(data); err == nil {
		t.Error("a truncated record was read")
	}
	plain := map[string]string{"hosts": `[{"name":"host"}]`}
	if got, err := pivot.DepartureOf(plain); err != nil || len(got.Hosts) != 1 {
		t.Errorf("got %v, %v for a record that is not compressed", got, err)
	}
}

func TestIsOver(t *testing.T) {
	leaves := departed(t)
	for name, tc := range map[string]struct {
		reason string
		infra  string
		epoch  pivot.Epoch
		want   bool
	}{
		"GivenUp":  {"the Cluster was unpaused here", "cluster.one", 6, true},
		"Back":     {"the cluster has arrived again", "cluster.one", 8, true},
		"Leaves":   {"the gate is open", "cluster.one", 5, false},
		"Leftover": {"an earlier move has left it", "cluster.one", 4, false},
		"Lost":     {"the annotation is lost", "cluster.one", 0, false},
		"Another":  {"another one has arrived", "cluster", 8, false},
	} {
		t.Run(name, func(t *testing.T) {
			infra := build.Metal3Cluster(tc.infra)
			infra.Annotations = map[string]string{infrav1.MoveEpochAnnotation: tc.epoch.String()}
			if got := leaves.IsOver(infra); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
}

func TestHasStayed(t *testing.T) {
	leaves := departed(t)
	epoch := func(epoch pivot.Epoch) build.HostOption {
		return build.Annotations(map[string]string{infrav1.MoveEpochAnnotation: epoch.String()})
	}
	for name, tc := range map[string]struct {
		reason string
		host   *bmov1alpha1.BareMetalHost
		memory pivot.Departure
		want   bool
	}{
		"Late":     {"created after the gate had opened", left("late", "", ""), leaves, true},
		"Stamped":  {"created while the gate opened", left("late", "", "", epoch(5)), leaves, true},
		"Arrives":  {"another move brings it before its Cluster", left("late", "", "", epoch(7)), leaves, false},
		"Left":     {"a leftover of a move that was interrupted", left("host", "", "", epoch(5)), leaves, false},
		"Renamed":  {"the same machine under a new name", left("late", leftController, ""), leaves, false},
		"Nowhere":  {"nothing moved away", left("late", "", ""), pivot.Departure{}, false},
		"Unstated": {"the record names no Metal3Cluster", left("late", "", ""), pivot.Departure{Hosts: leaves.Hosts}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.memory.HasStayed(tc.host); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
}

// TestHasLeft separates hosts that another management cluster manages from hosts of an aborted move.
func TestHasLeft(t *testing.T) {
	moved := func(infras ...string) pivot.Departure {
		return pivot.Departure{
			Infras: map[string]pivot.Epoch{"one": 5, "two": 3}, Hosts: []pivot.DepartedHost{{Name: "host", Infras: infras}},
		}
	}
	at := func(infra string, epoch pivot.Epoch) pivot.Neighbour {
		return pivot.Neighbour{Name: infra, Infra: infra, Verified: true, Epoch: epoch}
	}
	for name, tc := range map[string]struct {
		reason string
		left   pivot.Departure
		around []pivot.Neighbour
		want   bool
	}{
		"Created":   {"another Cluster was created after the move", moved("one"), []pivot.Neighbour{at("new", 0)}, true},
		"Arrived":   {"another Cluster has arrived, with any epoch", moved("one"), []pivot.Neighbour{at("new", 6)}, true},
		"Alone":     {"no Cluster is left", moved("one"), nil, true},
		"GivenUp":   {"its Cluster runs", moved("one"), []pivot.Neighbour{at("new", 0), at("one", 6)}, false},
		"Paused":    {"its Cluster moves with the same epoch", moved("one"), []pivot.Neighbour{at("one", 5)}, true},
		"Beside":    {"another Cluster runs", moved("one"), []pivot.Neighbour{at("two", 4)}, true},
		"OneOfTwo":  {"the other Cluster may run in the other management cluster", moved("one", "two"), []pivot.Neighbour{at("one", 6)}, true},
		"Both":      {"both Clusters run", moved("one", "two"), []pivot.Neighbour{at("one", 6), at("two", 4)}, false},
		"Unstated":  {"an earlier release does not record the Clusters", moved(), []pivot.Neighbour{at("two", 4)}, false},
		"OfNone":    {"the Cluster is not among those that moved away", moved(), []pivot.Neighbour{at("new", 6)}, true},
		"Elsewhere": {"a Cluster of another namespace does not count", moved("one"), []pivot.Neighbour{{Elsewhere: true, Epoch: 6}}, true},
		"Never":     {"the record does not name it", pivot.Departure{}, []pivot.Neighbour{at("new", 0)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			host := free()
			host.Name, host.UID = "host", "uid"
			host.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
			host.Annotations[infrav1.StatusOriginAnnotation] = "uid"
			host.Annotations[infrav1.MoveEpochAnnotation] = "5"
			if got := tc.left.HasLeft(host, tc.around); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
			around := []pivot.Neighbour{at("new", 0)}
			if !pivot.MayHaveLeft(host, around) {
				t.Error("MayHaveLeft is false for a host that may have left")
			}
			for step, left := range map[pivot.Step]bool{pivot.KeepAway: true, pivot.Resume: false} {
				if got := pivot.PlanHost(host, around, pivot.HostFacts{Left: left}); got != step {
					t.Errorf("left %t: got %s, want %s", left, got, step)
				}
			}
			kept := pivot.Apply(pivot.KeepAway, host, around)
			if !pivot.Explained(kept, pivot.KeepAway) {
				t.Errorf("the pause has the reason %q", kept.Annotations[infrav1.PauseReasonAnnotation])
			}
			delete(host.Annotations, infrav1.StatusOriginAnnotation)
			if !pivot.MayHaveLeft(host, []pivot.Neighbour{at("new", 6)}) {
				t.Error("MayHaveLeft is false for a host without a status that may have left")
			}
			host.Annotations[bmov1alpha1.StatusAnnotation] = "{}"
			if pivot.MayHaveLeft(host, []pivot.Neighbour{at("new", 6)}) {
				t.Error("MayHaveLeft is true for a host that has arrived from an earlier release")
			}
			host.Annotations[infrav1.StatusOriginAnnotation] = "another"
			if pivot.MayHaveLeft(host, around) {
				t.Error("MayHaveLeft is true for a host that has arrived")
			}
		})
	}
}

// TestADepartureReplacesEarlierOnes moves two Clusters away and one back, and aborts the next move of that one. The other
// one was deleted in the target, so its departure stays in the record.
func TestADepartureReplacesEarlierOnes(t *testing.T) {
	host := free()
	leaves := func(epoch pivot.Epoch, infras ...string) pivot.Departure {
		leaving := pivot.Departure{Infras: map[string]pivot.Epoch{}}
		for _, infra := range infras {
			leaving.Infras[infra] = epoch
		}
		leaving.Enter([]*bmov1alpha1.BareMetalHost{host})
		return leaving
	}
	var record pivot.Departure
	record.Add(leaves(3, "one", "two"))
	back := []pivot.Neighbour{{Infra: "one", Epoch: 4}}
	if record.Remove("one"); !record.HasLeft(host, back) {
		t.Error("the host is back without the other Cluster")
	}
	record.Add(leaves(7, "one"))
	record.Remove("one")
	if back[0].Epoch = 8; record.HasLeft(host, back) {
		t.Errorf("the host has left, although its last move was aborted: %+v", record)
	}
}

// TestReturn removes hosts that are managed here from the record of hosts that left with a Metal3Cluster that does not
// return.
func TestReturn(t *testing.T) {
	left := func(name, address, mac string) *bmov1alpha1.BareMetalHost {
		host := free()
		host.Name, host.Spec.BMC.Address, host.Spec.BootMACAddress = name, address, mac
		return host
	}
	annotated := func(host *bmov1alpha1.BareMetalHost, annotation string) *bmov1alpha1.BareMetalHost {
		host.Annotations = map[string]string{annotation: ""}
		return host
	}
	for name, tc := range map[string]struct {
		host *bmov1alpha1.BareMetalHost
		want bool
	}{
		"Same":    {left("host", "redfish://bmc.example/1", "00:00:5e:00:53:01"), true},
		"Name":    {left("host", "redfish://bmc.example/2", "00:00:5e:00:53:02"), true},
		"Machine": {left("renamed", "redfish://bmc.example/1", ""), true},
		"Other":   {left("other", "redfish://bmc.example/2", "00:00:5e:00:53:02"), false},
		"Paused":  {annotated(left("host", "", ""), bmov1alpha1.PausedAnnotation), false},
		"Leaving": {annotated(left("host", "", ""), infrav1.DeleteForMoveAnnotation), false},
	} {
		t.Run(name, func(t *testing.T) {
			leaving := pivot.Departure{Infras: map[string]pivot.Epoch{"deleted": 1}}
			leaving.Enter([]*bmov1alpha1.BareMetalHost{left("host", "redfish://bmc.example/1", "00:00:5e:00:53:01")})
			var record pivot.Departure
			record.Add(leaving)
			if got := record.Return([]*bmov1alpha1.BareMetalHost{tc.host}); got != tc.want || (len(record.Hosts) == 0) != tc.want {
				t.Errorf("got %t, and the record has %v", got, record.Hosts)
			}
		})
	}
}

// TestLeavingWith lists the hosts that leave with Metal3Cluster "own".
func TestLeavingWith(t *testing.T) {
	cluster := func(name, infra string) pivot.Neighbour { return pivot.Neighbour{Name: name, Infra: infra} }
	for name, tc := range map[string]struct {
		reason string
		host   *bmov1alpha1.BareMetalHost
		around []pivot.Neighbour
		want   bool
	}{
		"Own":       {"its Cluster leaves", claimed(), []pivot.Neighbour{cluster("c", "own"), cluster("d", "other")}, true},
		"Other":     {"it leaves with its own Cluster", claimed(), []pivot.Neighbour{cluster("c", "other")}, false},
		"Free":      {"it leaves with all", free(), []pivot.Neighbour{cluster("c", "own"), cluster("d", "other")}, true},
		"Orphaned":  {"its Cluster does not exist", claimed(), []pivot.Neighbour{cluster("d", "own")}, true},
		"Bare":      {"its Cluster has no Metal3Cluster", claimed(), []pivot.Neighbour{cluster("c", ""), cluster("d", "own")}, true},
		"Elsewhere": {"a Cluster of another namespace", claimed(), []pivot.Neighbour{{Name: "c", Infra: "other", Elsewhere: true}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			hosts := []*bmov1alpha1.BareMetalHost{tc.host}
			if got := len(pivot.LeavingWith("own", hosts, tc.around)) == 1; got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
			if hosts[0] != tc.host {
				t.Error("the hosts of the caller have changed")
			}
		})
	}
}

// TestStay resumes a host that no move took, and no other one.
func TestStay(t *testing.T) {
	away := pivot.Neighbour{Elsewhere: true, Endpoint: true, ClusterID: "c2"}
	image := func(host *bmov1alpha1.BareMetalHost) {
		host.Spec.Image = &bmov1alpha1.Image{URL: "http://images.example/node"}
		host.Finalizers, host.Status = []string{bmov1alpha1.BareMetalHostFinalizer}, bmov1alpha1.BareMetalHostStatus{}
	}
	brings := func(host *bmov1alpha1.BareMetalHost) {
		host.Annotations[bmov1alpha1.StatusAnnotation] = "{}"
		host.Annotations[infrav1.StatusOriginAnnotation] = "another"
	}
	for name, tc := range map[string]struct {
		reason string
		edit   func(*bmov1alpha1.BareMetalHost)
		around []pivot.Neighbour
		stayed bool
		want   pivot.Step
	}{
		"Stayed":      {"no Cluster would resume it", func(*bmov1alpha1.BareMetalHost) {}, nil, true, pivot.Stay},
		"Served":      {"an Ironic elsewhere decides nothing", func(*bmov1alpha1.BareMetalHost) {}, []pivot.Neighbour{away}, true, pivot.Stay},
		"NotKnown":    {"it may arrive, or be a leftover", func(*bmov1alpha1.BareMetalHost) {}, nil, false, pivot.Leave},
		"HasACluster": {"the Cluster decides", func(*bmov1alpha1.BareMetalHost) {}, []pivot.Neighbour{unverified}, true, pivot.Leave},
		"Brings":      {"it arrives", brings, nil, true, pivot.Leave},
		"StatusLost":  {"BMO would write the image again", image, nil, true, pivot.Leave},
		"ByUser": {"the pause is the user's", func(host *bmov1alpha1.BareMetalHost) {
			host.Annotations[bmov1alpha1.PausedAnnotation] = "maintenance"
		}, nil, true, pivot.Leave},
		"Deleted": {"clusterctl deletes it", func(host *bmov1alpha1.BareMetalHost) {
			host.Annotations[infrav1.DeleteForMoveAnnotation] = ""
		}, nil, true, pivot.Leave},
	} {
		t.Run(name, func(t *testing.T) {
			host := created("late", 101)
			tc.edit(host)
			got := pivot.PlanHost(host, tc.around, pivot.HostFacts{Stayed: tc.stayed})
			if got != tc.want {
				t.Fatalf("%s: got %s, want %s", tc.reason, got, tc.want)
			}
			changed := pivot.Apply(got, host, tc.around)
			if _, paused := changed.Annotations[bmov1alpha1.PausedAnnotation]; paused == (tc.want == pivot.Stay) {
				t.Errorf("%s: got %v", tc.reason, changed.Annotations)
			}
		})
	}
}
