package metal3cluster

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// onNetwork sets an endpoint on the network of the tests. Router ID 0 means none.
func onNetwork(clusterID, address string, routerID int32) func(*infrav1.Metal3Cluster) {
	return func(infra *infrav1.Metal3Cluster) {
		infra.Spec.Ironic = &infrav1.Ironic{
			ClusterID: clusterID,
			Endpoint:  infrav1.IronicEndpoint{VirtualIPs: []string{address}, CIDRs: []string{"2001:db8::/64"}, Interface: "eth0"},
			VRRP:      infrav1.VRRP{VirtualRouterID: routerID},
		}
	}
}

// neighbour returns a Metal3Cluster of another namespace on the network.
func neighbour(clusterID, address string, routerID int32) *infrav1.Metal3Cluster {
	infra := build.Metal3Cluster("neighbour", build.InNamespace("elsewhere"))
	onNetwork(clusterID, address, routerID)(infra)
	return infra
}

// reconcileOnce reconciles a Metal3Cluster among others. It returns the stored object and the events.
func reconcileOnce(
	t *testing.T, infra *infrav1.Metal3Cluster, funcs interceptor.Funcs, others ...client.Object,
) (*infrav1.Metal3Cluster, []string, error) {
	t.Helper()
	r, stored := reconciler(infra, funcs, kept{})
	for _, other := range others {
		if err := stored.Create(context.Background(), other); err != nil {
			t.Fatal(err)
		}
	}
	recorder := events.NewFakeRecorder(10)
	r.Recorder = recorder
	key := client.ObjectKeyFromObject(infra)
	_, failure := r.Reconcile(context.Background(), ctrl.Request{NamespacedName: key})
	after := &infrav1.Metal3Cluster{}
	if err := stored.Get(context.Background(), key, after); err != nil {
		t.Fatal(err)
	}
	close(recorder.Events)
	var emitted []string
	for event := range recorder.Events {
		emitted = append(emitted, event)
	}
	return after, emitted, failure
}

func TestTheRouterIDIsChosenOnce(t *testing.T) {
	alone := int32(vip.Group{ClusterID: "c1"}.ID())
	other := func() client.Object { return neighbour("c2", "2001:db8::3", alone) }
	node := func() client.Object { return build.ControlPlaneMachine("cp-0", "cluster") }
	cases := map[string]struct {
		reason  string
		given   int32
		others  []func() client.Object
		want    int32
		emitted bool
	}{
		"Alone":     {"the default of the clusterID", 0, nil, alone, false},
		"Contested": {"a new cluster chooses another ID", 0, []func() client.Object{other}, alone + 1, true},
		"TooLate":   {"nodes use the ID already", 0, []func() client.Object{other, node}, alone, false},
		"Given":     {"the user set the ID", alone, []func() client.Object{other}, alone, false},
		"Another":   {"no other Metal3Cluster exists", 9, nil, 9, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			infra := build.Metal3Cluster("cluster")
			onNetwork("c1", "2001:db8::2", tc.given)(infra)
			var others []client.Object
			for _, other := range tc.others {
				others = append(others, other())
			}
			after, emitted, err := reconcileOnce(t, infra, interceptor.Funcs{}, others...)
			if err != nil || after.Spec.Ironic.VRRP.VirtualRouterID != tc.want {
				t.Errorf("%s: got %d, %v, want %d", tc.reason, after.Spec.Ironic.VRRP.VirtualRouterID, err, tc.want)
			}
			if chose := strings.Contains(strings.Join(emitted, "\n"), routerIDChosen); chose != tc.emitted {
				t.Errorf("%s: events are %q", tc.reason, emitted)
			}
		})
	}
}

