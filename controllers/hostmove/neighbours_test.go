package hostmove_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

var errUnavailable = errors.New("no connection")

func neighbourClient(funcs interceptor.Funcs, objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
}

func TestNeighbours(t *testing.T) {
	holder := infrav1.IronicHolder{Kind: infrav1.HolderManagement, Name: "m"}
	seen := build.Metal3Cluster("seen")
	seen.Spec.Ironic = &infrav1.Ironic{ClusterID: "c1"}
	seen.Status.Ironic = &infrav1.IronicStatus{Holder: &holder}
	unseen := seen.DeepCopy()
	unseen.Name, unseen.Status.Ironic = "unseen", nil
	meta.SetStatusCondition(&seen.Status.Conditions, metav1.Condition{
		Type: infrav1.IronicEndpointReadyCondition, Status: metav1.ConditionTrue, Reason: "Story",
	})
	gone := build.Cluster("gone")
	gone.DeletionTimestamp, gone.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{clusterv1.ClusterFinalizer}
	without := seen.DeepCopy()
	without.Name, without.Spec.Ironic = "without", nil
	other := build.Cluster("other")
	other.Spec.InfrastructureRef.Kind = "SomethingElse"
	away, plainAway := seen.DeepCopy(), build.Metal3Cluster("plain", build.InNamespace("elsewhere"))
	away.Namespace, away.Spec.Ironic.ClusterID = "elsewhere", "c2"
	external := build.Metal3Cluster("external", build.Annotations(map[string]string{clusterv1.ManagedByAnnotation: ""}))
	gated := build.Metal3Cluster("gated", build.Annotations(map[string]string{infrav1.BlockMoveAnnotation: ""}))
	c := neighbourClient(interceptor.Funcs{}, away, plainAway,
		build.Cluster("external"), external, build.Cluster("gated"), gated,
		build.Cluster("plain", build.ClusterPaused()), build.Metal3Cluster("plain"), build.Cluster("seen"), seen,
		build.Cluster("unseen"), unseen, build.Cluster("bare"), gone, build.Cluster("without"), without, other, build.Metal3Cluster("other"),
		build.Cluster("elsewhere", build.InNamespace("elsewhere")))
	got, err := moveStore(c).Neighbours(t.Context(), build.DefaultNamespace)
	if err != nil {
		t.Fatal(err)
	}
	want := []pivot.Neighbour{
		{Name: "bare", Ungated: true, Endpoint: true}, {Name: "external", Infra: "external", Verified: true}, {Name: "gated", Infra: "gated", Verified: true},
		{Name: "gone", Ungated: true},
		{Name: "plain", Infra: "plain", Paused: true, Verified: true, Ungated: true},
		{Name: "seen", Infra: "seen", Verified: true, Ungated: true, Endpoint: true, ClusterID: "c1", Holder: &holder},
		{Name: "unseen", Infra: "unseen", Ungated: true, Endpoint: true, ClusterID: "c1"},
		{Name: "without", Infra: "without", Verified: true, Ungated: true},
		{Elsewhere: true, Namespace: "elsewhere", Verified: true, Endpoint: true, ClusterID: "c2", Holder: &holder},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	one := moveStore(c)
	one.OneNamespace = true
	want[len(want)-1].Foreign = true
	if got, err = one.Neighbours(t.Context(), build.DefaultNamespace); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a manager of one namespace: -want +got:\n%s", diff)
	}
	for _, fails := range []func(list client.ObjectList) bool{
		func(list client.ObjectList) bool { _, is := list.(*infrav1.Metal3ClusterList); return is },
		func(list client.ObjectList) bool { _, is := list.(*infrav1.Metal3ClusterList); return !is },
	} {
		broken := neighbourClient(interceptor.Funcs{List: func(
			ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
		) error {
			if fails(list) {
				return errUnavailable
			}
			return c.List(ctx, list, options...)
		}})
		if _, err := moveStore(broken).Neighbours(t.Context(), "x"); !errors.Is(err, errUnavailable) {
			t.Errorf("got %v", err)
		}
	}
}
