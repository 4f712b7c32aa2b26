package metal3machine

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// settling records the settled machines. The other methods are not called.
type settling struct {
	Hosts

	settled []types.NamespacedName
}

func (s *settling) Settle(_ context.Context, machine types.NamespacedName, _ bool) {
	s.settled = append(s.settled, machine)
}

// TestStagesOfAConditionAreTogether expects no stage of another condition between two stages of a condition. While that
// stage waited, the condition would keep an outdated reason, and Ready would repeat it.
func TestStagesOfAConditionAreTogether(t *testing.T) {
	r := &Reconciler{}
	for name, stages := range map[string][]flow.Stage[*scope]{
		"acquire": r.acquire(complete()), "run": r.run(complete()), "release": r.release(complete()),
	} {
		var found []string
		for _, stage := range stages {
			found = append(found, stage.Type)
		}
		together := slices.Compact(slices.Clone(found))
		if distinct := slices.Compact(slices.Sorted(slices.Values(together))); len(distinct) != len(together) {
			t.Errorf("%s: the conditions of the stages are %q", name, found)
		}
	}
}

// TestAFailedReadIsReported expects the error in Ready and no other change. In particular, a paused object stays
// paused.
func TestAFailedReadIsReported(t *testing.T) {
	ctx := context.Background()
	down := errors.New("the API server is away")
	machine := build.Metal3Machine("machine", "cluster", build.OwnedBy(build.Machine("machine", "cluster")))
	machine.Status.Conditions = []metav1.Condition{{
		Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue, Reason: clusterv1.PausedReason,
	}}
	stored := fake.NewClientBuilder().WithScheme(build.Scheme()).
		WithObjects(machine, build.Machine("machine", "cluster")).WithStatusSubresource(machine).Build()
	c := interceptor.NewClient(stored, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption,
		) error {
			if _, isCluster := object.(*clusterv1.Cluster); isCluster {
				return down
			}
			return c.Get(ctx, key, object, options...)
		},
	})
	hosts := &settling{}
	key := client.ObjectKeyFromObject(machine)
	before := build.Metal3Machine("machine", "cluster")
	if err := stored.Get(ctx, key, before); err != nil {
		t.Fatal(err)
	}
	_, err := (&Reconciler{Reporter: flow.Reporter{Client: c, Recorder: events.NewFakeRecorder(1)}, Hosts: hosts}).Reconcile(ctx, ctrl.Request{NamespacedName: key})
	if !errors.Is(err, down) {
		t.Errorf("the error is %v, want that of the read", err)
	}
	after := build.Metal3Machine("machine", "cluster")
	if err := stored.Get(ctx, key, after); err != nil {
		t.Fatal(err)
	}
	ready := conditions.Get(after, clusterv1.ReadyCondition)
	if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != infrav1.ReadFailedReason ||
		ready.Message != "Reading Cluster cluster: the API server is away" {
		t.Errorf("Ready is %+v, want the error", ready)
	}
	conditions.Delete(after, clusterv1.ReadyCondition)
	after.ResourceVersion = before.ResourceVersion
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the machine changed:\n%s", diff)
	}
	if diff := cmp.Diff([]types.NamespacedName{key}, hosts.settled); diff != "" {
		t.Errorf("a host that was offered to the machine has to go to the next one:\n%s", diff)
	}
}
