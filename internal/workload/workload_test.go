package workload_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

const watchName = "nodes"

var errBroken = errors.New("broken")

func cluster() types.NamespacedName {
	return types.NamespacedName{Namespace: build.DefaultNamespace, Name: "cluster-0"}
}

func node(name, providerID, hostUID, hostname string) *corev1.Node {
	labels := map[string]string{corev1.LabelHostname: hostname}
	if hostUID != "" {
		labels[infrav1.HostUIDLabel] = hostUID
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.NodeSpec{ProviderID: providerID},
	}
}

// world returns the nodes of one cluster, and its client.
func world(funcs interceptor.Funcs, nodes ...client.Object) (*workload.Nodes, client.Client) {
	builder := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(nodes...).WithInterceptorFuncs(funcs)
	for _, index := range []clustercache.CacheOptionsIndex{
		clustercache.NodeProviderIDIndex, workload.HostUIDIndex, workload.HostnameIndex,
	} {
		builder = builder.WithIndex(index.Object, index.Field, index.ExtractValue)
	}
	c := builder.Build()
	return workload.New(clustercache.NewFakeClusterCache(c, cluster(), watchName), c), c
}

func TestOfHost(t *testing.T) {
	uid := types.UID("6a2c4a8e-6b26-4f1c-9d4e-3f3c3f1f0a51")
	from := func(origin string) *bmov1alpha1.BareMetalHost {
		return build.Host("host", build.Annotations(map[string]string{infrav1.StatusOriginAnnotation: origin}))
	}
	cases := map[string]struct {
		host *bmov1alpha1.BareMetalHost
		want workload.Query
	}{
		"NotInspected": {host: &bmov1alpha1.BareMetalHost{}, want: workload.Query{HostUID: string(uid)}},
		"Inspected":    {host: build.Host("host", build.Available()), want: workload.Query{HostUID: string(uid), Hostname: "host"}},
		"Recorded":     {host: from(string(uid)), want: workload.Query{HostUID: string(uid)}},
		"Arrived":      {host: from("before"), want: workload.Query{HostUID: string(uid), OriginUID: "before"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.host.UID = uid
			if diff := cmp.Diff(tc.want, workload.OfHost(tc.host)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestFind(t *testing.T) {
	nodes, _ := world(interceptor.Funcs{},
		node("linked", "metal3://metal3/host-0/machine-0", "uid-0", "host-0"),
		node("new", "", "uid-1", "host-1"),
		node("foreign", "aws:///1", "", "host-1"),
		node("unlabelled", "", "", ""))
	found := func(name, providerID, hostUID string) []host.Node {
		return []host.Node{{Name: name, ProviderID: providerID, HostUID: hostUID}}
	}
	linked := found("linked", "metal3://metal3/host-0/machine-0", "uid-0")

	cases := map[string]struct {
		query workload.Query
		want  host.NodeFacts
	}{
		"an empty query finds nothing": {},
		"by provider ID": {
			workload.Query{ProviderID: linked[0].ProviderID}, host.NodeFacts{ByProviderID: linked},
		},
		"by the UID of the host":     {workload.Query{HostUID: "uid-0"}, host.NodeFacts{ByHostUID: linked}},
		"by the host name":           {workload.Query{Hostname: "host-0"}, host.NodeFacts{ByHostname: linked}},
		"a node that does not exist": {query: workload.Query{ProviderID: "x", HostUID: "x", Hostname: "x"}},
		"by each field": {
			workload.Query{ProviderID: linked[0].ProviderID, HostUID: "uid-1", Hostname: "host-1"},
			host.NodeFacts{
				ByProviderID: linked, ByHostUID: found("new", "", "uid-1"),
				ByHostname: append(found("foreign", "aws:///1", ""), found("new", "", "uid-1")...),
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := nodes.Find(context.Background(), cluster(), tc.query)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestReporting(t *testing.T) {
	for status, want := range map[corev1.ConditionStatus]bool{
		corev1.ConditionTrue: true, corev1.ConditionFalse: true, corev1.ConditionUnknown: false, "": false,
	} {
		current := node("node", "", "uid-0", "host-0")
		if status != "" {
			current.Status.Conditions = []corev1.NodeCondition{
				{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: status},
			}
		}
		if got := workload.Reporting(current); got != want {
			t.Errorf("Ready %q: got %t, want %t", status, got, want)
		}
		nodes, _ := world(interceptor.Funcs{}, current)
		facts, err := nodes.Find(t.Context(), cluster(), workload.Query{HostUID: "uid-0"})
		if err != nil || len(facts.ByHostUID) != 1 || facts.ByHostUID[0].Reporting != want {
			t.Errorf("Ready %q: got %+v, %v", status, facts, err)
		}
	}
}

func TestFindReportsErrors(t *testing.T) {
	nodes, _ := world(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errBroken
		},
	})
	if _, err := nodes.Find(context.Background(), cluster(), workload.Query{HostUID: "x"}); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

func TestSetProviderID(t *testing.T) {
	var patches []string
	nodes, c := world(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			options ...client.PatchOption,
		) error {
			data, err := patch.Data(object)
			patches = append(patches, string(data))
			return errors.Join(err, c.Patch(ctx, object, patch, options...))
		},
	}, node("new", "", "uid-1", "host-1"))
	const providerID = `metal3://metal3/host-1/machine-1`
	if err := nodes.SetProviderID(context.Background(), cluster(), "new", providerID); err != nil {
		t.Fatal(err)
	}
	got := &corev1.Node{}
	if err := c.Get(context.Background(), client.ObjectKey{Name: "new"}, got); err != nil {
		t.Fatal(err)
	}
	want := node("new", providerID, "uid-1", "host-1")
	want.ResourceVersion = got.ResourceVersion
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{`{"spec":{"providerID":"` + providerID + `"}}`}, patches); diff != "" {
		t.Errorf("patches: -want +got:\n%s", diff)
	}
	err := nodes.SetProviderID(context.Background(), cluster(), "gone", providerID)
	if !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want not found", err)
	}
}

func TestSetProviderIDReturnsTheError(t *testing.T) {
	refusal := apierrors.NewForbidden(corev1.Resource("nodes"), "new", errBroken)
	nodes, _ := world(interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return refusal
		},
	})
	err := nodes.SetProviderID(context.Background(), cluster(), "new", "x")
	if !apierrors.IsForbidden(err) || err.Error() != "writing provider ID of Node new: "+refusal.Error() {
		t.Errorf("got %v", err)
	}
}

func TestLabels(t *testing.T) {
	ctx := context.Background()
	nodes, c := world(interceptor.Funcs{}, node("new", "", "uid-1", "host-1"))
	changes := map[string]*string{"a.b/x": ptr.To("1"), corev1.LabelHostname: nil}
	if err := nodes.SetLabels(ctx, cluster(), "new", changes); err != nil {
		t.Fatal(err)
	}
	want := node("new", "", "uid-1", "host-1").Labels
	want["a.b/x"] = "1"
	delete(want, corev1.LabelHostname)
	got := &corev1.Node{}
	if err := c.Get(ctx, client.ObjectKey{Name: "new"}, got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Labels); diff != "" {
		t.Errorf("written: -want +got:\n%s", diff)
	}
	if err := c.Patch(ctx, got, client.RawPatch(types.MergePatchType, []byte(
		`{"metadata":{"annotations":{"`+clusterv1.LabelsFromMachineAnnotation+`":"a.b/x,c.d/y"}}}`))); err != nil {
		t.Fatal(err)
	}
	read, found, err := nodes.Labels(ctx, cluster(), "new")
	wanted := workload.NodeLabels{All: want, OfMachine: []string{"a.b/x", "c.d/y"}}
	if diff := cmp.Diff(wanted, read); diff != "" || !found || err != nil {
		t.Errorf("read: found %t, %v, -want +got:\n%s", found, err, diff)
	}
	if _, found, err := nodes.Labels(ctx, cluster(), "gone"); found || err != nil {
		t.Errorf("a node that does not exist: found %t, %v", found, err)
	}
	if err := nodes.SetLabels(ctx, cluster(), "gone", changes); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want not found", err)
	}
}

func TestWatch(t *testing.T) {
	nodes, _ := world(interceptor.Funcs{})
	again := clustercache.NewWatcher(clustercache.WatcherOptions{Name: watchName, Kind: &corev1.Node{}})
	if err := nodes.Watch(context.Background(), cluster(), again); err != nil {
		t.Errorf("watching again: got %v", err)
	}
	nameless := clustercache.NewWatcher(clustercache.WatcherOptions{Kind: &corev1.Node{}})
	err := nodes.Watch(context.Background(), cluster(), nameless)
	if err == nil || errors.Is(err, workload.ErrUnreachable) {
		t.Errorf("a watch without a name: got %v, want another error than ErrUnreachable", err)
	}
}

func TestUnreachable(t *testing.T) {
	ctx := context.Background()
	connected, _ := world(interceptor.Funcs{})
	other := types.NamespacedName{Namespace: "elsewhere", Name: "cluster-0"}
	for name, nodes := range map[string]*workload.Nodes{
		"no cluster": workload.New(clustercache.NewFakeEmptyClusterCache(), nil), "another cluster": connected,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := nodes.Find(ctx, other, workload.Query{HostUID: "x"}); !errors.Is(err, workload.ErrUnreachable) {
				t.Errorf("Find: got %v", err)
			}
			if err := nodes.SetProviderID(ctx, other, "new", "x"); !errors.Is(err, workload.ErrUnreachable) {
				t.Errorf("SetProviderID: got %v", err)
			}
			if _, _, err := nodes.Labels(ctx, other, "new"); !errors.Is(err, workload.ErrUnreachable) {
				t.Errorf("Labels: got %v", err)
			}
			if err := nodes.SetLabels(ctx, other, "new", nil); !errors.Is(err, workload.ErrUnreachable) {
				t.Errorf("SetLabels: got %v", err)
			}
			watcher := clustercache.NewWatcher(clustercache.WatcherOptions{Name: watchName, Kind: &corev1.Node{}})
			if err := nodes.Watch(ctx, other, watcher); !errors.Is(err, workload.ErrUnreachable) {
				t.Errorf("Watch: got %v", err)
			}
		})
	}
}
