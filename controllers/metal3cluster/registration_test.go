package metal3cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// registering is a reconciler beside a host whose node in Ironic has another ID.
type registering struct {
	*Reconciler
	stored client.Client
	scope  *scope
	host   *bmov1alpha1.BareMetalHost
	clock  *clocktesting.FakePassiveClock
	events chan string
	// refused is the error of all patches of a kind.
	refused map[string]error
}

func newRegistering(t *testing.T, edits ...func(*bmov1alpha1.BareMetalHost)) *registering {
	t.Helper()
	host := build.Host("host", build.Provisioned(), build.Labels(map[string]string{clusterv1.ClusterNameLabel: "cluster"}))
	host.Status.Provisioning.ID = "saved"
	for _, edit := range edits {
		edit(host)
	}
	stored := fake.NewClientBuilder().WithScheme(build.Scheme()).
		WithObjects(host.DeepCopy(), build.ControllerSecret(host)).Build()
	r := &registering{
		stored: stored, host: host, clock: clocktesting.NewFakePassiveClock(time.Now()), refused: map[string]error{},
	}
	recorder := events.NewFakeRecorder(10)
	r.events = recorder.Events
	r.Reconciler = &Reconciler{Clock: r.clock, Reporter: flow.Reporter{Recorder: recorder, Client: interceptor.NewClient(stored, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			options ...client.PatchOption,
		) error {
			if err := r.refused[object.GetObjectKind().GroupVersionKind().Kind]; err != nil {
				return err
			}
			return c.Patch(ctx, object, patch, options...)
		},
	})}}
	infra := build.Metal3Cluster("cluster")
	withEndpoint(infra)
	r.scope = &scope{
		infra: infra, cluster: build.Cluster("cluster"), nodeIDs: map[string]string{nameInIronic(host): "created"},
	}
	return r
}

// repair repairs the registration of the stored host.
func (r *registering) repair(t *testing.T) (time.Duration, error) {
	t.Helper()
	r.scope.move.Hosts = []*bmov1alpha1.BareMetalHost{r.read(t)}
	return r.repairRegistrations(t.Context(), r.scope)
}

func (r *registering) read(t *testing.T) *bmov1alpha1.BareMetalHost {
	t.Helper()
	host := &bmov1alpha1.BareMetalHost{}
	if err := r.stored.Get(t.Context(), client.ObjectKeyFromObject(r.host), host); err != nil {
		t.Fatal(err)
	}
	return host
}

// annotations returns the annotations of the host and of the Secret of its BMC.
func (r *registering) annotations(t *testing.T) []string {
	t.Helper()
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: r.host.Namespace, Name: r.host.Spec.BMC.CredentialsName}
	if err := r.stored.Get(t.Context(), key, secret); err != nil {
		t.Fatal(err)
	}
	return []string{
		r.read(t).Annotations[infrav1.LostRegistrationAnnotation], secret.Annotations[infrav1.LostRegistrationAnnotation],
	}
}

func (r *registering) expect(t *testing.T, wait time.Duration, host, secret string, count int) {
	t.Helper()
	again, err := r.repair(t)
	if err != nil || again != wait {
		t.Errorf("retries after %s, %v, want %s", again, err, wait)
	}
	if got := r.annotations(t); !slices.Equal(got, []string{host, secret}) || len(r.events) != count {
		t.Errorf("host and Secret have %q, want %q and %q; %d events, want %d", got, host, secret, len(r.events), count)
	}
}

