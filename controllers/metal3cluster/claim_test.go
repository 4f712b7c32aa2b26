package metal3cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// TestAFailedClaimHolds unpauses a Cluster in source and target while the claim of this management cluster fails.
func TestAFailedClaimHolds(t *testing.T) {
	record := schema.GroupResource{Resource: "configmaps"}
	forbidden := apierrors.NewForbidden(record, "metal3-management-cluster", errors.New("RBAC"))
	conflict := apierrors.NewConflict(record, "metal3-management-cluster", errors.New("it changed"))
	current, superseded := nodesResult{epoch: 4, standing: pivot.Current}, nodesResult{epoch: 4, standing: pivot.Superseded}
	earlier := nodesResult{epoch: 2, standing: pivot.Current}
	const waits, elsewhere, answers = infrav1.EndpointFailedReason, infrav1.ManagedElsewhereReason,
		infrav1.EndpointAnswersReason
	for name, tc := range map[string]struct {
		reason string
		last   *nodesResult
		claim  error
		says   string
		text   string
		back   bool
	}{
		"Claimed":           {"this management cluster manages the cluster", nil, nil, answers, "", true},
		"Unreachable":       {"hosts may require the repair of the cluster", nil, workload.ErrUnreachable, answers, "", true},
		"Forbidden":         {"the other management cluster may have claimed the cluster", nil, forbidden, waits, "RBAC. Correct the permissions of the kubeconfig of Cluster cluster", false},
		"Conflict":          {"the other management cluster has claimed the cluster", nil, conflict, waits, "it changed", false},
		"Broken":            {"the standing is not known", nil, errAway, waits, errAway.Error(), false},
		"BrokenEarlier":     {"the other management cluster may have claimed a newer epoch", &earlier, errAway, waits, errAway.Error(), false},
		"BrokenCurrent":     {"this one has claimed the epoch already", &current, errAway, answers, "", true},
		"ForbiddenCurrent":  {"no later probe would see another claim", &current, forbidden, waits, "RBAC", false},
		"BrokenSuperseded":  {"the other management cluster manages the cluster", &superseded, errAway, elsewhere, "", false},
		"UnreachableBehind": {"an earlier probe read the claim of the other management cluster", &superseded, workload.ErrUnreachable, elsewhere, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			there := &planes{claim: tc.claim, standing: pivot.Current}
			got, back := afterClaim(t, nodesTarget{epoch: 4}, there, tc.last)
			if got.Reason != tc.says || !strings.Contains(got.Message, tc.text) {
				t.Errorf("%s: got %+v, want %s", tc.reason, got, tc.says)
			}
			if back != tc.back {
				t.Errorf("%s: the Ironic of the management cluster may take the VIP: %t", tc.reason, back)
			}
			if tc.claim != nil && there.armed+there.reads > 0 {
				t.Error("nodes were armed without a claim")
			}
		})
	}
}

// TestAMissingKubeconfigHolds unpauses a Cluster whose kubeconfig is lost, so that the claims of the workload cluster
// cannot be read.
func TestAMissingKubeconfigHolds(t *testing.T) {
	const waits, answers = infrav1.EndpointFailedReason, infrav1.EndpointAnswersReason
	lost := fmt.Errorf("%w: restore Secret cluster-kubeconfig", workload.ErrNoKubeconfig)
	current := nodesResult{epoch: 4, standing: pivot.Current}
	for name, tc := range map[string]struct {
		reason   string
		epoch    pivot.Epoch
		hadNodes bool
		last     *nodesResult
		says     string
	}{
		"New":      {"the control plane is being created, and no move has begun", 0, false, nil, answers},
		"Moved":    {"another management cluster may have claimed the cluster", 2, false, nil, waits},
		"Restored": {"the backup is of an earlier move", 4, true, nil, waits},
		"Unmoved":  {"the backup may be older than the first move", 0, true, nil, waits},
		"Current":  {"no later probe would see another claim", 4, false, &current, waits},
		"Claimed":  {"nor before the first move", 0, true, &nodesResult{standing: pivot.Current}, waits},
	} {
		t.Run(name, func(t *testing.T) {
			there := &planes{claim: lost}
			got, back := afterClaim(t, nodesTarget{epoch: tc.epoch, hadNodes: tc.hadNodes}, there, tc.last)
			if got.Reason != tc.says || back != (tc.says == answers) {
				t.Errorf("%s: got %+v, want %s; the Ironic of the management cluster may take the VIP: %t", tc.reason, got,
					tc.says, back)
			}
			if tc.says == waits && !strings.Contains(got.Message, "restore Secret cluster-kubeconfig") {
				t.Errorf("got %q, want the remedy", got.Message)
			}
			if there.armed+there.reads > 0 {
				t.Error("nodes were armed without a claim")
			}
		})
	}
}

