package hostmove_test

import (
	"context"
	"errors"
	"slices"
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
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/hostmove"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// credentials are Secrets of BMCs.
type credentials struct {
	marked []string
	err    error
}

func (c *credentials) Mark(_ context.Context, host *bmov1alpha1.BareMetalHost) error {
	if c.err == nil {
		c.marked = append(c.marked, host.Annotations[infrav1.IronicHolderAnnotation])
	}
	return c.err
}

// lost is a host that was nudged, with the controller under test.
type lost struct {
	*hostmove.Reconciler
	host     *bmov1alpha1.BareMetalHost
	clock    *clocktesting.FakePassiveClock
	secrets  *credentials
	recorder *events.FakeRecorder
	all      *crowd
}

func newLost(host *bmov1alpha1.BareMetalHost) *lost {
	l := &lost{
		host: host, clock: clocktesting.NewFakePassiveClock(time.Now()), secrets: &credentials{},
		recorder: events.NewFakeRecorder(10), all: &crowd{hosts: []*bmov1alpha1.BareMetalHost{host}},
	}
	l.Reconciler = &hostmove.Reconciler{
		Client: fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(host).Build(), Clock: l.clock,
		Recorder: l.recorder, Hosts: l.all, Credentials: l.secrets,
	}
	return l
}

func (l *lost) reconcile(t *testing.T) (time.Duration, error) {
	t.Helper()
	result, err := l.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(l.host)})
	return result.RequeueAfter, err
}

// rests reconciles as if by events, and demands that nothing comes of it.
func (l *lost) rests(t *testing.T) {
	t.Helper()
	for range 3 {
		if wait, err := l.reconcile(t); err != nil || wait > 0 {
			t.Errorf("afterwards: waits %s, %v", wait, err)
		}
	}
}

// save does what BMO does when it saves another ID.
func (l *lost) save(t *testing.T) {
	t.Helper()
	l.host.Status.Provisioning.ID = "saved"
	if err := l.Client.Update(t.Context(), l.host); err != nil {
		t.Fatal(err)
	}
	if _, err := l.reconcile(t); err != nil {
		t.Fatal(err)
	}
}

func nudgedHost(last string) *bmov1alpha1.BareMetalHost {
	host := build.Host("host", build.Provisioned(), build.Consumed(build.Metal3Machine("machine", "a")),
		build.Labels(map[string]string{clusterv1.ClusterNameLabel: "a"}))
	host.Status.Provisioning.ID = "id"
	host.Annotations = map[string]string{infrav1.IronicHolderAnnotation: holderOfA}
	if last != "" {
		host.Annotations[infrav1.LastRegistrationAnnotation] = last
	}
	return host
}

const holderOfA = "ControlPlane/node-of-a"

// TestLostRegistration gives BMO five minutes to save the registration of a host with the Ironic that answers.
func TestLostRegistration(t *testing.T) {
	l := newLost(nudgedHost("id"))
	if wait, err := l.reconcile(t); err != nil || wait != 5*time.Minute || len(l.secrets.marked) > 0 {
		t.Fatalf("BMO is not given its time: waits %s, %v, marked %q", wait, err, l.secrets.marked)
	}
	l.clock.SetTime(l.clock.Now().Add(5 * time.Minute))
	l.secrets.err = errors.New("refused")
	if _, err := l.reconcile(t); !errors.Is(err, l.secrets.err) {
		t.Errorf("got %v, so it is not repeated", err)
	}
	l.secrets.err = nil
	l.rests(t)
	if !slices.Equal(l.secrets.marked, []string{holderOfA}) || len(l.recorder.Events) != 1 || len(l.all.written) > 0 {
		t.Errorf("marked %q with %d events, and wrote hosts %q", l.secrets.marked, len(l.recorder.Events), l.all.written)
	}
	l.save(t)
	if len(l.all.written) != 1 || l.all.last.Annotations[infrav1.LastRegistrationAnnotation] != "" {
		t.Errorf("hosts %q were written after BMO has saved it, so that BMO looks again", l.all.written)
	}
}

// TestNoLostRegistration leaves the Secrets of other hosts as they are.
func TestNoLostRegistration(t *testing.T) {
	paused := nudgedHost("id")
	paused.Annotations[bmov1alpha1.PausedAnnotation] = "somebody"
	for name, tc := range map[string]struct {
		reason string
		host   *bmov1alpha1.BareMetalHost
	}{
		"Saved":  {"the other Ironic gave it an ID", nudgedHost("before")},
		"First":  {"the host was never nudged", nudgedHost("")},
		"Paused": {"BMO may not look at it", paused},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLost(tc.host)
			if _, err := l.reconcile(t); err != nil {
				t.Fatal(err)
			}
			l.clock.SetTime(l.clock.Now().Add(time.Hour))
			l.rests(t)
			l.save(t)
			if len(l.secrets.marked)+len(l.recorder.Events)+len(l.all.written) > 0 {
				t.Errorf("%s: marked %q, wrote hosts %q", tc.reason, l.secrets.marked, l.all.written)
			}
		})
	}
}

// TestNextHolder records the ID of the Ironic before.
func TestNextHolder(t *testing.T) {
	host := nudgedHost("before")
	host.Annotations[infrav1.IronicHolderAnnotation] = "ControlPlane/another"
	l := newLost(host)
	if _, err := l.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if got := l.all.last.Annotations[infrav1.LastRegistrationAnnotation]; got != "id" {
		t.Errorf("the Nudge records the ID %q", got)
	}
}
