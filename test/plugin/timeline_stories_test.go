package plugin_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeTimeline has the stories of pivot timeline.
func describeTimeline(c *clusters) {
	It("prints the events of one side when the other side does not answer", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		Expect(c.target.Client.Create(ctx, build.Namespace(namespace))).To(Succeed())
		source, target := world{c.source.Client, namespace}, world{c.target.Client, namespace}
		source.tell(ctx, "PausedForMove")
		target.tell(ctx, "ResumedAfterMove")
		Expect(c.run(ctx, namespace, "timeline")).To(end(0, "PausedForMove", "ResumedAfterMove"))

		line := stage.NewLine(c.source.Config)
		off, err := c.source.WriteKubeconfig("timeline-line", line.Config)
		Expect(err).NotTo(HaveOccurred())
		line.Cut()
		told := runOn(ctx, off, c.target.Kubeconfig, namespace, "timeline")
		Expect(told).To(end(0, "ResumedAfterMove"))
		Expect(told.errors).To(ContainSubstring("The events of the source are missing: reading the source cluster"))
		Expect(runOn(ctx, off, c.target.Kubeconfig, namespace, "timeline -o html")).To(end(0,
			"The events of the source are missing: "))
		Expect(runOn(ctx, off, c.target.Kubeconfig, namespace, "timeline -o json").decode()).To(And(
			HaveKeyWithValue("events", HaveLen(1)),
			HaveKeyWithValue("missing", ConsistOf(HaveKeyWithValue("cluster", "source")))))
		Expect(runOn(ctx, off, "", namespace, "timeline")).To(end(2, "reading the source cluster"))
		Expect(runOn(ctx, off, c.target.Kubeconfig, stage.Namespace(ctx, c.target), "timeline")).To(end(2,
			"reading the source cluster", "no event of the last 1h0m0s belongs to a move"))
	})
}

// tell creates an event of a host.
func (w world) tell(ctx context.Context, reason string) {
	GinkgoHelper()
	w.create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "event-"}, EventTime: metav1.NowMicro(),
		ReportingController: "metal3cluster", ReportingInstance: "manager", Action: "Move", Type: corev1.EventTypeNormal,
		Regarding: corev1.ObjectReference{Kind: "BareMetalHost", Name: "host", Namespace: w.namespace}, Reason: reason,
	})
}
