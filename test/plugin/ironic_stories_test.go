package plugin_test

import (
	"context"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeIronic has the stories of the Ironic that BMO uses.
func describeIronic(c *clusters) {
	It("refuses a target whose BMO uses another Ironic, unless the user ignores it", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		settle(ctx, c.source, namespace)
		useIronic(ctx, c.target, "https://192.0.2.3:6385/v1/")
		Expect(c.run(ctx, namespace, "preflight")).To(end(1, "Deployment "+operatorKey().String()+" of BMO uses "+
			"https://192.0.2.3:6385, and spec.ironic of Metal3Cluster "+namespace+"/cluster has https://192.0.2.2:6385"))
		Expect(c.run(ctx, namespace, "run")).To(end(1, "Not done, because:", "https://192.0.2.3:6385"))
		told := c.run(ctx, namespace, "preflight --ignore IronicDiffers -o json")
		Expect(told).To(end(0))
		Expect(told.decode()).To(And(HaveKeyWithValue("ready", true),
			HaveKeyWithValue("ignored", ConsistOf(HaveKeyWithValue("code", "IronicDiffers")))))
		useIronic(ctx, c.source, "https://192.0.2.3:6385/v1/")
		useIronic(ctx, c.target, endpointURL)
		Expect(c.run(ctx, namespace, "preflight")).To(end(1, "source    Deployment "+operatorKey().String()))
	})

	It("refuses a target without a known BMO, unless the user ignores it", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		settle(ctx, c.source, namespace)
		label := func(ctx context.Context, value string) {
			stage.Change(ctx, c.target.Client, operatorKey(), &appsv1.Deployment{}, func(operator *appsv1.Deployment) {
				operator.Labels["webhook"] = value
			})
		}
		label(ctx, "another")
		DeferCleanup(func(ctx context.Context) { label(ctx, "metal3-io-v1alpha1-baremetalhost") })
		Expect(c.run(ctx, namespace, "preflight")).To(end(1, "target    BMO was not found"))
		Expect(c.run(ctx, namespace, "preflight --ignore OperatorMissing")).To(end(0, "ignored   target: BMO was not found"))
	})

	It("keeps the source unsafe to switch off while its Ironic serves the target", func(ctx context.Context) {
		empty(ctx, c.source)
		empty(ctx, c.target)
		namespace, source, target := c.halfMoved(ctx, withoutEndpoint)
		source.discard(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "host-bmc"}})
		for _, server := range []*env.Server{c.source, c.target} {
			useIronic(ctx, server, "http://192.0.2.9:6385/v1/")
		}
		upstream := deployment(operatorKey().Namespace, "baremetal-operator-ironic", nil)
		upstream.Spec.Template.Spec.Containers[0].Name = "ironic"
		Expect(c.source.Client.Create(ctx, upstream)).To(Succeed())
		DeferCleanup(func(ctx context.Context) {
			Expect(client.IgnoreNotFound(c.source.Client.Delete(ctx, upstream))).To(Succeed())
		})
		target.resumed(ctx)
		told := c.run(ctx, namespace, "resume -o json")
		Expect(told).To(end(0))
		Expect(told.decode()).To(And(HaveKeyWithValue("safeToSwitchOff", false),
			HaveKeyWithValue("because", ConsistOf(And(HaveKeyWithValue("code", "IronicStillNeeded"),
				HaveKeyWithValue("name", "baremetal-operator-ironic"), HaveKeyWithValue("cluster", "source"))))))

		By("deleting the Deployment of Ironic: Ironic may run outside of Kubernetes")
		Expect(c.source.Client.Delete(ctx, upstream)).To(Succeed())
		Expect(c.run(ctx, namespace, "resume")).To(end(0, "Safe to switch off the source: no, because target: it is unknown whether the "+
			"source runs the Ironic http://192.0.2.9:6385"))

		By("giving the target an Ironic of its own")
		useIronic(ctx, c.target, "http://ironic.baremetal-operator-system.svc:6385")
		Expect(c.run(ctx, namespace, "resume")).To(end(0, "Safe to switch off the source: yes"))
	})
}

// empty deletes the clusters and hosts that other stories have left, in all namespaces.
func empty(ctx context.Context, server *env.Server) {
	GinkgoHelper()
	for _, list := range []client.ObjectList{
		&clusterv1.ClusterList{}, &infrav1.Metal3ClusterList{}, &bmov1alpha1.BareMetalHostList{},
	} {
		Expect(server.Client.List(ctx, list)).To(Succeed())
		Expect(meta.EachListItem(list, func(item runtime.Object) error {
			object, _ := item.(client.Object)
			object.SetFinalizers(nil)
			if err := server.Client.Update(ctx, object); err != nil {
				return err
			}
			return client.IgnoreNotFound(server.Client.Delete(ctx, object))
		})).To(Succeed())
	}
}
