package metal3cluster

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

const day = 24 * time.Hour

// lasting returns the validity of a certificate with a lifetime that ends a time after now.
func lasting(now time.Time, lifetime, rest time.Duration) ironicapi.Validity {
	end := now.Add(rest)
	return ironicapi.Validity{NotBefore: metav1.Time{Time: end.Add(-lifetime)}, NotAfter: metav1.Time{Time: end}}
}

func TestCertificateWarning(t *testing.T) {
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	const (
		rollout = "Its certificate ends at 2027-01-30T00:00:00Z. After that, no node with this certificate can hold the VIP: " +
			"roll the control plane out, so that its nodes get the certificate of Secret cluster-ironic, which ends at " +
			"2027-03-31T00:00:00Z"
		renew = "Its certificate ends at 2027-01-30T00:00:00Z. After that, no node with this certificate can hold the VIP: " +
			"replace it. Then roll the control plane out, because a node keeps the certificate of its first boot"
		stored = "The certificate of Secret cluster-ironic ends at 2027-01-30T00:00:00Z. After that, no node with this " +
			"certificate can hold the VIP: replace it. Then roll the control plane out, because a node keeps the certificate of " +
			"its first boot"
		management = "Its certificate ends at 2027-01-30T00:00:00Z: renew it in the Secret of the management Ironic"
	)
	ends, renewed := lasting(now, 90*day, 29*day), lasting(now, 90*day, 89*day)
	node, manager := &infrav1.IronicHolder{Kind: infrav1.HolderControlPlane, Name: "cp-0"},
		&infrav1.IronicHolder{Kind: infrav1.HolderManagement, Name: "m"}
	cases := map[string]struct {
		reason         string
		served, stored ironicapi.Validity
		holder         *infrav1.IronicHolder
		want           string
	}{
		"Generated":     {"ten years", lasting(now, 3650*day, 3650*day), lasting(now, 3650*day, 3650*day), node, ""},
		"Renewed":       {"the node keeps the certificate of its first boot", ends, renewed, node, rollout},
		"Same":          {"a rollout alone would not help", ends, ends, node, renew},
		"Earlier":       {"the Secret has an older certificate", ends, lasting(now, 90*day, 28*day), node, renew},
		"Short":         {"the new certificate ends soon as well", ends, lasting(now, 360*day, 30*day), node, renew},
		"ShortLifetime": {"a daily certificate is no improvement", ends, lasting(now, day, day), node, renew},
		"UnknownHolder": {"after a move", ends, renewed, nil, rollout},
		"UnknownStored": {"the Secret was not read", ends, ironicapi.Validity{}, node, renew},
		"Management":    {"its web server reads a changed Secret", ends, renewed, manager, management},
		"Stored":        {"nodes boot with it", renewed, ends, manager, stored},
		"UnknownServed": {"nodes boot with it", ironicapi.Validity{}, ends, node, stored},
		"Month":         {"more than thirty days are left", lasting(now, 360*day, 31*day), renewed, node, ""},
		"Third":         {"more than a third is left", lasting(now, 60*day, 21*day), renewed, node, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			facts := certificateFacts{tc.served, tc.stored, tc.holder, "cluster-ironic", "replace it"}
			if got := facts.warning(now); got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

// TestACertificateThatEndsWarnsOnce reconciles a Metal3Cluster with a generated certificate for almost ten years.
func TestACertificateThatEndsWarnsOnce(t *testing.T) {
	infra := build.Metal3Cluster("cluster")
	withEndpoint(infra)
	r, stored := reconciler(infra, interceptor.Funcs{}, kept{})
	now := clocktesting.NewFakePassiveClock(time.Now())
	r.Secrets, r.Clock = &secrets.Keeper{Client: stored, Random: rand.Reader, Clock: now, Hash: secrets.HashPassword}, now
	recorder := events.NewFakeRecorder(10)
	r.Recorder, r.GuardImage = recorder, "registry.example/guard:v1"
	material, _, err := r.Secrets.Ensure(t.Context(), infra, "cluster", []*bmov1alpha1.BareMetalHost{})
	if err != nil {
		t.Fatal(err)
	}
	probedBefore(r, infra, nodesResult{standing: pivot.Current, seen: &workload.ControlPlane{
		Nodes: []workload.ControlPlaneNode{{Name: "cp-0", Carries: true, ConfigHash: "old"}},
	}})
	target := endpointTarget{Endpoint: ironicapi.Endpoint{
		URL:      "https://[2001:db8::2]:6385/v1/",
		Username: string(material.Username), Password: string(material.Password), Authority: material.Authority,
	}}
	seen := endpointResult{Observation: ironicapi.Observation{
		Answer: pivot.Answers, Conductors: []string{"c1-cp-0"}, Certificate: lasting(now.Now(), 3650*day, 3650*day),
	}}
	key := client.ObjectKeyFromObject(infra)
	r.Endpoints.targets[key] = &probed[endpointTarget, endpointResult]{target: target, result: &seen}
	for after, want := range []string{
		infrav1.EndpointAnswersReason, infrav1.EndpointCertificateEndsReason, infrav1.EndpointCertificateEndsReason,
	} {
		if after == 1 {
			now.SetTime(now.Now().AddDate(10, 0, -29))
		}
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		if err := stored.Get(t.Context(), key, infra); err != nil {
			t.Fatal(err)
		}
		got := conditions.Get(infra, infrav1.IronicEndpointReadyCondition)
		if got.Reason != want || got.Status != metav1.ConditionTrue {
			t.Errorf("reconcile %d: got %+v, want a true condition with %s", after, got, want)
		}
		if !strings.HasSuffix(got.Message, "updates the configuration of the endpoint on cp-0") {
			t.Errorf("reconcile %d: got %q, want the outdated node", after, got.Message)
		}
	}
	close(recorder.Events)
	var emitted strings.Builder
	for event := range recorder.Events {
		emitted.WriteString(event)
	}
	if strings.Count(emitted.String(), corev1.EventTypeWarning+" "+infrav1.EndpointCertificateEndsReason+" ") != 1 {
		t.Errorf("got the events %s, want one warning", emitted.String())
	}
}

func TestTheEndOfACertificateIsCollected(t *testing.T) {
	probes(t, func(a *probeCounter) {
		a.change(func() {
			a.answer = ironicapi.Observation{Answer: pivot.Answers, Certificate: lasting(time.Unix(0, 0), day, day)}
		})
		a.track("a", "answers", false)
		a.change(func() { a.answer = ironicapi.Observation{Answer: pivot.Unreachable} })
		a.track("b", "silent", false)
		want := `# HELP metal3_ironic_certificate_expiration_timestamp_seconds Unix time at which the certificate of an Ironic endpoint ends.
# TYPE metal3_ironic_certificate_expiration_timestamp_seconds gauge
metal3_ironic_certificate_expiration_timestamp_seconds{metal3cluster="a",namespace=""} 86400
`
		if err := testutil.CollectAndCompare(a, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
		a.Forget(types.NamespacedName{Name: "a"})
		if err := testutil.CollectAndCompare(a, strings.NewReader("")); err != nil {
			t.Error(err)
		}
	})
}