// TestLostRegistration covers that BMO has a minute, gets one annotation, and continues after it has saved the ID.
func TestLostRegistration(t *testing.T) {
	r := newRegistering(t)
	r.expect(t, saveTime, "", "", 0)
	r.clock.SetTime(r.clock.Now().Add(saveTime - time.Second))
	r.expect(t, time.Second, "", "", 0)
	r.clock.SetTime(r.clock.Now().Add(time.Second))
	r.expect(t, saveCheck, "created", "created", 1)
	r.clock.SetTime(r.clock.Now().Add(time.Hour))
	r.expect(t, saveCheck, "created", "created", 1)

	saved := r.read(t)
	saved.Status.Provisioning.ID = "created"
	if err := r.stored.Update(t.Context(), saved); err != nil {
		t.Fatal(err)
	}
	r.refused["BareMetalHost"] = errors.New("refused")
	if _, err := r.repair(t); err == nil || len(r.events) != 2 {
		t.Errorf("got %v and %d events for an annotation that must stay", err, len(r.events))
	}
	r.refused["BareMetalHost"] = nil
	r.expect(t, 0, "", "created", 2)
	r.expect(t, 0, "", "created", 2)
}

// TestRegistrationSavedInTime has BMO save the ID, or Ironic create another node, before the minute is over.
func TestRegistrationSavedInTime(t *testing.T) {
	r := newRegistering(t)
	r.expect(t, saveTime, "", "", 0)
	r.clock.SetTime(r.clock.Now().Add(saveTime))
	r.scope.nodeIDs[nameInIronic(r.host)] = "next"
	r.expect(t, saveTime, "", "", 0)
	r.scope.nodeIDs[nameInIronic(r.host)] = "saved"
	r.expect(t, 0, "", "", 0)
	r.scope.nodeIDs[nameInIronic(r.host)] = "next"
	r.expect(t, saveTime, "", "", 0)
}

// TestRefusedRegistration repeats both writes after the API server has refused either, and reports the refusal.
func TestRefusedRegistration(t *testing.T) {
	for _, kind := range []string{"Secret", "BareMetalHost"} {
		t.Run(kind, func(t *testing.T) {
			r := newRegistering(t)
			r.expect(t, saveTime, "", "", 0)
			r.clock.SetTime(r.clock.Now().Add(saveTime))
			r.refused[kind] = errors.New("refused")
			if again, err := r.repair(t); !errors.Is(err, r.refused[kind]) || again != saveCheck || len(r.events) != 1 {
				t.Fatalf("retries after %s, %v, with %d events", again, err, len(r.events))
			}
			if got := <-r.events; !strings.HasPrefix(got, "Warning RegistrationFailed ") || !strings.HasSuffix(got, ": refused") {
				t.Errorf("got event %q", got)
			}
			r.refused[kind] = nil
			r.expect(t, saveCheck, "created", "created", 1)
		})
	}
}

// TestRegisteredHosts covers which registrations the cluster repairs.
func TestRegisteredHosts(t *testing.T) {
	other := build.Metal3Cluster("other")
	withEndpoint(other)
	other.Spec.Ironic.ClusterID = "c2"
	for name, tc := range map[string]struct {
		reason string
		label  string
		change func(*scope)
		want   int
	}{
		"Own":     {"BMO registers it with this Ironic", "cluster", nil, 1},
		"Free":    {"no other Ironic serves the namespace", "", nil, 1},
		"Shared":  {"the namespace has two clusters", "", func(s *scope) { s.around.Clusters = []infrav1.Metal3Cluster{*other} }, 0},
		"Another": {"the other cluster repairs the registration", "other", nil, 0},
		"Silent":  {"the Ironic of the cluster does not answer", "cluster", func(s *scope) { s.nodeIDs = nil }, 0},
		"Paused":  {"a move is on the way", "cluster", func(s *scope) { s.pause = "paused" }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegistering(t, func(host *bmov1alpha1.BareMetalHost) {
				host.Labels[clusterv1.ClusterNameLabel] = tc.label
			})
			if tc.change != nil {
				tc.change(r.scope)
			}
			r.scope.move.Hosts = []*bmov1alpha1.BareMetalHost{r.host}
			if got := len(r.scope.registered()); got != tc.want {
				t.Errorf("%s: got %d, want %d", tc.reason, got, tc.want)
			}
		})
	}
}
