package metal3cluster

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/departure"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// moving returns a reconciler of a paused Cluster, with other stored objects.
func moving(
	t *testing.T, infra *infrav1.Metal3Cluster, funcs interceptor.Funcs, others ...client.Object,
) (*Reconciler, client.Client) {
	t.Helper()
	r, stored := reconciler(infra, funcs, kept{})
	r.Handover, r.Departures = &handovers{handed: map[string]bool{}}, departure.New(r.Client)
	cluster := build.Cluster("cluster")
	if err := stored.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		t.Fatal(err)
	}
	cluster.Spec.Paused = ptr.To(true)
	if err := stored.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	for _, other := range others {
		if err := stored.Create(t.Context(), other); err != nil {
			t.Fatal(err)
		}
	}
	return r, stored
}

// judged reconciles a Metal3Cluster, reads it again and returns ReadyForMove.
func judged(t *testing.T, r *Reconciler, stored client.Client, infra *infrav1.Metal3Cluster) *metav1.Condition {
	t.Helper()
	key := client.ObjectKeyFromObject(infra)
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	if err := stored.Get(t.Context(), key, infra); err != nil {
		t.Fatal(err)
	}
	return conditions.Get(infra, infrav1.ReadyForMoveCondition)
}

// TestTheGateIsJudgedWhileItIsClosed reports on paused Clusters with a Machine that a move would lose.
func TestTheGateIsJudgedWhileItIsClosed(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		epoch  string
		gated  bool
		says   string
		lost   bool
	}{
		"Closed": {"clusterctl waits", "3", true, infrav1.WaitingForHostsReason, true},
		"Open":   {"clusterctl copies and deletes, or the Cluster has arrived", "3", false, infrav1.MovableReason, false},
		"Never":  {"a Cluster that never ran has no gate", "", false, infrav1.WaitingForHostsReason, true},
	} {
		t.Run(name, func(t *testing.T) {
			infra := build.Metal3Cluster("cluster", build.Annotations(map[string]string{}))
			if tc.epoch != "" {
				infra.Annotations[infrav1.MoveEpochAnnotation] = tc.epoch
			}
			if tc.gated {
				infra.Annotations[infrav1.BlockMoveAnnotation] = ""
			}
			machine := build.Machine("machine", "cluster")
			r, stored := moving(t, infra, interceptor.Funcs{}, machine)
			got := judged(t, r, stored, infra)
			if got.Reason != tc.says || strings.Contains(got.Message, "Machine machine has no node") != tc.lost {
				t.Errorf("%s: got %+v, want %s", tc.reason, got, tc.says)
			}
		})
	}
}

// TestTheGateOpensWithItsWrite fails the write that removes block-move.
func TestTheGateOpensWithItsWrite(t *testing.T) {
	infra := build.Metal3Cluster("cluster", build.Annotations(map[string]string{
		infrav1.MoveEpochAnnotation: "3", infrav1.BlockMoveAnnotation: "",
	}))
	withEndpoint(infra)
	down := errors.New("the API server is down")
	broken := down
	r, stored := moving(t, infra, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			options ...client.PatchOption,
		) error {
			if kind, err := c.GroupVersionKindFor(object); err == nil && kind.Kind == "Metal3Cluster" && broken != nil {
				return broken
			}
			return c.Patch(ctx, object, patch, options...)
		},
	})
	recorder := events.NewFakeRecorder(20)
	r.Recorder = recorder
	key := client.ObjectKeyFromObject(infra)
	for _, tc := range []struct {
		broken         error
		status         metav1.ConditionStatus
		says           string
		gated, emitted bool
	}{
		{down, metav1.ConditionFalse, down.Error(), true, false},
		{nil, metav1.ConditionTrue, "", false, true},
	} {
		broken = tc.broken
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); !errors.Is(err, tc.broken) {
			t.Fatalf("got %v, want %v", err, tc.broken)
		}
		if err := stored.Get(t.Context(), key, infra); err != nil {
			t.Fatal(err)
		}
		if _, gated := infra.Annotations[infrav1.BlockMoveAnnotation]; gated != tc.gated {
			t.Errorf("gated: %t, want %t", gated, tc.gated)
		}
		got := conditions.Get(infra, infrav1.ReadyForMoveCondition)
		if got.Status != tc.status || !strings.Contains(got.Message, tc.says) {
			t.Errorf("got %+v, want %s with %q", got, tc.status, tc.says)
		}
		progress := conditions.Get(infra, infrav1.MoveInProgressCondition)
		if (progress.Reason == infrav1.MovableReason) == tc.gated {
			t.Errorf("got %+v with gated %t", progress, tc.gated)
		}
		if emitted := has(recorder, eventHandedOver); emitted != tc.emitted {
			t.Errorf("event %s: %t, want %t", eventHandedOver, emitted, tc.emitted)
		}
	}
}