// TestTheRouterIDIsStoredFirst expects no Secret, and so no node, before the ID is stored.
func TestTheRouterIDIsStoredFirst(t *testing.T) {
	infra := build.Metal3Cluster("cluster")
	onNetwork("c1", "2001:db8::2", 0)(infra)
	r, stored := reconciler(infra, interceptor.Funcs{}, nil)
	r.Secrets = ensuring(func(ctx context.Context) error {
		found := &infrav1.Metal3Cluster{}
		if err := stored.Get(ctx, client.ObjectKeyFromObject(infra), found); err != nil {
			return err
		}
		if found.Spec.Ironic.VRRP.VirtualRouterID == 0 {
			return errors.New("nothing is stored")
		}
		return nil
	})
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(infra)}
	if _, err := r.Reconcile(context.Background(), request); err != nil {
		t.Error(err)
	}
}

// ensuring implements Secrets.
type ensuring func(ctx context.Context) error

func (e ensuring) Ensure(
	ctx context.Context, _ *infrav1.Metal3Cluster, _ string, _ []*bmov1alpha1.BareMetalHost,
) (secrets.Material, outcome.Outcome, error) {
	return secrets.Material{}, outcome.Done(), e(ctx)
}

func (e ensuring) Find(
	ctx context.Context, _ *infrav1.Metal3Cluster, _ string,
) (secrets.Material, outcome.Outcome, error) {
	return secrets.Material{}, outcome.Done(), e(ctx)
}

func TestConflictsAreReported(t *testing.T) {
	const unique, taken, routed = infrav1.EndpointUniqueReason, infrav1.VirtualIPTakenReason, infrav1.VirtualRouterIDTakenReason
	ofCluster := build.Labels(map[string]string{clusterv1.ClusterNameLabel: "cluster"})
	machine := func(cluster string) client.Object {
		made := build.Metal3Machine("m", cluster)
		made.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster}
		made.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "2001:db8::2"}}
		return made
	}
	host := func(options ...build.HostOption) client.Object {
		return build.Host("h", append(options, build.NIC("eth0", "02:00:00:00:00:01", "2001:db8::2"))...)
	}
	claimed := build.Consumed(build.Metal3Machine("m", "cluster"))
	cases := map[string]struct {
		reason string
		change func(*infrav1.Metal3Cluster)
		other  client.Object
		want   string
		says   string
	}{
		"NoConflict":   {"there is no conflict", nil, build.Metal3Cluster("neighbour"), unique, ""},
		"Router":       {"namespaces share networks", nil, neighbour("c2", "2001:db8::3", 50), routed, "elsewhere/neighbour"},
		"Address":      {"both conflicts are reported", nil, neighbour("c2", "2001:db8::2", 50), taken, "virtual router ID 50"},
		"Shared":       {"clusters may share an endpoint", nil, neighbour("c1", "2001:db8::2", 50), unique, ""},
		"Machine":      {"the address of a node", nil, machine("cluster"), taken, "Metal3Machine m has"},
		"OtherMachine": {"of a cluster that may be on another network", nil, machine("other"), unique, ""},
		"Host":         {"a DHCP server may assign the VIP", nil, host(ofCluster, claimed), taken, "Host h had"},
		"FreeHost":     {"it will get other addresses", nil, host(), unique, ""},
		"OwnAPIServer": {"it would move with Ironic", func(infra *infrav1.Metal3Cluster) {
			infra.Spec.ControlPlaneEndpoint.Host = "2001:db8::2"
		}, build.Metal3Cluster("neighbour"), taken, "The API server of Metal3Cluster metal3/cluster"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			infra := build.Metal3Cluster("cluster")
			onNetwork("c1", "2001:db8::2", 50)(infra)
			if tc.change != nil {
				tc.change(infra)
			}
			after, emitted, err := reconcileOnce(t, infra, interceptor.Funcs{}, tc.other)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(tc.reason)
			isReported(t, after, tc.want, tc.says)
			if warned := strings.Contains(strings.Join(emitted, "\n"), "Warning "+tc.want); warned != (tc.want != unique) {
				t.Errorf("events are %q", emitted)
			}
		})
	}
}

