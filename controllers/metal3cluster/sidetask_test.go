package metal3cluster

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/departure"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// handovers implements Handover. It records the handovers by clusterID.
type handovers struct {
	handed map[string]bool
	err    error
}

func (t *handovers) Tell(_ context.Context, clusterID string, handedOver bool) error {
	if t.err != nil {
		return t.err
	}
	t.handed[clusterID] = handedOver
	return nil
}

// probedBefore sets the result of an earlier probe of the control plane.
func probedBefore(r *Reconciler, infra *infrav1.Metal3Cluster, result nodesResult) {
	key := client.ObjectKeyFromObject(infra)
	target := nodesTarget{cluster: key, clusterID: infra.Spec.Ironic.ClusterID}
	r.Nodes.targets[key] = &probed[nodesTarget, nodesResult]{target: target, result: &result}
}

// unpaused returns a Metal3Cluster of a Cluster that runs again in the source of a move.
func unpaused() *infrav1.Metal3Cluster {
	infra := build.Metal3Cluster("cluster", build.Annotations(map[string]string{infrav1.MoveEpochAnnotation: "3"}))
	withEndpoint(infra)
	return infra
}

// TestSideTasksFailByThemselves aborts a move while one of its side tasks fails.
func TestSideTasksFailByThemselves(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, pivot.DepartureName, errors.New("a policy"))
	away := errors.New("Ironic does not answer")
	for name, tc := range map[string]struct {
		deletion, telling error
		fails             error
		says              string
		forgotten, back   bool
	}{
		"Neither":  {forgotten: true, back: true},
		"Deletion": {deletion: refused, fails: refused, says: "ConfigMap " + pivot.DepartureName, back: true},
		"Handover": {telling: away, fails: away, says: away.Error(), forgotten: true},
	} {
		t.Run(name, func(t *testing.T) {
			infra := unpaused()
			r, stored := reconciler(infra, interceptor.Funcs{
				Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
					if tc.deletion != nil {
						return tc.deletion
					}
					return c.Delete(ctx, object, options...)
				},
			}, kept{})
			ironic := &handovers{handed: map[string]bool{"c1": true}, err: tc.telling}
			r.Handover, r.Departures = ironic, departure.New(r.Client)
			left := pivot.Departure{Infras: map[string]pivot.Epoch{infra.Name: 3}}
			if err := departure.New(stored).Remember(t.Context(), infra.Namespace, left); err != nil {
				t.Fatal(err)
			}
			probedBefore(r, infra, nodesResult{epoch: 4, standing: pivot.Current})
			key := client.ObjectKeyFromObject(infra)
			// The first pass ends the move, the second one reads the claim of the epoch after it.
			for range 2 {
				if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); !errors.Is(err, tc.fails) {
					t.Fatalf("got %v, want %v", err, tc.fails)
				}
			}
			if err := stored.Get(t.Context(), key, infra); err != nil {
				t.Fatal(err)
			}
			if _, gated := infra.Annotations[infrav1.BlockMoveAnnotation]; !gated {
				t.Error("clusterctl does not wait for hosts, which stay paused")
			}
			if ironic.handed["c1"] == tc.back {
				t.Errorf("the Ironic of the management cluster was notified of %v", ironic.handed)
			}
			remembered := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: infra.Namespace, Name: pivot.DepartureName}}
			err := stored.Get(t.Context(), client.ObjectKeyFromObject(remembered), remembered)
			if apierrors.IsNotFound(err) != tc.forgotten {
				t.Errorf("the departure: got %v, want forgotten %t", err, tc.forgotten)
			}
			if says := conditions.GetMessage(infra, infrav1.ReadyForMoveCondition); !strings.Contains(says, tc.says) {
				t.Errorf("ReadyForMove says %q, want %q", says, tc.says)
			}
		})
	}
}

// TestTheDepartureIsRemovedOnce counts the requests for the record of a departure, also after a restart of the manager.
func TestTheDepartureIsRemovedOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		reason    string
		own       pivot.Epoch
		standing  pivot.Standing
		left      map[string]pivot.Epoch
		forgotten bool
	}{
		"Back":       {"the cluster runs here again", 4, pivot.Current, map[string]pivot.Epoch{"cluster": 3}, true},
		"Other":      {"another cluster has arrived", 4, pivot.Current, map[string]pivot.Epoch{"other": 3}, false},
		"Leaving":    {"another cluster of the namespace leaves first", 2, pivot.Current, map[string]pivot.Epoch{"other": 3, "cluster": 3}, false},
		"Superseded": {"the cluster runs elsewhere", 4, pivot.Superseded, map[string]pivot.Epoch{"cluster": 3}, false},
		"Never":      {"the cluster was never moved", 0, pivot.Current, map[string]pivot.Epoch{"other": 3}, false},
	} {
		t.Run(name, func(t *testing.T) {
			infra := unpaused()
			infra.Annotations[infrav1.MoveEpochAnnotation] = tc.own.String()
			requests := 0
			count := func(object client.Object) {
				if _, is := object.(*corev1.ConfigMap); is {
					requests++
				}
			}
			r, stored := reconciler(infra, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
					count(object)
					return c.Get(ctx, key, object, options...)
				},
				Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
					count(object)
					return c.Delete(ctx, object, options...)
				},
			}, kept{})
			r.Departures = departure.New(r.Client)
			if err := departure.New(stored).Remember(t.Context(), infra.Namespace, pivot.Departure{Infras: tc.left}); err != nil {
				t.Fatal(err)
			}
			probedBefore(r, infra, nodesResult{epoch: tc.own, standing: tc.standing})
			request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(infra)}
			for range 5 {
				if _, err := r.Reconcile(t.Context(), request); err != nil {
					t.Fatal(err)
				}
			}
			left, err := departure.Of(t.Context(), stored, infra.Namespace)
			if err != nil || (len(left.Infras) == 0) != tc.forgotten {
				t.Errorf("%s: remembered %v, %v", tc.reason, left, err)
			}
			if requests > 2 {
				t.Errorf("%d requests, want two at most", requests)
			}
		})
	}
}
