package movelabel_test

import (
	"context"
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

const (
	hosts  = "baremetalhosts.metal3.io"
	images = "dataimages.metal3.io"
)

func describeLabels(s *suite) {
	all := map[string]string{infrav1.DiscoverLabel: "", infrav1.MoveLabel: "", infrav1.MoveHierarchyLabel: ""}

	It("gets no labels with --keep-move-labels=false", func(ctx context.Context) {
		s.manager.Setup = setupWithoutLabels
		s.label(ctx, hosts, nil)
		s.manager.Start()
		Consistently(func(g Gomega) { g.Expect(s.labels(ctx, g, hosts)).To(BeEmpty()) }).Should(Succeed())
		Expect(s.writes.Done()).To(BeEmpty())
	})

	It("gets its labels when the manager starts, and no other definition does", func(ctx context.Context) {
		foreign := []string{s.foreign(ctx, "hosts", "example.com"), s.foreign(ctx, "baremetalracks", "metal3.io")}
		s.label(ctx, hosts, map[string]string{"example.com/by": "operator", infrav1.MoveLabel: "yes"})
		s.manager.Start()
		Eventually(func(g Gomega) {
			g.Expect(s.labels(ctx, g, hosts)).To(Equal(map[string]string{
				"example.com/by": "operator", infrav1.DiscoverLabel: "", infrav1.MoveLabel: "yes", infrav1.MoveHierarchyLabel: "",
			}))
			g.Expect(s.labels(ctx, g, images)).To(Equal(map[string]string{infrav1.DiscoverLabel: "", infrav1.MoveLabel: ""}))
			g.Expect(s.labels(ctx, g, "firmwareschemas.metal3.io")).To(Equal(map[string]string{infrav1.DiscoverLabel: ""}))
			g.Expect(s.labels(ctx, g, "hostclaims.metal3.io")).To(And(
				HaveKey(infrav1.DiscoverLabel), HaveKey(infrav1.MoveLabel), Not(HaveKey(infrav1.MoveHierarchyLabel))))
			g.Expect(s.events(ctx, g, hosts)).To(ContainElement(HavePrefix("LabelledForMove: ")))
			// The CRD of HardwareData has its label already. Each of the others requires one write.
			g.Expect(s.writes.Done()).To(HaveLen(10))
		}).Should(Succeed())
		Consistently(func(g Gomega) {
			for _, name := range foreign {
				g.Expect(s.labels(ctx, g, name)).To(BeEmpty())
			}
			g.Expect(s.writes.Done()).To(HaveLen(10))
		}).Should(Succeed())
	})

	It("reports refused labels, and gets them later", func(ctx context.Context) {
		s.label(ctx, hosts, nil)
		s.writes.Judge(func(write stage.Write) stage.Verdict {
			if write.Name != hosts {
				return stage.Verdict{}
			}
			return stage.Verdict{Err: apierrors.NewForbidden(schema.GroupResource{Resource: "customresourcedefinitions"},
				write.Name, errors.New("denied by a policy"))}
		})
		s.manager.Start()
		Eventually(func(g Gomega) {
			g.Expect(s.events(ctx, g, hosts)).To(ContainElement("LabelFailed: Failed to add label " +
				infrav1.DiscoverLabel + ", " + infrav1.MoveLabel + ", " + infrav1.MoveHierarchyLabel +
				", so clusterctl move fails or leaves objects of the kind behind: customresourcedefinitions \"" + hosts +
				"\" is forbidden: denied by a policy"))
		}).Should(Succeed())
		s.writes.Judge(nil)
		Eventually(func(g Gomega) { g.Expect(s.labels(ctx, g, hosts)).To(Equal(all)) }).Should(Succeed())
	})

	It("gets removed labels again", func(ctx context.Context) {
		s.manager.Start()
		s.label(ctx, hosts, nil)
		Eventually(func(g Gomega) { g.Expect(s.labels(ctx, g, hosts)).To(Equal(all)) }).Should(Succeed())
		s.label(ctx, hosts, map[string]string{infrav1.DiscoverLabel: "", "example.com/by": "operator"})
		Eventually(func(g Gomega) { g.Expect(s.labels(ctx, g, hosts)).To(HaveLen(4)) }).Should(Succeed())
		Consistently(s.writes.Done).Should(HaveExactElements(
			stage.Write{Verb: "patch", Kind: "CustomResourceDefinition", Name: hosts},
			stage.Write{Verb: "patch", Kind: "CustomResourceDefinition", Name: hosts},
		))
	})

	It("gets its labels when it is created later", func(ctx context.Context) {
		s.manager.Start()
		definition := &apiextensionsv1.CustomResourceDefinition{}
		definition.Name = images
		Expect(s.server.Client.Delete(ctx, definition)).To(Succeed())
		Eventually(func(g Gomega) {
			err := s.server.Client.Get(ctx, client.ObjectKey{Name: images}, &apiextensionsv1.CustomResourceDefinition{})
			g.Expect(err).To(HaveOccurred())
			g.Expect(client.IgnoreNotFound(err)).To(Succeed())
		}).Should(Succeed())
		Expect(s.server.InstallDefinitions(ctx, components.BaremetalOperator)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(s.labels(ctx, g, images)).To(HaveKey(infrav1.DiscoverLabel))
		}).Should(Succeed())
	})
}