// isReported expects a reason and a text in the condition, and an obstacle to a move. The cluster stays ready.
func isReported(t *testing.T, infra *infrav1.Metal3Cluster, reason, says string) {
	t.Helper()
	got := conditions.Get(infra, infrav1.IronicEndpointUniqueCondition)
	if got == nil || got.Reason != reason || !strings.Contains(got.Message, says) ||
		(got.Status == metav1.ConditionTrue) != (reason == infrav1.EndpointUniqueReason) {
		t.Errorf("the condition is %+v, want %s with %q", got, reason, says)
	}
	if move := conditions.GetMessage(infra, infrav1.ReadyForMoveCondition); !strings.Contains(move, says) {
		t.Errorf("the condition for the move does not report the conflict: %q", move)
	}
	if !conditions.IsTrue(infra, infrav1.ReadyCondition) ||
		conditions.GetReason(infra, infrav1.IronicEndpointReadyCondition) != infrav1.NotYetObservedReason {
		t.Error("a conflict keeps the cluster from being ready, or its endpoint from being probed")
	}
}

// TestFailedReadsReportNoConflict fails each read that conflicts depend on.
func TestFailedReadsReportNoConflict(t *testing.T) {
	reads := map[string]func(client.ObjectList, client.ListOptions) bool{
		"Metal3Clusters of all namespaces": func(list client.ObjectList, options client.ListOptions) bool {
			_, is := list.(*infrav1.Metal3ClusterList)
			return is && options.Namespace == ""
		},
		"Metal3Machines": func(list client.ObjectList, _ client.ListOptions) bool {
			_, is := list.(*infrav1.Metal3MachineList)
			return is
		},
		"Hosts": func(list client.ObjectList, _ client.ListOptions) bool {
			_, is := list.(*bmov1alpha1.BareMetalHostList)
			return is
		},
	}
	for name, fails := range reads {
		for _, was := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse} {
			infra := build.Metal3Cluster("cluster")
			onNetwork("c1", "2001:db8::2", 0)(infra)
			conditions.Set(infra, metav1.Condition{Type: infrav1.IronicEndpointUniqueCondition, Status: was, Reason: "Before"})
			before := infra.DeepCopy()
			after, emitted, err := reconcileOnce(t, infra, interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					if fails(list, *(&client.ListOptions{}).ApplyOptions(options)) {
						return errAway
					}
					return c.List(ctx, list, options...)
				},
			}, neighbour("c2", "2001:db8::2", 50))
			if !errors.Is(err, errAway) {
				t.Errorf("%s: got %v, want the error of the read", name, err)
			}
			if conditions.GetReason(after, infrav1.ReadyCondition) != infrav1.ReadFailedReason || len(emitted) != 1 {
				t.Errorf("%s: events are %q, and the conditions %v, want the failed read in both", name, emitted, after.Status.Conditions)
			}
			conditions.Delete(after, infrav1.ReadyCondition)
			if diff := cmp.Diff(before.Status.Conditions, after.Status.Conditions); diff != "" {
				t.Errorf("%s: conditions besides Ready: -want +got:\n%s", name, diff)
			}
			if id := after.Spec.Ironic.VRRP.VirtualRouterID; id != 0 {
				t.Errorf("%s: router ID %d was chosen after a failed read", name, id)
			}
		}
	}
}

func TestConflictsEndWithTheEndpoint(t *testing.T) {
	infra := build.Metal3Cluster("cluster")
	conditions.Set(infra, metav1.Condition{
		Type: infrav1.IronicEndpointUniqueCondition, Status: metav1.ConditionFalse, Reason: infrav1.VirtualIPTakenReason,
	})
	after, _, err := reconcileOnce(t, infra, interceptor.Funcs{})
	if err != nil || conditions.Has(after, infrav1.IronicEndpointUniqueCondition) {
		t.Errorf("the condition stays without an endpoint, %v", err)
	}
}
