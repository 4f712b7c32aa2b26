package metal3cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// TestADeletedMachineRequeuesOnlyADeletedCluster covers that a deleted Machine does not enqueue every Metal3Cluster of
// its namespace.
func TestADeletedMachineRequeuesOnlyADeletedCluster(t *testing.T) {
	labels := map[string]string{clusterv1.ClusterNameLabel: "cluster"}
	running, going := build.Metal3Cluster("running"), build.Metal3Cluster("going")
	other := build.Metal3Cluster("other")
	for _, infra := range []*infrav1.Metal3Cluster{running, going} {
		infra.Labels = labels
	}
	for _, infra := range []*infrav1.Metal3Cluster{going, other} {
		infra.DeletionTimestamp, infra.Finalizers = &metav1.Time{}, []string{infrav1.ClusterFinalizer}
		*infra.DeletionTimestamp = metav1.Now()
	}
	reconciler := &Reconciler{
		Reporter: flow.Reporter{Client: fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(running, going, other).Build()},
	}
	machine := build.Machine("machine", "cluster")
	got := reconciler.machineToInfrastructure(t.Context(), machine)
	want := []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(going)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
