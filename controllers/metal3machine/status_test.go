package metal3machine

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// conditionView is a condition without its transition time.
type conditionView struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

func conditionsOf(machine *infrav1.Metal3Machine) map[string]conditionView {
	found := map[string]conditionView{}
	for _, condition := range machine.Status.Conditions {
		found[condition.Type] = conditionView{condition.Status, condition.Reason, condition.Message}
	}
	return found
}

func TestDone(t *testing.T) {
	template := func(s *scope) { s.machine.Spec.DataTemplate = &infrav1.Metal3ObjectRef{Name: "template"} }
	reused := func(s *scope) { s.claimed = host.Choice{Host: s.host, Reused: true} }
	wasReused := func(s *scope) {
		conditions.Set(s.machine, metav1.Condition{
			Type: infrav1.HostAssociatedCondition, Status: metav1.ConditionTrue, Reason: infrav1.HostAssociatedViaNodeReuseReason,
		})
	}
	domain := func(s *scope) { s.machine.Spec.FailureDomain = "a" }
	cases := map[string]struct {
		reason    string
		condition condition
		scope     *scope
		want      flow.Reached
	}{
		"Associated": {
			"the message contains the host", associated, complete(onHost()),
			flow.Reached{Reason: infrav1.HostAssociatedReason, Message: "Associated BareMetalHost host"},
		},
		"InDomain": {
			"the message contains the failure domain", associated, complete(onHost(build.InDomain("a")), domain),
			flow.Reached{Reason: infrav1.HostAssociatedReason, Message: "Associated BareMetalHost host in failure domain a"},
		},
		"OtherDomain": {
			"the message contains a missed failure domain", associated, complete(onHost(build.InDomain("b")), domain),
			flow.Reached{
				Reason: infrav1.HostAssociatedReason, Message: "Associated BareMetalHost host, which is not in failure domain a",
			},
		},
		"Reused": {
			"the host was reserved", associated, complete(onHost(), reused),
			flow.Reached{Reason: infrav1.HostAssociatedViaNodeReuseReason, Message: "Associated BareMetalHost host"},
		},
		"WasReused": {
			"the reason stays", associated, complete(onHost(), wasReused),
			flow.Reached{Reason: infrav1.HostAssociatedViaNodeReuseReason, Message: "Associated BareMetalHost host"},
		},
		"Data":     {"rendered data", dataReady, complete(template), flow.Reached{Reason: infrav1.DataReadyReason}},
		"External": {"no template", dataReady, complete(), flow.Reached{Reason: infrav1.DataExternalReason}},
		"Provisioned": {
			"a provisioned host", provisioned, complete(onHost(build.Provisioned())),
			flow.Reached{Reason: infrav1.HostProvisionedReason, Message: "BareMetalHost host is provisioned"},
		},
		"Troubled": {
			"a host with an error remains provisioned", provisioned, complete(onHost(build.Error("no answer"))),
			flow.Reached{
				Reason: infrav1.HostErrorReason, Message: "BareMetalHost host is provisioned; it reports provisioning error: no answer",
			},
		},
		"OwnersRefused": {
			"a host with ownerReferences that must stay remains provisioned", provisioned,
			complete(onHost(build.Provisioned()), func(s *scope) { s.ownersRefused = errors.New("no permission") }),
			flow.Reached{
				Reason: infrav1.ProvisioningFailedReason, Message: "BareMetalHost host is provisioned; no permission",
			},
		},
		"Linked": {
			"the Node", linked, complete(), flow.Reached{Reason: infrav1.NodeLinkedReason, Message: "The Node has the provider ID"},
		},
		"Released": {
			"the message contains the host", deleting, complete(deleted, onHost()),
			flow.Reached{Reason: infrav1.HostReleasedReason, Message: "Released BareMetalHost host"},
		},
		"ReleasedNothing": {"no host", deleting, complete(deleted), flow.Reached{Reason: infrav1.HostReleasedReason}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.condition.Done(tc.scope)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestDataConditionIsRepeated(t *testing.T) {
	s := complete()
	want := metav1.Condition{Type: infrav1.DataReadyCondition, Status: metav1.ConditionFalse, Reason: "Why", Message: "because"}
	conditions.Set(s.machine, want)
	setStatus(s, nil)
	got := conditionsOf(s.machine)
	if got[infrav1.DataAssociatedCondition] != got[infrav1.DataReadyCondition] {
		t.Errorf("got %+v, want %+v", got[infrav1.DataAssociatedCondition], want)
	}
}

func TestSetHostStatus(t *testing.T) {
	known := infrav1.Metal3MachineStatus{
		FailureDomain: "old", Addresses: []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "192.0.2.1"}},
	}
	secret := &corev1.SecretReference{Name: "a", Namespace: "b"}
	bootstrap := &corev1.SecretReference{Name: "machine-bootstrap", Namespace: "metal3"}
	injected := func(s *scope) {
		s.host.Spec.UserData, s.host.Spec.MetaData, s.host.Spec.NetworkData = secret, secret, secret
		s.machine.Spec.UserData = secret
		s.data = &infrav1.Metal3Data{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "metal3"}}
	}
	cases := map[string]struct {
		reason string
		scope  *scope
		want   infrav1.Metal3MachineStatus
	}{
		"NoHost": {"clusterctl move may create the host after the machine", complete(), known},
		"NotInspected": {"the host has no addresses yet", complete(onHost()), infrav1.Metal3MachineStatus{
			Addresses: known.Addresses, UserData: bootstrap,
		}},
		"OfTheAdministrator": {
			"the status omits Secrets of the administrator", complete(onHost(), func(s *scope) {
				s.host.Spec.UserData, s.host.Spec.MetaData, s.host.Spec.NetworkData = bootstrap, secret, secret
			}), infrav1.Metal3MachineStatus{Addresses: known.Addresses, UserData: bootstrap},
		},
		"Everything": {
			"all of it", complete(onHost(build.InDomain("new"), build.NIC("eth0", "", "192.0.2.9")), injected),
			infrav1.Metal3MachineStatus{
				FailureDomain: "new", UserData: secret, MetaData: secret, NetworkData: secret,
				RenderedData: &infrav1.Metal3ObjectRef{Name: "data", Namespace: "metal3"},
				Addresses: []clusterv1.MachineAddress{
					{Type: clusterv1.MachineInternalIP, Address: "192.0.2.9"},
					{Type: clusterv1.MachineHostName, Address: "host"}, {Type: clusterv1.MachineInternalDNS, Address: "host"},
				},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.scope.machine.Status = *known.DeepCopy()
			setHostStatus(tc.scope)
			if diff := cmp.Diff(tc.want, tc.scope.machine.Status); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestAFailedReleaseKeepsTheMemory(t *testing.T) {
	refused := errors.New("refused")
	s := complete(deleted, onHost(build.Provisioned()))
	s.host.Spec.ConsumerRef = &corev1.ObjectReference{
		APIVersion: infrav1.GroupVersion.String(), Kind: host.MachineKind, Namespace: s.machine.Namespace, Name: "machine",
	}
	hosts := &brokenHosts{err: refused}
	if _, err := (&Reconciler{Hosts: hosts}).releaseHost(context.Background(), s); !errors.Is(err, refused) {
		t.Fatalf("got %v, want the error of the write", err)
	}
	if hosts.forgotten {
		t.Error("the store forgot the claim before the release")
	}
}

func TestLinkReturnsTheError(t *testing.T) {
	refused := errors.New("refused")
	broken := fake.NewClientBuilder().WithScheme(build.Scheme()).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return refused },
	}).Build()
	s := complete(onHost(build.Provisioned()), func(s *scope) { s.machine.Spec.ProviderID = "metal3://a/b/c" })
	if _, err := (&Reconciler{Reporter: flow.Reporter{Client: broken}}).linkNode(context.Background(), s); !errors.Is(err, refused) {
		t.Fatalf("got %v, want the error of the list", err)
	}
}

// brokenHosts fails every write.
type brokenHosts struct {
	Hosts
	err       error
	forgotten bool
}

func (b *brokenHosts) Write(
	context.Context, *bmov1alpha1.BareMetalHost, *bmov1alpha1.BareMetalHost,
) (*bmov1alpha1.BareMetalHost, error) {
	return nil, b.err
}

func (b *brokenHosts) Forget(types.NamespacedName) { b.forgotten = true }

func TestConflictDelaysAndIsNoError(t *testing.T) {
	machine := build.Metal3Machine("machine", "cluster", build.Finalizers(infrav1.MachineFinalizer))
	now := metav1.Unix(1_700_000_000, 0)
	machine.DeletionTimestamp = &now
	c := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(machine).WithStatusSubresource(machine).Build()
	r := &Reconciler{Reporter: flow.Reporter{Client: c, Recorder: events.NewFakeRecorder(1)}, Hosts: busyHosts{}}
	result, err := r.Reconcile(context.Background(), requestFor(machine))
	if err != nil || result.RequeueAfter != flow.ConflictDelay {
		t.Errorf("got %+v, %v, want a requeue after %s", result, err, flow.ConflictDelay)
	}
}

// busyHosts fails every write with a conflict.
type busyHosts struct{ Hosts }

func (busyHosts) Holdings(_ context.Context, machine types.NamespacedName, _ string) (hoststore.Holdings, error) {
	held := build.Host("host", build.Provisioned())
	held.Spec.ConsumerRef = &corev1.ObjectReference{
		APIVersion: infrav1.GroupVersion.String(), Kind: host.MachineKind, Namespace: machine.Namespace, Name: machine.Name,
	}
	return hoststore.Holdings{Host: held}, nil
}

func (busyHosts) Write(
	context.Context, *bmov1alpha1.BareMetalHost, *bmov1alpha1.BareMetalHost,
) (*bmov1alpha1.BareMetalHost, error) {
	return nil, hoststore.ErrConflict
}

func (busyHosts) Settle(context.Context, types.NamespacedName, bool) {}
