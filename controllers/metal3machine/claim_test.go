package metal3machine

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// noHost are hosts that no machine can claim.
type noHost struct{ Hosts }

func (noHost) Choose(context.Context, host.Wanted) (host.Choice, error) {
	return host.Choice{Message: "2 hosts: 2 claimed"}, nil
}

// TestWaitingMachineCountsAgain expects a requeue, because a change of a host requeues only one machine.
func TestWaitingMachineCountsAgain(t *testing.T) {
	s := complete(func(s *scope) { s.host = nil })
	got, err := (&Reconciler{Hosts: noHost{}}).claimHost(context.Background(), s)
	want := outcome.Waiting(infrav1.NoHostAvailableReason, "2 hosts: 2 claimed").WithAfter(recount)
	if err != nil || got != want || !s.waits {
		t.Errorf("got %+v, %v, waits %t, want %+v", got, err, s.waits, want)
	}
}

// TestARefusedClaimPausesTheMachine expects one claim, and a message that counts all hosts as refused.
func TestARefusedClaimPausesTheMachine(t *testing.T) {
	ctx := context.Background()
	machine := build.Metal3Machine("machine", "cluster")
	claims := 0
	c := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(machine, build.Host("host-0", build.Available()),
		build.Host("host-1", build.Available()), build.Host("host-2", build.Available()), build.Host("busy")).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
				options ...client.PatchOption,
			) error {
				if kind, err := c.GroupVersionKindFor(object); err != nil || kind.Kind != "BareMetalHost" {
					return c.Patch(ctx, object, patch, options...)
				}
				claims++
				return apierrors.NewForbidden(schema.GroupResource{Group: "metal3.io", Resource: "baremetalhosts"},
					object.GetName(), errors.New("denied by a policy"))
			},
		}).Build()
	r := &Reconciler{Reporter: flow.Reporter{Client: c}, Hosts: hoststore.New(c, c), Clock: clock.RealClock{}}
	want := outcome.Waiting(infrav1.AssociationFailedReason, "4 hosts: 3 refused by the API server "+
		"(baremetalhosts.metal3.io is forbidden: denied by a policy), 1 not available yet")
	pass := (&flow.Reporter{Client: c}).Begin(machine, nil)
	s := complete(func(s *scope) { s.machine, s.pass = machine, pass })
	got, err := r.claimHost(ctx, s)
	if got.After <= 0 || got.After > time.Second {
		t.Errorf("got %s until the next claim, want a second", got.After)
	}
	if got.After = 0; err != nil || got != want || !s.waits || claims != 1 {
		t.Errorf("got %+v, %v, waits %t, %d claims, want %+v", got, err, s.waits, claims, want)
	}
	if host.Recorded(s.machine) != "" || host.NamedByUser(s.machine) != "" {
		t.Errorf("annotations %v", s.machine.Annotations)
	}
}

// countedHosts counts the calls of Write.
type countedHosts struct {
	Hosts
	writes int
}

func (c *countedHosts) Write(ctx context.Context, current, desired *bmov1alpha1.BareMetalHost,
) (*bmov1alpha1.BareMetalHost, error) {
	c.writes++
	return c.Hosts.Write(ctx, current, desired)
}

// TestAClaimWithTheImageIsComplete expects that no later stage of the reconcile compares the host again.
func TestAClaimWithTheImageIsComplete(t *testing.T) {
	ctx := context.Background()
	machine := build.Metal3Machine("machine", "cluster")
	c := fake.NewClientBuilder().WithScheme(build.Scheme()).
		WithObjects(machine, build.Host("host", build.Available())).Build()
	hosts := &countedHosts{Hosts: hoststore.New(c, c)}
	r := &Reconciler{Reporter: flow.Reporter{Client: c}, Hosts: hosts, Clock: clock.RealClock{}}
	pass := (&flow.Reporter{Client: c}).Begin(machine, nil)
	s := complete(func(s *scope) { s.machine, s.pass = machine, pass })
	if got, err := r.claimHost(ctx, s); err != nil || !got.IsDone() || hosts.writes != 1 {
		t.Fatalf("claimHost: got %+v, %v, %d writes, want one claim", got, err, hosts.writes)
	}
	got, err := r.provisionHost(ctx, s)
	if err != nil || got.Reason != infrav1.HostProvisioningReason || !host.IsImaged(s.host) || hosts.writes != 1 {
		t.Errorf("provisionHost: got %+v, %v, %d writes, want a host with the image of the claim", got, err, hosts.writes)
	}
}

