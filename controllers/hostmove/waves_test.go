package hostmove_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/hostmove"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// crowd is a namespace with many hosts of two clusters, each of which has an Ironic endpoint of its own.
type crowd struct {
	hosts   []*bmov1alpha1.BareMetalHost
	written []string

	// reads counts how often all hosts were read.
	reads int
}

func (c *crowd) Hosts(context.Context, string) ([]*bmov1alpha1.BareMetalHost, error) {
	c.reads++
	return c.hosts, nil
}

func (c *crowd) Neighbours(context.Context, string) ([]pivot.Neighbour, error) {
	held := func(name string) pivot.Neighbour {
		return pivot.Neighbour{Name: name, Verified: true, Endpoint: true, Holder: &infrav1.IronicHolder{
			Kind: infrav1.HolderControlPlane, Name: "node-of-" + name,
		}}
	}
	return []pivot.Neighbour{held("a"), held("b")}, nil
}

func (c *crowd) Tenant(context.Context, *bmov1alpha1.BareMetalHost) (hostmove.Tenant, error) {
	return hostmove.Tenant{Joined: true}, nil
}

func (c *crowd) Write(_ context.Context, _, desired *bmov1alpha1.BareMetalHost) (*bmov1alpha1.BareMetalHost, error) {
	c.written = append(c.written, desired.Name)
	return desired, nil
}

// TestTurnsOfTwoEndpoints reconciles hosts of two clusters in turn. Neither cluster restarts the waves of the other one.
func TestTurnsOfTwoEndpoints(t *testing.T) {
	all := &crowd{}
	for i := range 150 {
		cluster := string("ab"[i%2])
		all.hosts = append(all.hosts, build.Host(fmt.Sprintf("host-%03d", i), build.Provisioned(),
			build.Consumed(build.Metal3Machine("machine", cluster)),
			build.Labels(map[string]string{clusterv1.ClusterNameLabel: cluster})))
	}
	objects := make([]client.Object, 0, len(all.hosts))
	for _, host := range all.hosts {
		objects = append(objects, host)
	}
	clock := clocktesting.NewFakePassiveClock(time.Now())
	reconciler := &hostmove.Reconciler{
		Client: fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(objects...).Build(), Clock: clock,
		Recorder: events.NewFakeRecorder(1000), Hosts: all,
	}
	wait := func(host *bmov1alpha1.BareMetalHost) time.Duration {
		result, err := reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(host)})
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	}
	ofA, ofB := all.hosts[140], all.hosts[141]
	delay := pivot.WaveDelay(140)
	if got := []time.Duration{wait(ofA), wait(ofB)}; got[0] != delay || got[1] != delay || delay == 0 {
		t.Fatalf("they wait %v, want %s each", got, delay)
	}
	clock.SetTime(clock.Now().Add(delay))
	if got := []time.Duration{wait(ofA), wait(ofB), wait(ofA)}; got[0]+got[1]+got[2] != 0 || len(all.written) != 3 {
		t.Errorf("it is their turn, and they wait %v; %q were told", got, all.written)
	}
	for _, host := range all.hosts {
		wait(host)
	}
	if all.reads > 2 {
		t.Errorf("%d hosts were read %d times, want once for each holder", len(all.hosts), all.reads)
	}
}

// TestHostsAreReadWithoutCopy reconciles a host that requires no step, as after most events.
func TestHostsAreReadWithoutCopy(t *testing.T) {
	host := build.Host("host", build.Available())
	stored, copies := stage.CountCopies(host)
	reconciler := &hostmove.Reconciler{
		Client: stored, Clock: clocktesting.NewFakePassiveClock(time.Now()), Recorder: events.NewFakeRecorder(1),
		Hosts: &crowd{},
	}
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(host)}
	if _, err := reconciler.Reconcile(t.Context(), request); err != nil || *copies != 0 {
		t.Errorf("the host was copied %d times: %v", *copies, err)
	}
}
