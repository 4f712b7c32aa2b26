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
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// said is what a condition says, without its times.
type said struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

func conditionsOf(machine *infrav1.Metal3Machine) map[string]said {
	found := map[string]said{}
	for _, condition := range machine.Status.Conditions {
		found[condition.Type] = said{condition.Status, condition.Reason, condition.Message}
	}
	return found
}

func reached(condition string, result outcome.Outcome) func(*scope) {
	return func(s *scope) { s.record(condition, result) }
}

func before(conditionType string, status metav1.ConditionStatus, reason, message string) func(*scope) {
	return func(s *scope) {
		conditions.Set(s.machine, metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message})
	}
}

func TestSetStatus(t *testing.T) {
	const associated, data = infrav1.HostAssociatedCondition, infrav1.DataReadyCondition
	const provisioned, linked = infrav1.HostProvisionedCondition, infrav1.NodeLinkedCondition
	running := reached(infrav1.DeletingCondition, outcome.Waiting(infrav1.HostDeprovisioningReason, "Host host is busy"))
	done := outcome.Done()
	cases := map[string]struct {
		reason string
		scope  *scope
		want   map[string]said
	}{
		"Nothing": {
			"a machine that nobody has looked at waits for what comes first", complete(),
			map[string]said{
				"Paused": {"False", "NotPaused", ""}, "Ready": {"False", infrav1.WaitingForMachineReason, ""},
				associated: {"False", infrav1.WaitingForMachineReason, ""}, data: {"False", infrav1.WaitingForHostReason, ""},
				provisioned: {"False", infrav1.WaitingForHostReason, ""},
				linked:      {"False", infrav1.WaitingForHostProvisionedReason, ""},
			},
		},
		"Paused": {
			"a pause changes nothing else",
			complete(func(s *scope) { s.paused = true }, reached(associated, done), before("Ready", "True", "Ready", "")),
			map[string]said{
				"Paused": {"True", "Paused", "The object or its Cluster is paused"}, "Ready": {"True", "Ready", ""},
			},
		},
		"All": {
			"everything is done", complete(onHost(), reached(associated, done), reached(data, done),
				reached(provisioned, done), reached(linked, done)),
			map[string]said{
				"Paused": {"False", "NotPaused", ""}, "Ready": {"True", "Ready", ""},
				associated: {"True", infrav1.HostAssociatedReason, ""}, data: {"True", infrav1.DataExternalReason, ""},
				provisioned: {"True", infrav1.HostProvisionedReason, "Host host is provisioned"},
				linked:      {"True", infrav1.NodeLinkedReason, "The node carries the provider ID"},
			},
		},
		"Troubled": {
			"a host that gets into trouble remains provisioned", complete(onHost(build.Error("no answer")),
				reached(associated, done), reached(data, done), reached(provisioned, done), reached(linked, done)),
			map[string]said{
				"Paused": {"False", "NotPaused", ""}, "Ready": {"True", "Ready", ""},
				associated: {"True", infrav1.HostAssociatedReason, ""}, data: {"True", infrav1.DataExternalReason, ""},
				provisioned: {"True", infrav1.HostErrorReason, "Host host is provisioned; it reports provisioning error: no answer"},
				linked:      {"True", infrav1.NodeLinkedReason, "The node carries the provider ID"},
			},
		},
		"Kept": {
			"a stage that did not run keeps what it said, and so does the story of the claim",
			complete(onHost(), reached(associated, done), before(associated, "True", "Why", "because"),
				before(data, "True", "Old", ""), before(provisioned, "True", "Old", ""), before(linked, "True", "Old", "")),
			map[string]said{
				"Paused": {"False", "NotPaused", ""}, "Ready": {"True", "Ready", ""}, associated: {"True", "Why", "because"},
				data: {"True", "Old", ""}, provisioned: {"True", "Old", ""}, linked: {"True", "Old", ""},
			},
		},
		"Reused": {
			"a new claim tells its own story", complete(onHost(), reached(associated, done),
				before(associated, "True", "Why", "because"), before(data, "False", "Data", "waits"), func(s *scope) {
					s.claimed = host.Choice{Host: s.host, Reused: true, Message: "It was kept"}
				}),
			map[string]said{
				"Paused": {"False", "NotPaused", ""}, "Ready": {"False", "Data", "waits"},
				associated:  {"True", infrav1.HostAssociatedViaNodeReuseReason, "It was kept"},
				data:        {"False", "Data", "waits"},
				provisioned: {"False", infrav1.WaitingForHostReason, ""},
				linked:      {"False", infrav1.WaitingForHostProvisionedReason, ""},
			},
		},
		"Deleting": {
			"a release says how far it got", complete(deleted, onHost(), running, before("Ready", "True", "Ready", "")),
			map[string]said{
				"Paused": {"False", "NotPaused", ""}, "Ready": {"False", "Deleting", "Host host is busy"},
				"Deleting": {"True", infrav1.HostDeprovisioningReason, "Host host is busy"},
			},
		},
		"Released": {
			"and when it is over", complete(deleted, onHost(), reached(infrav1.DeletingCondition, done)),
			map[string]said{
				"Paused": {"False", "NotPaused", ""}, "Ready": {"False", "Deleting", "Host host is released"},
				"Deleting": {"True", infrav1.HostReleasedReason, "Host host is released"},
			},
		},
		"DeletingFails": {
			"a release that failed does not claim to be over", complete(deleted, onHost()),
			map[string]said{
				"Paused": {"False", "NotPaused", ""}, "Ready": {"False", "Deleting", ""},
				"Deleting": {"True", infrav1.DeletingReason, ""},
			},
		},
		"DeletingFailsLater": {
			"nor does it forget how far it was",
			complete(deleted, onHost(), before("Deleting", "True", infrav1.HostErrorReason, "It burns")),
			map[string]said{
				"Paused": {"False", "NotPaused", ""}, "Ready": {"False", "Deleting", "It burns"},
				"Deleting": {"True", infrav1.HostErrorReason, "It burns"},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			setStatus(tc.scope)
			got := conditionsOf(tc.scope.machine)
			if repeated := got[infrav1.DataAssociatedCondition]; repeated != got[data] {
				t.Errorf("it says %+v of the data under their other name, want %+v", repeated, got[data])
			}
			delete(got, infrav1.DataAssociatedCondition)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestDataReadyReason(t *testing.T) {
	s := complete(reached(infrav1.DataReadyCondition, outcome.Done()), func(s *scope) {
		s.machine.Spec.DataTemplate = &infrav1.Metal3ObjectRef{Name: "template"}
	})
	setDataReady(s)
	if got := conditionsOf(s.machine)[infrav1.DataReadyCondition].Reason; got != infrav1.DataReadyReason {
		t.Errorf("got %q, want that data were rendered", got)
	}
}

func TestSetHostStatus(t *testing.T) {
	known := infrav1.Metal3MachineStatus{
		FailureDomain: "old", Addresses: []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "192.0.2.1"}},
	}
	secret := &corev1.SecretReference{Name: "a", Namespace: "b"}
	bootstrap := &corev1.SecretReference{Name: "machine-bootstrap", Namespace: "metal3"}
	equipped := func(s *scope) {
		s.host.Spec.UserData, s.host.Spec.MetaData, s.host.Spec.NetworkData = secret, secret, secret
		s.machine.Spec.UserData = secret
		s.data = &infrav1.Metal3Data{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "metal3"}}
	}
	cases := map[string]struct {
		reason string
		scope  *scope
		want   infrav1.Metal3MachineStatus
	}{
		"NoHost": {"what was known stays: the host may come later than its machine", complete(), known},
		"NotInspected": {"addresses stay until there are others", complete(onHost()), infrav1.Metal3MachineStatus{
			Addresses: known.Addresses, UserData: bootstrap,
		}},
		"OfTheAdministrator": {
			"only Secrets that the machine gives are reported", complete(onHost(), func(s *scope) {
				s.host.Spec.UserData, s.host.Spec.MetaData, s.host.Spec.NetworkData = bootstrap, secret, secret
			}), infrav1.Metal3MachineStatus{Addresses: known.Addresses, UserData: bootstrap},
		},
		"Everything": {
			"all of it", complete(onHost(build.InDomain("new"), build.NIC("eth0", "", "192.0.2.9")), equipped),
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

func TestReleaseThatFailsIsNotOver(t *testing.T) {
	refused := errors.New("refused")
	s := complete(deleted, onHost(build.Provisioned()))
	s.host.Spec.ConsumerRef = &corev1.ObjectReference{
		APIVersion: infrav1.GroupVersion.String(), Kind: host.MachineKind, Namespace: s.machine.Namespace, Name: "machine",
	}
	hosts := &brokenHosts{err: refused}
	if _, err := (&Reconciler{Hosts: hosts}).releaseHost(context.Background(), s); !errors.Is(err, refused) {
		t.Fatalf("got %v, want the error of the write", err)
	}
	if got, recorded := s.reached[infrav1.DeletingCondition]; recorded {
		t.Errorf("the condition would say %+v", got)
	}
	if hosts.forgotten {
		t.Error("the memory of the claim is gone although the host is still held")
	}
}

func TestLinkThatFailsIsNoLink(t *testing.T) {
	refused := errors.New("refused")
	broken := fake.NewClientBuilder().WithScheme(build.Scheme()).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return refused },
	}).Build()
	s := complete(onHost(build.Provisioned()), func(s *scope) { s.machine.Spec.ProviderID = "metal3://a/b/c" })
	if _, err := (&Reconciler{Client: broken}).linkNode(context.Background(), s); !errors.Is(err, refused) {
		t.Fatalf("got %v, want the error of the list", err)
	}
	if got, recorded := s.reached[infrav1.NodeLinkedCondition]; recorded {
		t.Errorf("the condition would say %+v", got)
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
	r := &Reconciler{Client: c, Hosts: busyHosts{}, Recorder: events.NewFakeRecorder(1)}
	result, err := r.Reconcile(context.Background(), requestFor(machine))
	if err != nil || result.RequeueAfter != conflictDelay {
		t.Errorf("got %+v, %v, want to look again after %s", result, err, conflictDelay)
	}
}

// busyHosts is a host of the machine that somebody else keeps changing.
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