// TestGuardedOwnersOfAHostWithoutImage refuses to remove the ownerReferences of a host that CAPM3 claimed.
func TestGuardedOwnersOfAHostWithoutImage(t *testing.T) {
	ctx := context.Background()
	machine := build.Metal3Machine("machine", "cluster")
	claimed := build.Host("host", build.Available(), build.Consumed(machine), build.OwnedBy(machine),
		build.Annotations(map[string]string{infrav1.BlockMoveAnnotation: ""}))
	refused := 0
	c := guardingOwners(&refused, claimed)
	r := &Reconciler{Reporter: flow.Reporter{Client: c}, Hosts: hoststore.New(c, c)}
	s, stored := complete(onHost()), &bmov1alpha1.BareMetalHost{}
	err := c.Get(ctx, client.ObjectKeyFromObject(claimed), s.host)
	if got, claimErr := r.claimHost(ctx, s); errors.Join(err, claimErr) != nil || !got.IsDone() {
		t.Errorf("claimHost: got %+v, %v, want an associated host", got, errors.Join(err, claimErr))
	}
	got, err := r.provisionHost(ctx, s)
	if err != nil || got.Reason != infrav1.HostProvisioningReason || got.After != refusalDelay ||
		!strings.Contains(got.Message, "the permission to delete BareMetalHosts") {
		t.Errorf("provisionHost: got %+v, %v, want a message with the permission", got, err)
	}
	err = c.Get(ctx, client.ObjectKeyFromObject(claimed), stored)
	_, blocked := stored.Annotations[infrav1.BlockMoveAnnotation]
	if stored.Spec.Image == nil || len(stored.OwnerReferences) != 1 || blocked || refused != 1 {
		t.Errorf("image %v, owners %v, block-move %t, %d refused writes, %v", stored.Spec.Image, stored.OwnerReferences,
			blocked, refused, err)
	}
}

// guardingOwners returns a client that counts and refuses patches of ownerReferences.
func guardingOwners(refused *int, objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
				options ...client.PatchOption,
			) error {
				if data, err := patch.Data(object); err != nil || strings.Contains(string(data), "ownerReferences") {
					*refused++
					return apierrors.NewForbidden(schema.GroupResource{Group: "metal3.io", Resource: "baremetalhosts"},
						object.GetName(), errors.New("cannot set an ownerRef"))
				}
				return c.Patch(ctx, object, patch, options...)
			},
		}).Build()
}

// TestRecordHost expects that only a host that the user named stays named by the user.
func TestRecordHost(t *testing.T) {
	const ours, named, chosen = infrav1.ReleaseAnnotation, infrav1.HostAnnotation, infrav1.ChosenHostAnnotation
	both := map[string]string{named: "metal3/host", chosen: "host"}
	one := map[string]string{named: "metal3/host"}
	cases := map[string]struct {
		reason     string
		recorded   map[string]string
		claim      string
		providerID string
		want       map[string]string
	}{
		"Chosen":           {"the claim recorded it", both, ours, "", both},
		"Named":            {"the user named the host before the claim", one, ours, "", one},
		"CAPM3":            {"CAPM3 chose it: its claim leaves no record", one, "", "", both},
		"CAPM3Provisioned": {"a provisioned machine claims no other host", one, "", "metal3://metal3/host/machine", one},
		"Removed":          {"another client removed the annotations", nil, ours, "", both},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := complete(onHost(build.Annotations(map[string]string{tc.claim: "{}"})), func(s *scope) {
				s.machine.Annotations, s.machine.Spec.ProviderID = maps.Clone(tc.recorded), tc.providerID
			})
			if _, err := (&Reconciler{}).recordHost(context.Background(), s); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, s.machine.Annotations); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}