// TestTheGateReadsTheHostsAgain resumes a host while the departure is recorded, as hostmove does when a user requests a
// reboot.
func TestTheGateReadsTheHostsAgain(t *testing.T) {
	infra := build.Metal3Cluster("cluster", build.Annotations(map[string]string{
		infrav1.MoveEpochAnnotation: "3", infrav1.BlockMoveAnnotation: "",
	}))
	host := build.Host("host", build.Available(), build.Annotations(map[string]string{
		bmov1alpha1.PausedAnnotation: infrav1.HostPausedByProvider, infrav1.MoveEpochAnnotation: "3",
	}))
	content, err := json.Marshal(host.Status)
	if err != nil {
		t.Fatal(err)
	}
	host.Annotations[bmov1alpha1.StatusAnnotation] = string(content)
	r, stored := moving(t, infra, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if object.GetName() == pivot.DepartureName {
				current := host.DeepCopy()
				if err := c.Get(ctx, client.ObjectKeyFromObject(host), current); err != nil {
					return err
				}
				delete(current.Annotations, bmov1alpha1.PausedAnnotation)
				if err := c.Update(ctx, current); err != nil {
					return err
				}
			}
			return c.Create(ctx, object, options...)
		},
	}, host)
	got := judged(t, r, stored, infra)
	if _, gated := infra.Annotations[infrav1.BlockMoveAnnotation]; !gated || !strings.Contains(got.Message, "host host") {
		t.Errorf("gated: %t, %+v", gated, got)
	}
}

// has returns true if an event was recorded. It removes all events.
func has(recorder *events.FakeRecorder, reason string) bool {
	found := false
	for len(recorder.Events) > 0 {
		found = strings.Contains(<-recorder.Events, reason) || found
	}
	return found
}

// TestTheGateSeesItsHosts changes the fields of a host that the gate depends on.
func TestTheGateSeesItsHosts(t *testing.T) {
	for name, change := range map[string]func(*bmov1alpha1.BareMetalHost){
		"Epoch":   func(host *bmov1alpha1.BareMetalHost) { host.Annotations[infrav1.MoveEpochAnnotation] = "3" },
		"Ironic":  func(host *bmov1alpha1.BareMetalHost) { host.Annotations[infrav1.IronicClusterIDAnnotation] = "c1" },
		"Pause":   func(host *bmov1alpha1.BareMetalHost) { host.Annotations[bmov1alpha1.PausedAnnotation] = "" },
		"OwnGate": func(host *bmov1alpha1.BareMetalHost) { host.Annotations[infrav1.BlockMoveAnnotation] = "x" },
		"Busy":    func(host *bmov1alpha1.BareMetalHost) { host.Status.Provisioning.State = bmov1alpha1.StateInspecting },
		"Consumer": func(host *bmov1alpha1.BareMetalHost) {
			host.Labels = map[string]string{clusterv1.ClusterNameLabel: "c"}
		},
	} {
		before := build.Host("host", build.Available(), build.Annotations(map[string]string{"x": "y"}))
		before.Spec.ConsumerRef = &corev1.ObjectReference{
			APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Machine", Name: "m",
		}
		after := before.DeepCopy()
		change(after)
		if !hostMatters(before, after) {
			t.Errorf("%s: the gate does not see the change", name)
		}
		if hostMatters(before, before.DeepCopy()) {
			t.Errorf("%s: nothing changed", name)
		}
	}
}
