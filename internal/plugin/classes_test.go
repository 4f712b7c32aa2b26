package plugin

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// classed lets the Cluster of a side use ClusterClass class of namespace classes.
func classed(side *scope) *scope {
	side.clusters[0].Spec.Topology = clusterv1.Topology{
		ClassRef: clusterv1.ClusterClassRef{Name: "class", Namespace: "classes"}, Version: "v1.34.0",
	}
	return side
}

// TestUnpauseKept unpauses the ClusterClasses of the Clusters that have moved, and no others.
func TestUnpauseKept(t *testing.T) {
	remembered := pivot.Departure{Infras: map[string]pivot.Epoch{"c": 3}}
	local := "Unpaused ClusterClass class in the source"
	external := "Unpaused ClusterClass classes/class in the source"
	for name, tc := range map[string]struct {
		reason         string
		source, target *scope
		want           []string
	}{
		"Here":    {"the source has the Cluster", classed(copied(true, "3")), nothing(), []string{local, external}},
		"Gone":    {"the source has had the Cluster", nothing(), classed(copied(true, "3")), []string{local, external}},
		"Runs":    {"the Cluster runs in the target", nothing(), classed(copied(false, "4")), []string{local, external}},
		"Foreign": {"another Cluster of the target uses it", nothing(), classed(copied(false, "1").beside(false, "4")), []string{local}},
	} {
		c := removing(tc.source, tc.target)
		class := func(namespace, name string) client.Object {
			return &clusterv1.ClusterClass{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name, Annotations: map[string]string{clusterv1.PausedAnnotation: ""},
			}}
		}
		c.source.client = fake.NewClientBuilder().WithScheme(scheme()).WithObjects(class(build.DefaultNamespace, "class"),
			class("classes", "class"), class("classes", "unused")).Build()
		err := c.unpauseKept(t.Context(), movedClusters(c.left, c.arrived, remembered))
		if err != nil || !slices.Equal(tc.want, c.done.Actions) {
			t.Errorf("%s: %s: got %v, %v", name, tc.reason, c.done.Actions, err)
		}
	}
}

// TestClassesOf expects that a ClusterClass stays paused with the Clusters that use it.
func TestClassesOf(t *testing.T) {
	paused := []client.ObjectKey{
		{Namespace: build.DefaultNamespace, Name: "class"}, {Namespace: "classes", Name: "class"},
		{Namespace: "classes", Name: "other"},
	}
	for name, tc := range map[string]struct {
		users []*clusterv1.Cluster
		want  []client.ObjectKey
	}{
		"None":     {nil, nil},
		"Local":    {copied(true, "3").clusters, paused[:1]},
		"External": {classed(copied(true, "3")).clusters, paused[:2]},
	} {
		if got := classesOf(tc.users, build.DefaultNamespace, paused); !slices.Equal(tc.want, got) {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
