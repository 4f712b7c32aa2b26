package metal3cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// operator is the webhook of BMO. It refuses each write of some hosts.
type operator struct {
	strict []string
	tries  int

	// whole is the number of tries whose answer is the whole host.
	whole int
}

// trialOf returns a reconciler with a webhook for its writes, and the clock of the reconciler.
func trialOf(webhook *operator, hosts []*bmov1alpha1.BareMetalHost) (*Reconciler, *clocktesting.FakePassiveClock) {
	infra := build.Metal3Cluster("cluster")
	r, stored := reconciler(infra, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			options ...client.PatchOption,
		) error {
			webhook.tries++
			if _, isHost := object.(*bmov1alpha1.BareMetalHost); isHost {
				webhook.whole++
			}
			if slices.Contains(webhook.strict, object.GetName()) {
				kind := schema.GroupResource{Group: "metal3.io", Resource: "baremetalhosts"}
				return apierrors.NewForbidden(kind, object.GetName(), errors.New("spec.raid"))
			}
			return c.Patch(ctx, object, patch, options...)
		},
	}, kept{})
	for _, host := range hosts {
		if err := stored.Create(context.Background(), host); err != nil {
			panic(err)
		}
	}
	now := clocktesting.NewFakePassiveClock(time.Unix(1_700_000_000, 0))
	r.Clock = now
	return r, now
}

// quiet are hosts that a move would pause.
func quiet(number int) []*bmov1alpha1.BareMetalHost {
	var hosts []*bmov1alpha1.BareMetalHost
	for i := range number {
		host := build.Host(fmt.Sprintf("host-%d", i), build.Available())
		host.UID = types.UID(host.Name)
		hosts = append(hosts, host)
	}
	return hosts
}

// atGate pauses the Cluster, so that clusterctl waits.
func atGate(s *scope) { s.cluster.Spec.Paused = ptr.To(true) }

// trialPass is one reconcile. It returns the names of the hosts that are refused, and the time until the next one.
func trialPass(
	t *testing.T, r *Reconciler, hosts []*bmov1alpha1.BareMetalHost, edits ...func(*scope),
) ([]string, time.Duration) {
	t.Helper()
	s := &scope{infra: build.Metal3Cluster("cluster"), cluster: build.Cluster("cluster"), hostDefinition: 1}
	s.infra.Annotations = map[string]string{infrav1.BlockMoveAnnotation: ""}
	s.move.Hosts = hosts
	for _, edit := range edits {
		edit(s)
	}
	if err := r.tryPauses(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	var refused []string
	for _, host := range hosts {
		if s.move.Refusals[host.Name] != "" {
			refused = append(refused, host.Name)
		}
	}
	return refused, s.untilTrial
}

// TestStricterRulesAreNoticed upgrades BMO to stricter rules while the manager runs.
func TestStricterRulesAreNoticed(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		edit   func(*scope)
		within time.Duration
	}{
		"Idle":       {"a host is tried again every five minutes", func(*scope) {}, 40 * time.Minute},
		"Gate":       {"clusterctl waits for a host that cannot be paused", atGate, 10 * time.Second},
		"Definition": {"BMO was upgraded", func(s *scope) { s.hostDefinition++ }, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			webhook, hosts := &operator{}, quiet(5)
			r, now := trialOf(webhook, hosts)
			if refused, _ := trialPass(t, r, hosts); refused != nil {
				t.Fatalf("refused %v before the upgrade", refused)
			}
			webhook.strict = []string{"host-1", "host-3"}
			var refused []string
			began := now.Now()
			for len(refused) < 2 && now.Since(began) < tc.within {
				var next time.Duration
				if refused, next = trialPass(t, r, hosts, tc.edit); next == 0 {
					t.Fatalf("%s: nothing tries the hosts again", tc.reason)
				}
				now.SetTime(now.Now().Add(next))
			}
			if diff := cmp.Diff([]string{"host-1", "host-3"}, refused); diff != "" {
				t.Errorf("%s, within %s: -want +got:\n%s", tc.reason, tc.within, diff)
			}
		})
	}
}

// TestTrialsCostFewRequests counts the dry runs of an hour.
func TestTrialsCostFewRequests(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		hosts  int
		strict []string
		most   int
	}{
		"Accepted": {"each host once, and one of them every five minutes", 1000, nil, 1000 + 12},
		"Refused":  {"a host that stays refused", 1, []string{"host-0"}, 16},
	} {
		t.Run(name, func(t *testing.T) {
			webhook, hosts := &operator{strict: tc.strict}, quiet(tc.hosts)
			r, now := trialOf(webhook, hosts)
			began := now.Now()
			for now.Since(began) < time.Hour {
				refused, next := trialPass(t, r, hosts)
				if len(refused) != len(tc.strict) {
					t.Fatalf("%s: refused %v", tc.reason, refused)
				}
				if next == 0 {
					break
				}
				now.SetTime(now.Now().Add(next))
			}
			if webhook.tries < tc.hosts || webhook.tries > tc.most {
				t.Errorf("%s: %d dry runs in an hour, want %d at most", tc.reason, webhook.tries, tc.most)
			}
			if webhook.whole != 0 {
				t.Errorf("%s: %d dry runs decode the whole host, want none", tc.reason, webhook.whole)
			}
		})
	}
}

// TestARefusedHostIsTriedSoon corrects a host, and pauses the Cluster of a refused host.
func TestARefusedHostIsTriedSoon(t *testing.T) {
	webhook, hosts := &operator{strict: []string{"host-0"}}, quiet(1)
	r, now := trialOf(webhook, hosts)
	for range 10 {
		_, next := trialPass(t, r, hosts)
		now.SetTime(now.Now().Add(next))
	}
	if _, next := trialPass(t, r, hosts); next < time.Minute {
		t.Errorf("a host that stays refused is tried each %s", next)
	}
	if _, next := trialPass(t, r, hosts, atGate); next > 10*time.Second {
		t.Errorf("while clusterctl waits, a refused host is tried after %s", next)
	}
	webhook.strict = nil
	hosts[0].Generation++
	if refused, _ := trialPass(t, r, hosts); refused != nil {
		t.Errorf("a corrected host is not tried: %v", refused)
	}
}
