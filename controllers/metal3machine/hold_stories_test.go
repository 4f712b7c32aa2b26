package metal3machine_test

import (
	"context"
	"encoding/json"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeHolds are the stories about machines that are deleted while the provider holds their host after a move.
func describeHolds(s *suite) {
	holds := map[string]struct {
		endpoint metav1.ConditionStatus
		host     build.HostOption
		message  string
		end      func(context.Context, *world)
	}{
		"until the Ironic of its cluster answers": {
			endpoint: metav1.ConditionFalse,
			host:     stage.With(func(*bmov1alpha1.BareMetalHost) {}),
			message:  "IronicEndpointReady",
			end: func(ctx context.Context, w *world) {
				w.setEndpointReady(ctx, metav1.ConditionTrue, infrav1.EndpointAnswersReason)
				w.resume(ctx)
			},
		},
		"that arrived on a leftover with a newer status": {
			endpoint: metav1.ConditionTrue,
			host:     stage.With(arrivedEarlier),
			message:  "clusterctl metal3 pivot keep",
			end: func(ctx context.Context, w *world) {
				change(ctx, w, "host", &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
					delete(host.Annotations, bmov1alpha1.StatusAnnotation)
				})
			},
		},
	}
	for name, hold := range holds {
		It("is not released from a host "+name, func(ctx context.Context) {
			w := s.world(ctx, build.Annotations(map[string]string{infrav1.BlockMoveAnnotation: ""}))
			change(ctx, w, clusterName, &infrav1.Metal3Cluster{}, withEndpoint)
			w.setEndpointReady(ctx, hold.endpoint, infrav1.EndpointForeignReason)
			w.host(ctx, "host", build.Provisioned(), build.Consumed(w.named("machine")), ofCluster(clusterName),
				build.Paused(infrav1.HostPausedByProvider), hold.host)
			w.start()
			w.machine(ctx, "machine", build.Finalizers(infrav1.MachineFinalizer), build.OnHost(w.getHost(ctx, Default, "host")))
			w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, stage.IsTrue())
			before := w.getHost(ctx, Default, "host")
			w.remove(ctx, "machine")
			w.eventually(ctx, "machine", infrav1.DeletingCondition, And(
				stage.IsTrueBecause(infrav1.HostHeldReason), HaveField("Message", ContainSubstring(hold.message))))
			Eventually(func(g Gomega) {
				g.Expect(w.events(ctx, g, "machine")).To(ContainElement(infrav1.HostHeldReason))
			}).Should(Succeed())
			Expect(w.getHost(ctx, Default, "host")).To(Equal(before))

			hold.end(ctx, w)
			w.operate(ctx)
			w.gone(ctx, "machine")
			w.withoutMachineMetadata(ctx, "host")
		})
	}
}

// resume ends the pause of the host, as the controller of moves does.
func (w *world) resume(ctx context.Context) {
	GinkgoHelper()
	change(ctx, w, "host", &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
		delete(host.Annotations, bmov1alpha1.PausedAnnotation)
	})
}

// arrivedEarlier gives a host the status of another cluster that is older than its own.
func arrivedEarlier(host *bmov1alpha1.BareMetalHost) {
	status := host.Status.DeepCopy()
	status.HardwareDetails, status.LastUpdated = nil, &metav1.Time{Time: host.Status.LastUpdated.Add(-time.Hour)}
	content, err := json.Marshal(status)
	Expect(err).NotTo(HaveOccurred())
	build.Annotations(map[string]string{
		bmov1alpha1.StatusAnnotation: string(content), infrav1.StatusOriginAnnotation: "of-another-cluster",
	})(host)
}
