package flow_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

var errBroken = errors.New("broken")

// trace is the scope of the tests. It records the stages that ran.
type trace struct{ ran []string }

func observe(name string, err error) flow.Observation[*trace] {
	return func(_ context.Context, scope *trace) error {
		scope.ran = append(scope.ran, name)
		return err
	}
}

func TestObserve(t *testing.T) {
	cases := map[string]struct {
		observations []flow.Observation[*trace]
		ran          []string
		err          error
	}{
		"none": {},
		"all in order": {
			observations: []flow.Observation[*trace]{observe("a", nil), observe("b", nil), observe("c", nil)},
			ran:          []string{"a", "b", "c"},
		},
		"an error stops": {
			observations: []flow.Observation[*trace]{observe("a", nil), observe("b", errBroken), observe("c", nil)},
			ran:          []string{"a", "b"},
			err:          errBroken,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			scope := &trace{}
			if err := flow.Observe(context.Background(), scope, tc.observations...); !errors.Is(err, tc.err) {
				t.Errorf("got error %v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.ran, scope.ran); diff != "" {
				t.Errorf("ran: -want +got:\n%s", diff)
			}
		})
	}
}

func TestPaused(t *testing.T) {
	pausedMachine := build.Metal3Machine("m", "c", build.Annotations(map[string]string{clusterv1.PausedAnnotation: ""}))
	plain := build.Metal3Machine("m", "c")
	pausedOwner := build.Machine("o", "c", build.Annotations(map[string]string{clusterv1.PausedAnnotation: ""}))
	pausedCluster := build.Cluster("c", build.ClusterPaused())
	const (
		byCluster = "spec.paused of Cluster c is true: wait for a move in progress; complete an interrupted move with pivot " +
			"resume, or abort it with pivot abort; without a move, use `clusterctl metal3 pivot unpause --namespace metal3`"
		byMachine = "Metal3Machine m has the annotation cluster.x-k8s.io/paused: remove the annotation"
		byOwner   = "Machine o has the annotation cluster.x-k8s.io/paused: remove the annotation"
	)
	cases := map[string]struct {
		cluster *clusterv1.Cluster
		objects []client.Object
		want    string
	}{
		"none is paused":               {build.Cluster("c"), []client.Object{plain, build.Machine("o", "c")}, ""},
		"the Cluster is paused":        {pausedCluster, []client.Object{plain}, byCluster},
		"the machine is paused":        {build.Cluster("c"), []client.Object{pausedMachine}, byMachine},
		"the owner is paused":          {build.Cluster("c"), []client.Object{plain, pausedOwner}, byOwner},
		"no Cluster is not paused":     {nil, []client.Object{plain}, ""},
		"no Cluster, a paused machine": {nil, []client.Object{pausedMachine}, byMachine},
		"all are paused":               {pausedCluster, []client.Object{pausedMachine, pausedOwner}, byCluster + ". " + byMachine + ". " + byOwner},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := flow.Paused(tc.cluster, tc.objects...); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestNotOnlyStatus(t *testing.T) {
	now := metav1.Unix(1_700_000_000, 0)
	later := metav1.Unix(1_700_000_001, 0)
	cases := map[string]struct {
		change func(*infrav1.Metal3Machine)
		want   bool
	}{
		"the status":         {func(m *infrav1.Metal3Machine) { m.Status.FailureDomain = "a" }, false},
		"a label":            {func(m *infrav1.Metal3Machine) { m.Labels = map[string]string{"a": "b"} }, true},
		"an annotation":      {func(m *infrav1.Metal3Machine) { annotate(m, "key") }, true},
		"a finalizer":        {func(m *infrav1.Metal3Machine) { m.Finalizers = []string{ours} }, true},
		"the generation":     {func(m *infrav1.Metal3Machine) { m.Generation++ }, true},
		"the deletion":       {func(m *infrav1.Metal3Machine) { m.DeletionTimestamp = &now }, true},
		"an object in place": {func(m *infrav1.Metal3Machine) { m.UID = "2" }, true},
		"an owner": {
			func(m *infrav1.Metal3Machine) { m.OwnerReferences = []metav1.OwnerReference{{UID: "1"}} }, true,
		},
		"the periodic resync": {func(m *infrav1.Metal3Machine) { m.ResourceVersion = "1" }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := build.Metal3Machine("m", "c")
			before.UID, before.ResourceVersion = "1", "1"
			after := before.DeepCopy()
			after.ResourceVersion = "2"
			tc.change(after)
			update := event.UpdateEvent{ObjectOld: before, ObjectNew: after}
			if got := flow.NotOnlyStatus().Update(update); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
	deleting := build.Metal3Machine("m", "c")
	deleting.DeletionTimestamp, deleting.ResourceVersion = &now, "1"
	shorter := deleting.DeepCopy()
	shorter.DeletionTimestamp, shorter.ResourceVersion = &later, "2"
	if flow.NotOnlyStatus().Update(event.UpdateEvent{ObjectOld: deleting, ObjectNew: shorter}) {
		t.Error("a change of the deletionTimestamp passed")
	}
	if !flow.NotOnlyStatus().Create(event.CreateEvent{Object: deleting}) ||
		!flow.NotOnlyStatus().Delete(event.DeleteEvent{Object: deleting}) {
		t.Error("a creation or a deletion did not pass")
	}
}
