package plugin_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeClasses has the stories of ClusterClasses that Clusters of other namespaces use. clusterctl pauses such a
// class in the source, and neither deletes nor unpauses it there.
func describeClasses(c *clusters) {
	It("names a paused ClusterClass of another namespace before a move", func(ctx context.Context) {
		source := settle(ctx, c.source, stage.Namespace(ctx, c.source))
		classes := source.ofClass(ctx, stage.Namespace(ctx, c.source))
		Expect(c.run(ctx, source.namespace, "preflight")).To(end(1, "ClusterClass "+classes.namespace+"/class is paused"))
		classes.unpauseClass(ctx)
		Expect(c.run(ctx, source.namespace, "preflight")).To(end(0, "Ready"))
	})

	It("unpauses the ClusterClass of another namespace when it aborts a move", func(ctx context.Context) {
		namespace, source, _ := c.halfMoved(ctx)
		classes := source.ofClass(ctx, stage.Namespace(ctx, c.source))
		source.resumed(ctx)
		Expect(c.run(ctx, namespace, "abort")).To(end(0, "Done.",
			"Unpaused ClusterClass "+classes.namespace+"/class in the source"))
		Expect(classes.isClassPaused(ctx)).To(BeFalse())
	})

	It("unpauses the ClusterClass of another namespace on both sides when it completes a move", func(ctx context.Context) {
		namespace, source, target := c.halfMoved(ctx)
		here := source.ofClass(ctx, stage.Namespace(ctx, c.source))
		Expect(c.target.Client.Create(ctx, build.Namespace(here.namespace))).To(Succeed())
		there := target.ofClass(ctx, here.namespace)
		source.discard(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "host-bmc"}})
		target.resumed(ctx)
		Expect(c.run(ctx, namespace, "resume")).To(end(0, "Done."))
		Expect(here.isClassPaused(ctx)).To(BeFalse())
		Expect(there.isClassPaused(ctx)).To(BeFalse())
	})

	It("unpauses the ClusterClass of another namespace in the source after a move", func(ctx context.Context) {
		source := settle(ctx, c.source, stage.Namespace(ctx, c.source))
		classes := source.ofClass(ctx, stage.Namespace(ctx, c.source))
		classes.unpauseClass(ctx)
		classes.create(ctx, &infrav1.Metal3ClusterTemplate{ObjectMeta: metav1.ObjectMeta{Name: "template"}},
			&controlplanev1.KubeadmControlPlaneTemplate{ObjectMeta: metav1.ObjectMeta{Name: "template"}})
		world{client: c.target.Client, namespace: source.namespace}.leaveNoHosts()
		moving := c.start(ctx, source.namespace, "run")
		moving.tells("Parking...")
		Expect(classes.isClassPaused(ctx)).To(BeTrue())
		source.changeInfra(ctx, func(infra *infrav1.Metal3Cluster) { delete(infra.Annotations, infrav1.BlockMoveAnnotation) })
		moving.ends(0, "Unpaused ClusterClass "+classes.namespace+"/class in the source", "Done.")
		Expect(classes.isClassPaused(ctx)).To(BeFalse())
	})
}

// ofClass creates a paused ClusterClass in another namespace, and lets the Cluster use it. It returns that namespace.
func (w world) ofClass(ctx context.Context, namespace string) world {
	GinkgoHelper()
	classes := world{client: w.client, namespace: namespace}
	class := &clusterv1.ClusterClass{ObjectMeta: metav1.ObjectMeta{
		Name: "class", Annotations: map[string]string{clusterv1.PausedAnnotation: ""},
	}}
	class.Spec.Infrastructure.TemplateRef = clusterv1.ClusterClassTemplateReference{
		APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3ClusterTemplate", Name: "template",
	}
	class.Spec.ControlPlane.TemplateRef = clusterv1.ClusterClassTemplateReference{
		APIVersion: "controlplane.cluster.x-k8s.io/v1beta2", Kind: "KubeadmControlPlaneTemplate", Name: "template",
	}
	classes.create(ctx, class)
	stage.Change(ctx, w.client, w.key(clusterName), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
		cluster.Spec.Topology = clusterv1.Topology{
			ClassRef: clusterv1.ClusterClassRef{Name: "class", Namespace: namespace}, Version: "v1.34.0",
		}
	})
	return classes
}

func (w world) isClassPaused(ctx context.Context) bool {
	GinkgoHelper()
	class := &clusterv1.ClusterClass{}
	Expect(w.client.Get(ctx, w.key("class"), class)).To(Succeed())
	_, paused := class.Annotations[clusterv1.PausedAnnotation]
	return paused
}

func (w world) unpauseClass(ctx context.Context) {
	GinkgoHelper()
	stage.Change(ctx, w.client, w.key("class"), &clusterv1.ClusterClass{}, func(class *clusterv1.ClusterClass) {
		class.Annotations = nil
	})
}