// afterClaim reconciles a Metal3Cluster of a Cluster that runs again, after one probe of its control plane. It returns
// IronicEndpointReady, and whether the Ironic of the management cluster may take the VIP back.
func afterClaim(t *testing.T, target nodesTarget, there *planes, last *nodesResult) (*metav1.Condition, bool) {
	t.Helper()
	infra := unpaused()
	infra.Annotations[infrav1.MoveEpochAnnotation] = target.epoch.String()
	r, stored := reconciler(infra, interceptor.Funcs{}, kept{})
	ironic := &handovers{handed: map[string]bool{"c1": true}}
	r.Handover, r.Departures = ironic, departure.New(r.Client)
	key := client.ObjectKeyFromObject(infra)
	target.cluster = key
	probedBefore(r, infra, probeNodes(t.Context(), there, events.NewFakeRecorder(10), target, last))
	answered(r, infra)
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	if err := stored.Get(t.Context(), key, infra); err != nil {
		t.Fatal(err)
	}
	return conditions.Get(infra, infrav1.IronicEndpointReadyCondition), !ironic.handed["c1"]
}

// TestHadNodes tests the Machines of a backup, which may have no status.
func TestHadNodes(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		edit   func(*clusterv1.Machine)
		want   bool
	}{
		"New":      {"its host is being provisioned", func(*clusterv1.Machine) {}, false},
		"Joined":   {"its Node has joined", func(machine *clusterv1.Machine) { machine.Status.NodeRef.Name = "node" }, true},
		"NoStatus": {"the provider ID is set with the Node", func(machine *clusterv1.Machine) { machine.Spec.ProviderID = "metal3://a/b/c" }, true},
		"BeforeIts": {"without a bootstrap configuration, the provider ID is set before the Node joins", func(machine *clusterv1.Machine) {
			machine.Spec.ProviderID, machine.Spec.Bootstrap.ConfigRef = "metal3://a/b/c", clusterv1.ContractVersionedObjectReference{}
		}, false},
		"Another": {"it is of another Cluster", func(machine *clusterv1.Machine) {
			machine.Spec.ClusterName, machine.Status.NodeRef.Name = "other", "node"
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			machine := &clusterv1.Machine{}
			machine.Spec.ClusterName = "cluster"
			machine.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{Kind: "KubeadmConfig", Name: "machine"}
			tc.edit(machine)
			s := &scope{cluster: build.Cluster("cluster")}
			s.move.Machines = []*clusterv1.Machine{machine}
			if got := s.hadNodes(); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
}

// TestAPendingClaimNamesWhatItWaitsFor reads the condition before the manager has connected to the workload cluster. The
// ClusterCache does not try to connect before Cluster API has set infrastructureProvisioned.
func TestAPendingClaimNamesWhatItWaitsFor(t *testing.T) {
	for name, tc := range map[string]struct {
		provisioned bool
		says        string
	}{
		"NotTried":       {true, "Waiting for the first probe"},
		"NotProvisioned": {false, "Waiting for Cluster API to set status.initialization.infrastructureProvisioned of Cluster cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			infra := unpaused()
			r, stored := reconciler(infra, interceptor.Funcs{}, kept{})
			cluster := &clusterv1.Cluster{}
			key := client.ObjectKeyFromObject(infra)
			if err := stored.Get(t.Context(), key, cluster); err != nil {
				t.Fatal(err)
			}
			cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(tc.provisioned)
			if err := stored.Update(t.Context(), cluster); err != nil {
				t.Fatal(err)
			}
			probedBefore(r, infra, nodesResult{epoch: 4, isPending: true})
			answered(r, infra)
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			if err := stored.Get(t.Context(), key, infra); err != nil {
				t.Fatal(err)
			}
			got := conditions.Get(infra, infrav1.IronicEndpointReadyCondition)
			if got.Reason != infrav1.NotYetObservedReason || !strings.Contains(got.Message, tc.says) {
				t.Errorf("got %+v, want %q", got, tc.says)
			}
		})
	}
}

// answered sets the result of an earlier probe of the endpoint: the own Ironic answers.
func answered(r *Reconciler, infra *infrav1.Metal3Cluster) {
	target := endpointTarget{Endpoint: ironicapi.Endpoint{URL: "https://[2001:db8::2]:6385/v1/"}}
	seen := endpointResult{Observation: ironicapi.Observation{Answer: pivot.Answers, Conductors: []string{"c1-m"}}}
	r.Endpoints.targets[client.ObjectKeyFromObject(infra)] = &probed[endpointTarget, endpointResult]{
		target: target, result: &seen,
	}
}
