package metal3data_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// hasPause waits until the condition Paused of a claim matches.
func (w *world) hasPause(ctx context.Context, name string, want gomegatypes.GomegaMatcher) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		claim := &infrav1.Metal3DataClaim{}
		g.Expect(w.client.Get(ctx, w.key(name), claim)).To(Succeed())
		g.Expect(claim.Status.Conditions).To(stage.HaveCondition(clusterv1.PausedCondition, want))
	}).Should(Succeed())
}

// describeSharing are the stories of templates that Clusters share, and of their pause.
func describeSharing(s *suite) {
	It("serves one Cluster of a template while another one is paused", func(ctx context.Context) {
		const other = "other"
		w := s.world(ctx)
		w.template(ctx, "template", plain)
		w.create(ctx, build.Cluster(other, build.InNamespace(w.namespace), build.InfrastructureReady()))
		w.manager.Start()
		answered := func(claim, data string) {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				found := &infrav1.Metal3DataClaim{}
				g.Expect(w.client.Get(ctx, w.key(claim), found)).To(Succeed())
				g.Expect(found.Status.RenderedData).To(HaveValue(HaveField("Name", data)))
			}).Should(Succeed())
		}
		w.orphanIn(ctx, other, "other-0", "template")
		answered("other-0", "template-0")
		w.pause(ctx, other, true)
		w.hasPause(ctx, "other-0", stage.IsTrue())
		w.orphanIn(ctx, other, "other-1", "template")
		w.hasPause(ctx, "other-1", stage.IsTrue())

		By("the other Cluster neither gets nor releases an index")
		Expect(w.client.Delete(ctx, &infrav1.Metal3DataClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "other-0"}})).To(Succeed())
		w.orphan(ctx, "first", "template")
		answered("first", "template-1")
		w.orphan(ctx, "second", "template")
		answered("second", "template-2")
		Expect(w.data(ctx, Default, "template-0").DeletionTimestamp).To(BeNil())

		By("the Clusters change roles")
		w.pause(ctx, clusterName, true)
		w.hasPause(ctx, "second", stage.IsTrue())
		Expect(w.client.Delete(ctx, &infrav1.Metal3DataClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "first"}})).To(Succeed())
		w.pause(ctx, other, false)
		w.gone(ctx, "template-0", &infrav1.Metal3Data{})
		Eventually(func(g Gomega) {
			claim := &infrav1.Metal3DataClaim{}
			g.Expect(w.client.Get(ctx, w.key("other-1"), claim)).To(Succeed())
			g.Expect(claim.Status.RenderedData).NotTo(BeNil())
		}).Should(Succeed())
		Expect(w.data(ctx, Default, "template-1").DeletionTimestamp).To(BeNil())
		w.pause(ctx, clusterName, false)
		w.gone(ctx, "template-1", &infrav1.Metal3Data{})
	})

	It("neither allocates nor releases an index of a paused template", func(ctx context.Context) {
		w := s.world(ctx)
		w.template(ctx, "template", plain)
		setPause := func(annotations map[string]string) {
			GinkgoHelper()
			stage.Change(ctx, w.client, w.key("template"), &infrav1.Metal3DataTemplate{}, func(template *infrav1.Metal3DataTemplate) {
				template.Annotations = annotations
			})
		}
		w.manager.Start()
		for _, name := range []string{"first", "second"} {
			w.orphan(ctx, name, "template")
			w.hasPause(ctx, name, HaveField("Reason", clusterv1.NotPausedReason))
		}
		Eventually(func(g Gomega) { g.Expect(w.indexes(ctx, g)).To(HaveLen(2)) }).Should(Succeed())
		setPause(map[string]string{clusterv1.PausedAnnotation: ""})
		for _, name := range []string{"first", "second"} {
			w.hasPause(ctx, name, HaveField("Message",
				"Metal3DataTemplate template has the annotation cluster.x-k8s.io/paused: remove the annotation"))
		}
		Expect(w.client.Delete(ctx, &infrav1.Metal3DataClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "first"}})).To(Succeed())
		w.orphan(ctx, "third", "template")
		w.hasPause(ctx, "third", stage.IsTrue())
		var found infrav1.Metal3DataList
		Expect(w.client.List(ctx, &found, client.InNamespace(w.namespace))).To(Succeed())
		Expect(found.Items).To(HaveLen(2))
		Expect(found.Items).To(HaveEach(HaveField("DeletionTimestamp", BeNil())))

		setPause(nil)
		w.hasPause(ctx, "second", HaveField("Reason", clusterv1.NotPausedReason))
		w.gone(ctx, "first", &infrav1.Metal3DataClaim{})
		Eventually(func(g Gomega) {
			g.Expect(w.indexes(ctx, g)).To(ContainElements("second", "third"))
		}).Should(Succeed())
	})

	It("removes the Cluster from the owners of a template that another Cluster uses", func(ctx context.Context) {
		const other = "other"
		w := s.world(ctx)
		w.create(ctx, build.Cluster(other, build.InNamespace(w.namespace), build.InfrastructureReady()))
		w.template(ctx, "template", plain)
		owner := metav1.OwnerReference{
			APIVersion: clusterv1.GroupVersion.String(), Kind: clusterv1.ClusterKind, Name: clusterName, UID: w.cluster.UID,
		}
		fleet := metav1.OwnerReference{APIVersion: "fleet.example/v1", Kind: clusterv1.ClusterKind, Name: clusterName, UID: "fleet"}
		stage.Change(ctx, w.client, w.key("template"), &infrav1.Metal3DataTemplate{}, func(template *infrav1.Metal3DataTemplate) {
			template.OwnerReferences = []metav1.OwnerReference{owner, fleet}
		})
		w.manager.Start()
		owners := func(users int, want gomegatypes.GomegaMatcher) {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				template := &infrav1.Metal3DataTemplate{}
				g.Expect(w.client.Get(ctx, w.key("template"), template)).To(Succeed())
				g.Expect(template.Status.Indexes).To(HaveLen(users))
				g.Expect(template.OwnerReferences).To(want)
			}).Should(Succeed())
		}
		w.orphan(ctx, "first", "template")
		owners(1, ConsistOf(owner, fleet))
		w.orphanIn(ctx, other, "second", "template")
		owners(2, ConsistOf(fleet))
	})
}
