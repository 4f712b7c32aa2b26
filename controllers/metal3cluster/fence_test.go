package metal3cluster

import (
	"errors"
	"maps"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/departure"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// TestARestartKeepsTheFence starts a manager for a Metal3Cluster that an earlier process has fenced with epoch 4.
func TestARestartKeepsTheFence(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "record", errors.New("RBAC"))
	const elsewhere, answers, waits = infrav1.ManagedElsewhereReason, infrav1.EndpointAnswersReason,
		infrav1.NotYetObservedReason
	handed, back := map[string]bool{"c1": true}, map[string]bool{"c1": false}
	for name, tc := range map[string]struct {
		reason    string
		epoch     string
		notYet    bool
		claim     error
		now       pivot.Standing
		says      string
		handovers map[string]bool
		forgets   bool
	}{
		"NotProbed":    {"the claim in the status counts", "4", true, nil, "", elsewhere, handed, false},
		"NotTried":     {"the claim in the status counts", "4", false, workload.ErrNotTried, "", elsewhere, handed, false},
		"Unreachable":  {"the claim in the status does not expire", "4", false, workload.ErrUnreachable, "", elsewhere, handed, false},
		"Lost":         {"nor without a kubeconfig", "4", false, workload.ErrNoKubeconfig, "", elsewhere, handed, false},
		"Refused":      {"a 403 shows no other claim", "4", false, forbidden, "", elsewhere, handed, false},
		"Still":        {"the other management cluster has the claim", "4", false, nil, pivot.Superseded, elsewhere, handed, false},
		"Given back":   {"the record is deleted", "4", false, nil, pivot.Current, answers, back, true},
		"Taken over":   {"a newer epoch wins", "6", false, workload.ErrUnreachable, "", answers, back, false},
		"Moved back":   {"a newer epoch wins", "5", false, workload.ErrUnreachable, "", answers, back, false},
		"Back, silent": {"no connection was tried", "6", false, workload.ErrNotTried, "", waits, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			infra := unpaused()
			infra.Annotations[infrav1.MoveEpochAnnotation] = tc.epoch
			infra.Status.Ironic = &infrav1.IronicStatus{ManagedElsewhere: &infrav1.IronicClaim{
				Epoch: 4, ManagementCluster: "there",
			}}
			r, stored := reconciler(infra, interceptor.Funcs{}, kept{})
			ironic := &handovers{handed: map[string]bool{}}
			r.Handover, r.Departures = ironic, departure.New(r.Client)
			if !tc.notYet {
				target := nodesTarget{cluster: client.ObjectKeyFromObject(infra), epoch: pivot.EpochOf(infra).Unpaused()}
				there := &planes{claim: tc.claim, standing: tc.now}
				probedBefore(r, infra, probeNodes(t.Context(), there, events.NewFakeRecorder(10), target, nil))
			}
			answered(r, infra)
			key := client.ObjectKeyFromObject(infra)
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			if err := stored.Get(t.Context(), key, infra); err != nil {
				t.Fatal(err)
			}
			if got := conditions.Get(infra, infrav1.IronicEndpointReadyCondition); got.Reason != tc.says {
				t.Errorf("%s: got %+v, want %s", tc.reason, got, tc.says)
			}
			if !maps.Equal(ironic.handed, tc.handovers) {
				t.Errorf("%s: the Ironic here was notified of %v, want %v", tc.reason, ironic.handed, tc.handovers)
			}
			if forgets := pivot.ClaimElsewhere(infra) == nil; forgets != tc.forgets {
				t.Errorf("%s: the status has %+v", tc.reason, infra.Status.Ironic)
			}
		})
	}
}
