package plugin_test

import (
	"context"
	"encoding/json"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/plugin"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeStatus has the stories of pivot status.
func describeStatus(c *clusters) {
	It("shows both sides in columns", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		source := settle(ctx, c.source, namespace)
		source.create(ctx, build.Host("free", build.Available(), build.Paused("maintenance")))
		told := c.run(ctx, namespace, "status")
		Expect(told).To(end(0, "CLUSTER", "SOURCE", "TARGET"))
		Expect(cells(told.text)).To(ContainElements(
			[]string{namespace + "/cluster", "paused", "no", "-"},
			[]string{namespace + "/cluster", "ready for move", "yes: ReadyForMove", "-"},
			[]string{namespace + "/cluster", "VIP holder", "Management management", "-"},
			[]string{namespace + "/cluster", "nodes", "1: 0 armed, 1 with ready pods", "-"},
			[]string{namespace + "/cluster", "registered hosts", "1 of 1", "-"},
			[]string{namespace + "/cluster", "hosts", "1 Running", "-"},
			[]string{namespace + " (no Cluster)", "hosts", "1 PausedByUser", "-"},
		))

		Expect(c.target.Client.Create(ctx, build.Namespace(namespace))).To(Succeed())
		target := settle(ctx, c.target, namespace)
		target.changeInfraStatus(ctx, func(infra *infrav1.Metal3Cluster) {
			infra.Status.Conditions = []metav1.Condition{{
				Type: infrav1.MoveInProgressCondition, Status: metav1.ConditionTrue, Reason: infrav1.ResumingHostsReason,
				Message: "BareMetalHosts: 1 WaitingForEndpoint", LastTransitionTime: metav1.Now(),
			}}
		})
		stage.Change(ctx, target.client, target.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			build.Annotations(map[string]string{bmov1alpha1.PausedAnnotation: infrav1.HostPausedByProvider})(host)
		})
		told = c.run(ctx, namespace, "status -A")
		Expect(cells(told.text)).To(ContainElements(
			[]string{namespace + "/cluster", "move", "-", "ResumingHosts: BareMetalHosts: 1 WaitingForEndpoint"},
			[]string{namespace + "/cluster", "ready for move", "yes: ReadyForMove", "not judged yet"},
			[]string{namespace + "/cluster", "hosts", "1 Running", "1 WaitingForEndpoint"},
		))
		Expect(runOn(ctx, c.source.Kubeconfig, "", namespace, "status -o json").decode()).To(And(
			HaveKey("source"), Not(HaveKey("target"))))
	})

	It("shows the side that answers when the other one does not, and ends with an error", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		settle(ctx, c.source, namespace)
		line := stage.NewLine(c.target.Config)
		file, err := c.target.WriteKubeconfig("status-line", line.Config)
		Expect(err).NotTo(HaveOccurred())
		line.Cut()
		for _, arguments := range []string{"status", "status -A"} {
			told := runOn(ctx, c.source.Kubeconfig, file, namespace, arguments)
			Expect(told).To(end(2, "target not seen: reading the target cluster"))
			Expect(told.errors).To(ContainSubstring("reading the target cluster"))
			Expect(cells(told.text)).To(ContainElement([]string{namespace + "/cluster", "hosts", "1 Running", "?"}))
		}
		told := runOn(ctx, file, c.source.Kubeconfig, namespace, "status -o json")
		Expect(told).To(end(2))
		Expect(told.errors).To(ContainSubstring("reading the source cluster"))
		Expect(told.decode()).To(And(
			HaveKeyWithValue("source", HaveKeyWithValue("problem", ContainSubstring("reading the source cluster"))),
			HaveKeyWithValue("target", HaveKeyWithValue("clusters", HaveLen(1)))))
		told = runOn(ctx, file, "", namespace, "status")
		Expect(told).To(end(2, "source not seen: reading the source cluster"))
		Expect(told.errors).NotTo(BeEmpty())
	})

	It("prints changes while it watches, through an outage of the target", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		source := settle(ctx, c.source, namespace)
		line := stage.NewLine(c.target.Config)
		file, err := c.target.WriteKubeconfig("watch-line", line.Config)
		Expect(err).NotTo(HaveOccurred())
		text := follow(ctx, c.source.Kubeconfig, file, namespace, "status --watch --interval 50ms")

		Eventually(text.String).Should(ContainSubstring("1 Running"))
		stage.Change(ctx, source.client, source.key(clusterName), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
			cluster.Spec.Paused = ptr.To(true)
		})
		Eventually(text.String).Should(ContainSubstring("1 Parking"))
		line.Cut()
		Eventually(text.String).Should(ContainSubstring("target not seen: "))
		Expect(line.Mend()).To(Succeed())
		Expect(c.target.Client.Create(ctx, build.Namespace(namespace))).To(Succeed())
		settle(ctx, c.target, namespace)
		Eventually(func() [][]string { return cells(text.String()) }).Should(ContainElement(
			[]string{namespace + "/cluster", "hosts", "1 Parking", "1 Running"}))
		Expect(strings.Count(text.String(), "CLUSTER  ")).To(Equal(1), "the header is printed once")
	})

	It("writes a document for each change", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		source := settle(ctx, c.source, namespace)
		text := follow(ctx, c.source.Kubeconfig, "", namespace, "status --watch --interval 50ms --output json")
		Eventually(text.String).Should(HaveSuffix("\n"))
		stage.ChangeStatus(ctx, source.client, source.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Status.Provisioning.State = bmov1alpha1.StateDeprovisioning
		})
		Eventually(func() int { return strings.Count(text.String(), "\n") }).Should(Equal(2))
		for document := range strings.Lines(text.String()) {
			Expect(json.Valid([]byte(document))).To(BeTrue(), document)
		}
		Expect(text.String()).To(ContainSubstring(`"phases":{"Busy":1}`))
	})
}

// follow runs a command until the end of the story.
func follow(ctx context.Context, source, target, namespace, arguments string) *buffer {
	GinkgoHelper()
	text, errors := &buffer{}, &buffer{}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan int, 1)
	go func() {
		ended <- plugin.Main(ctx, commandLine(source, target, namespace, arguments),
			plugin.Environment{Output: text, Errors: errors})
	}()
	DeferCleanup(func() {
		stop()
		Eventually(ended).Should(Receive(BeZero()), errors.String())
	})
	return text
}

// cells returns the cells of all rows of a table.
func cells(table string) [][]string {
	var rows [][]string
	for line := range strings.Lines(table) {
		var row []string
		for cell := range strings.SplitSeq(strings.TrimSpace(line), "   ") {
			if cell = strings.TrimSpace(cell); cell != "" {
				row = append(row, cell)
			}
		}
		rows = append(rows, row)
	}
	return rows
}
