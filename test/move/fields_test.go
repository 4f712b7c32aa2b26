package move_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// failCount is a field that a later release of BMO has in the status of each host.
const failCount = "provisioningFailCount"

// laterReleases are the stories of a source with a later release of BMO than the target.
func laterReleases(c *clusters) []story {
	return []story{
		{"moves hosts from a later release of BMO, whose status has fields that the target refuses", func(ctx context.Context) {
			w := c.world(ctx)
			w.fleet(ctx, "cluster", 1, 1)
			defer w.here.admitEveryHost(ctx)()
			defer w.addStatusField(ctx, failCount)()
			w.readyForMove(ctx)
			before := w.trace(ctx)
			w.move(ctx)
			w.unharmed(ctx, before)

			By("moving back, to a release that has the field")
			w.readyForMove(ctx)
			w.move(ctx)
			w.unharmed(ctx, before)
		}},
	}
}

// addStatusField adds a field with a default to the status of hosts on this side. The returned function removes the
// field.
func (w *world) addStatusField(ctx context.Context, name string) (remove func()) {
	GinkgoHelper()
	at := w.here
	property := "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/" + name
	at.changeDefinition(ctx, map[string]any{
		"op": "add", "path": property, "value": map[string]any{"type": "integer", "default": 0},
	})
	hosts := &unstructured.UnstructuredList{}
	hosts.SetAPIVersion("metal3.io/v1alpha1")
	hosts.SetKind("BareMetalHostList")
	Eventually(func(g Gomega) {
		g.Expect(at.client.List(ctx, hosts, client.InNamespace(w.namespace))).To(Succeed())
		g.Expect(hosts.Items).NotTo(BeEmpty())
		for _, host := range hosts.Items {
			_, has, err := unstructured.NestedFieldNoCopy(host.Object, "status", name)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(has).To(BeTrue(), host.GetName())
		}
	}).Should(Succeed())
	return func() { at.changeDefinition(ctx, map[string]any{"op": "remove", "path": property}) }
}

// admitEveryHost deletes the webhook for hosts, which accepts only the fields of its own release. The returned function
// restores the webhook.
func (s *side) admitEveryHost(ctx context.Context) (restore func()) {
	GinkgoHelper()
	var configurations admissionv1.ValidatingWebhookConfigurationList
	Expect(s.client.List(ctx, &configurations)).To(Succeed())
	removed := slices.DeleteFunc(configurations.Items, func(configuration admissionv1.ValidatingWebhookConfiguration) bool {
		return !strings.HasPrefix(configuration.Name, "baremetal-operator")
	})
	Expect(removed).To(HaveLen(1))
	Expect(s.client.Delete(ctx, &removed[0])).To(Succeed())
	return func() {
		removed[0].ResourceVersion = ""
		Expect(s.client.Create(ctx, &removed[0])).To(Succeed())
	}
}

// changeDefinition changes the CRD of BareMetalHosts by a JSON patch.
func (s *side) changeDefinition(ctx context.Context, change map[string]any) {
	GinkgoHelper()
	patch, err := json.Marshal([]any{change})
	Expect(err).NotTo(HaveOccurred())
	definition := &apiextensionsv1.CustomResourceDefinition{}
	definition.Name = "baremetalhosts.metal3.io"
	Expect(s.client.Patch(ctx, definition, client.RawPatch(types.JSONPatchType, patch))).To(Succeed())
}
