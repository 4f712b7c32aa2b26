package metal3cluster

import (
	"crypto/rand"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/controlplane"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

func TestEndpointAnswers(t *testing.T) {
	verdict := &pivot.Verdict{Message: "Ironic answers"}
	unowned := &secrets.UnownedError{Cause: errors.New("owning Secret mine")}
	for name, tc := range map[string]struct {
		reason string
		scope  scope
		want   flow.Reached
	}{
		"Answers": {"nothing is wrong", scope{verdict: verdict}, flow.Reached{
			Reason: infrav1.EndpointAnswersReason, Message: "Ironic answers",
		}},
		"Unowned": {"the Secret would not move", scope{verdict: verdict, unowned: unowned}, flow.Reached{
			Reason: infrav1.EndpointFailedReason, Message: "Ironic answers; owning Secret mine",
		}},
		"Ends": {"the end comes before the next move", scope{
			verdict: verdict, unowned: unowned, certificateEnds: "Its certificate ends",
		}, flow.Reached{
			Reason:  infrav1.EndpointCertificateEndsReason,
			Message: "Ironic answers; owning Secret mine. Its certificate ends",
		}},
		"Outdated": {"a change waits for a rollout, and nothing is wrong", scope{verdict: verdict, outdatedNodes: "The next"},
			flow.Reached{Reason: infrav1.EndpointAnswersReason, Message: "Ironic answers. The next"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ironicReady.Done(&tc.scope)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestOutdatedNodes has a node with the configuration of a new one, a node without the endpoint, and others.
func TestOutdatedNodes(t *testing.T) {
	infra := build.Metal3Cluster("cluster")
	withEndpoint(infra)
	r, stored := reconciler(infra, interceptor.Funcs{}, kept{})
	keeper := &secrets.Keeper{Client: stored, Random: rand.Reader, Clock: r.Clock, Hash: secrets.HashPassword}
	material, _, err := keeper.Ensure(t.Context(), infra, "cluster", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.GuardImage = "registry.example/guard:v1"
	desired, err := controlplane.Hash(material.Endpoint(infra.Spec.Ironic, r.GuardImage))
	if err != nil {
		t.Fatal(err)
	}
	const outdated = "The next rollout of the control plane updates the configuration of the endpoint on "
	for name, tc := range map[string]struct {
		reason string
		change func(s *scope)
		want   string
	}{
		"Old":     {"cp-1 booted before a change", func(*scope) {}, outdated + "cp-1"},
		"Changed": {"spec.ironic changed", func(s *scope) { s.infra.Spec.Ironic.Images.Ironic = "x" }, outdated + "cp-0, cp-1"},
		"Rotated": {"the Secret changed", func(s *scope) {
			s.material.Htpasswd = append(slices.Clone(s.material.Htpasswd), "before:$2y$05$hash\n"...)
		}, outdated + "cp-0, cp-1"},
		"Invalid": {"no node boots", func(s *scope) { s.infra.Spec.Ironic.Endpoint.CIDRs = nil }, ""},
		"Unknown": {"the workload cluster does not answer", func(s *scope) { s.plane = nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scope{infra: infra.DeepCopy(), material: material, plane: &workload.ControlPlane{
				Nodes: []workload.ControlPlaneNode{{Name: "cp-0", ConfigHash: desired}, {Name: "cp-1", ConfigHash: "h"}, {Name: "cp-2"}},
			}}
			tc.change(s)
			if got := r.outdatedNodes(s); got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

func TestSetReadyForMove(t *testing.T) {
	type verdict struct {
		Status          metav1.ConditionStatus
		Reason, Message string
	}
	failed := outcome.Waiting(infrav1.NotReadyForMoveReason, "Listing Secrets")
	movable := verdict{metav1.ConditionTrue, infrav1.ReadyForMoveReason, ""}
	cases := map[string]struct {
		reason  string
		cluster []build.ClusterOption
		paused  bool
		gate    *outcome.Outcome
		err     error
		busy    bool
		want    verdict
	}{
		"Runs": {reason: "no obstacle", gate: ptr.To(outcome.Done()), want: movable},
		"Busy": {reason: "an obstacle", gate: ptr.To(outcome.Done()), busy: true, want: verdict{
			metav1.ConditionFalse, infrav1.NotReadyForMoveReason,
			"Not ready for clusterctl move: host busy is provisioning: wait until it is done",
		}},
		"Failed": {
			reason: "an obstacle that could not be read", gate: &failed, err: errAway,
			want: verdict{metav1.ConditionFalse, infrav1.NotReadyForMoveReason, "Not ready for clusterctl move: Listing Secrets"},
		},
		"NotJudged": {reason: "a write conflicted before the obstacles were read", busy: true, want: movable},
		"Paused": {reason: "obstacles are not observed", paused: true, busy: true, want: verdict{
			metav1.ConditionFalse, infrav1.NotReadyForMoveReason,
			"Not ready for clusterctl move: Metal3Cluster cluster is paused: remove its annotation cluster.x-k8s.io/paused",
		}},
		"Waits": {
			reason: "a move waits for hosts", cluster: []build.ClusterOption{build.ClusterPaused()},
			gate: ptr.To(outcome.Waiting(infrav1.WaitingForHostsReason, "The move waits")),
			want: verdict{metav1.ConditionFalse, infrav1.WaitingForHostsReason, "The move waits"},
		},
		"Parked": {
			reason: "the move may continue", cluster: []build.ClusterOption{build.ClusterPaused()}, gate: ptr.To(outcome.Done()),
			want: verdict{metav1.ConditionTrue, infrav1.MovableReason, ""},
		},
		"BothPaused": {
			reason: "the Cluster decides", cluster: []build.ClusterOption{build.ClusterPaused()}, paused: true,
			gate: ptr.To(outcome.Done()), want: verdict{metav1.ConditionTrue, infrav1.MovableReason, ""},
		},
		"GateFailed": {
			reason: "the gate is tried again", cluster: []build.ClusterOption{build.ClusterPaused()}, gate: &failed, err: errAway,
			want: verdict{metav1.ConditionFalse, infrav1.NotReadyForMoveReason, "Listing Secrets"},
		},
		"Conflict": {
			reason: "the condition must not stay True", cluster: []build.ClusterOption{build.ClusterPaused()}, paused: true,
			want: verdict{
				metav1.ConditionFalse, infrav1.NotReadyForMoveReason, "The move waits: the manager has not checked the gate yet",
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := &scope{
				infra: build.Metal3Cluster("cluster"), cluster: build.Cluster("cluster", tc.cluster...),
			}
			conditions.Set(s.infra, metav1.Condition{
				Type: infrav1.ReadyForMoveCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReadyForMoveReason,
			})
			results := flow.Results{}
			if tc.paused {
				s.infra.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
			}
			if tc.busy {
				s.move.Hosts = []*bmov1alpha1.BareMetalHost{build.Host("busy", build.State(bmov1alpha1.StateProvisioning))}
				s.move.Around = []pivot.Neighbour{pivot.NeighbourOf(s.cluster, s.infra)}
			}
			if tc.gate != nil {
				results[infrav1.ReadyForMoveCondition] = flow.Result{Outcome: *tc.gate, Err: tc.err}
			}
			s.pause = flow.Paused(s.cluster, s.infra)
			setReadyForMove(s, results)
			got := conditions.Get(s.infra, infrav1.ReadyForMoveCondition)
			if diff := cmp.Diff(tc.want, verdict{got.Status, got.Reason, got.Message}); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestOldConditionsAreRemoved reconciles a Metal3Cluster with the conditions in the format of v1beta1 that CAPM3 wrote.
func TestOldConditionsAreRemoved(t *testing.T) {
	infra := build.Metal3Cluster("cluster")
	infra.Status.Deprecated = &infrav1.DeprecatedStatus{V1Beta1: &infrav1.Metal3V1Beta1Status{
		Conditions: clusterv1.Conditions{{Type: "Ready", Status: "True"}}, //nolint:staticcheck // This is what CAPM3 wrote.
	}}
	r, stored := reconciler(infra, interceptor.Funcs{}, kept{})
	key := client.ObjectKeyFromObject(infra)
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	after := &infrav1.Metal3Cluster{}
	if err := stored.Get(t.Context(), key, after); err != nil {
		t.Fatal(err)
	}
	if after.Status.Deprecated != nil || !conditions.IsTrue(after, infrav1.ReadyCondition) {
		t.Errorf("got %+v, want no conditions of v1beta1, and Ready", after.Status)
	}
}
