package hoststore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func tombstone(h *bmov1alpha1.BareMetalHost) toolscache.DeletedFinalStateUnknown {
	return toolscache.DeletedFinalStateUnknown{Key: h.Namespace + "/" + h.Name, Obj: h}
}

func TestIndexes(t *testing.T) {
	cases := map[string]struct {
		object   client.Object
		consumer []string
	}{
		"a free host":     {object: available("a")},
		"a reserved host": {object: reserved("a")},
		"a claimed host":  {object: taken("a"), consumer: []string{"other"}},
		"another kind":    {object: &corev1.Node{}},
		"a host of another kind of consumer": {object: func() client.Object {
			h := available("a")
			h.Spec.ConsumerRef = &corev1.ObjectReference{Kind: "Thing", Name: "x"}
			return h
		}()},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			indexes := hoststore.Indexes()
			if diff := cmp.Diff(tc.consumer, indexes["metal3machine"](tc.object)); diff != "" {
				t.Errorf("by consumer: -want +got:\n%s", diff)
			}
		})
	}
}

type fakeIndexer struct {
	fields map[string]client.IndexerFunc
	err    error
}

func (f *fakeIndexer) IndexField(_ context.Context, _ client.Object, field string, index client.IndexerFunc) error {
	f.fields[field] = index
	return f.err
}

func TestSetupIndexes(t *testing.T) {
	indexer := &fakeIndexer{fields: map[string]client.IndexerFunc{}}
	if err := hoststore.SetupIndexes(context.Background(), indexer); err != nil {
		t.Fatal(err)
	}
	for name := range hoststore.Indexes() {
		if indexer.fields[name] == nil {
			t.Errorf("index %s is not registered", name)
		}
	}
	indexer.err = errBroken
	if err := hoststore.SetupIndexes(context.Background(), indexer); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

func TestWatchReportsErrors(t *testing.T) {
	store := hoststore.New(newServer(), newServer())
	var informers cache.Informers = &informertest.FakeInformers{Scheme: build.Scheme(), Error: errBroken}
	if _, err := store.Watch(context.Background(), informers); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

func TestSlim(t *testing.T) {
	kept := available("host-0", build.NIC("eth0", "52:54:00:00:00:01", "192.0.2.2"),
		build.Labels(map[string]string{"rack": "a"}), build.Annotations(map[string]string{"note": "x"}))
	kept.Spec.Image = &bmov1alpha1.Image{URL: build.ImageURL}
	kept.Status.ErrorMessage, kept.Status.ErrorType = "no power", bmov1alpha1.ProvisioningError
	kept.Status.PoweredOn = true
	kept.Status.OperationHistory.Provision = bmov1alpha1.OperationMetric{Start: metav1.Unix(2, 0), End: metav1.Unix(3, 0)}
	kept.OwnerReferences = []metav1.OwnerReference{{Name: "x"}}
	kept.Finalizers = []string{"x"}

	full := kept.DeepCopy()
	full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	full.Status.OperationHistory.Inspect.Start = metav1.Unix(1, 0)
	full.Status.OperationHistory.Deprovision.End = metav1.Unix(4, 0)
	full.Status.Conditions = []metav1.Condition{{Type: "Ready"}}
	full.Status.GoodCredentials.Version = "1"
	full.Status.TriedCredentials.Version = "1"
	details := full.Status.HardwareDetails
	details.Storage = []bmov1alpha1.Storage{{Name: "/dev/sda"}}
	details.Firmware.BIOS.Vendor = "x"
	details.SystemVendor.Manufacturer = "x"
	details.CPU.Flags = []string{"sse"}
	details.CPU.Model = "x"
	details.NIC[0].Model, details.NIC[0].SpeedGbps = "x", 10

	text, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	slim, err := hoststore.Slim(full)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(kept, slim); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	pruned := hoststore.Unread().Prune(text)
	if bytes.Contains(pruned, []byte("/dev/sda")) {
		t.Errorf("%s: the disks are decoded", pruned)
	}
	watched := &bmov1alpha1.BareMetalHost{}
	if err := json.Unmarshal(pruned, watched); err != nil {
		t.Fatal(err)
	}
	if slim, err = hoststore.Slim(watched); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(kept, slim); diff != "" {
		t.Errorf("a host that was watched: -want +got:\n%s", diff)
	}
	bare := build.Host("host-0")
	if slim, err := hoststore.Slim(bare.DeepCopy()); err != nil || !cmp.Equal(bare, slim) {
		t.Errorf("a host without details became %v, %v", slim, err)
	}
	node := &corev1.Node{}
	if slim, err := hoststore.Slim(node); err != nil || slim != node {
		t.Errorf("another kind became %v, %v", slim, err)
	}
}

func TestHostCollector(t *testing.T) {
	reader := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(
		available("a"), available("b"), taken("c"), reserved("d"), available("e", build.Error("no power")),
		build.Host("f"), available("a", build.InNamespace("other"))).Build()
	const name = "metal3_hosts"
	want := strings.NewReader(`
# HELP metal3_hosts BareMetalHosts by namespace, provisioning state, and why a machine without a hostSelector ` +
		`cannot claim them; free if it can.
# TYPE metal3_hosts gauge
metal3_hosts{namespace="metal3",reason="claimed",state="available"} 1
metal3_hosts{namespace="metal3",reason="free",state="available"} 2
metal3_hosts{namespace="metal3",reason="in error",state="available"} 1
metal3_hosts{namespace="metal3",reason="not available yet",state=""} 1
metal3_hosts{namespace="metal3",reason="reserved for another owner",state="deprovisioning"} 1
metal3_hosts{namespace="other",reason="free",state="available"} 1
`)
	if err := testutil.CollectAndCompare(hoststore.HostCollector(reader), want, name); err != nil {
		t.Error(err)
	}
	if got := testutil.CollectAndCount(hoststore.HostCollector(brokenClient{}), name); got != 0 {
		t.Errorf("got %d samples after a failed read", got)
	}
	problems, err := testutil.CollectAndLint(hoststore.HostCollector(reader))
	if err != nil || len(problems) > 0 {
		t.Errorf("got problems %v, %v", problems, err)
	}
}

func TestCounters(t *testing.T) {
	claims, conflicts, seconds := hoststore.Counters()
	claimsBefore, conflictsBefore := testutil.ToFloat64(claims), testutil.ToFloat64(conflicts)
	hoststore.Claimed(3 * time.Second)
	if got := testutil.ToFloat64(claims) - claimsBefore; got != 1 {
		t.Errorf("a claim counted as %v", got)
	}
	if got := testutil.CollectAndCount(seconds); got != 1 {
		t.Errorf("got %d histograms", got)
	}
	p := newProcess(newServer(available("host-0")), 1)
	chosen := p.choose(t, wants("machine-0"))
	p.server.edit("host-0", touch)
	if _, err := p.claim(chosen, "machine-0"); !errors.Is(err, hoststore.ErrConflict) {
		t.Fatalf("got %v, want a conflict", err)
	}
	if got := testutil.ToFloat64(conflicts) - conflictsBefore; got != 1 {
		t.Errorf("a conflict counted as %v", got)
	}
}

func TestRegisterMetrics(t *testing.T) {
	store := hoststore.New(newServer(), newServer())
	if err := store.RegisterMetrics(); err != nil {
		t.Fatal(err)
	}
	if err := store.RegisterMetrics(); err == nil {
		t.Error("a second registration succeeded")
	}
}
