package move_test

import (
	"context"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/hostmove"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// lostRegistration is what BMO makes of a host whose new ID it could not save, after it had registered the host with
// another Ironic. If BMO saves the ID by itself one day, this provider need not help.
func lostRegistration(c *clusters) story {
	return story{"has BMO save the registration of a host that it lost", func(ctx context.Context) {
		w := c.world(ctx)
		w.cluster(ctx, "cluster")
		w.host(ctx, "host", imaged)
		w.settled(ctx)
		w.observed(ctx, "host")
		node, known := w.ironic.Node(w.namespace + "~host")
		Expect(known).To(BeTrue())

		const lost = "00000000-0000-0000-0000-000000000000"
		stage.ChangeStatus(ctx, w.here.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Status.Provisioning.ID = lost
		})
		before := w.trace(ctx)
		for touch := range 3 {
			was := w.ironic.Looks(node.Name)
			w.touch(ctx, "host", touch)
			Eventually(func() int { return w.ironic.Looks(node.Name) }).Should(BeNumerically(">", was))
		}
		w.untouch(ctx, "host")
		w.eventually(ctx, "host", HaveField("Status.Provisioning.ID", lost))

		By("changing the Secret of its BMC")
		w.change(ctx, "host", func(host *bmov1alpha1.BareMetalHost) {
			host.Annotations[infrav1.IronicHolderAnnotation] = "Management/m"
		})
		store := hostmove.NewStore(hoststore.New(w.here.client, w.here.client), w.here.client, w.here.client)
		Expect(store.Mark(ctx, w.hosts(ctx, Default, w.here)["host"])).To(Succeed())
		w.eventually(ctx, "host", isFine(), inState(bmov1alpha1.StateProvisioned),
			HaveField("Status.Provisioning.ID", node.UUID))
		w.nothingDone(before, "update")
	}}
}
