package move_test

import (
	"context"
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inspectedAgain is the story of a host that gets network cards before and after a move.
func inspectedAgain(c *clusters) []story {
	return []story{{"moves hardware data that has changed, and that changes again after the move", func(ctx context.Context) {
		w := c.world(ctx)
		w.fleet(ctx, "cluster", 1, 1)
		w.addCard(ctx, "cluster-free-0", 1)
		before := w.trace(ctx)
		w.readyForMove(ctx)
		w.move(ctx)
		w.unharmed(ctx, before)
		w.addCard(ctx, "cluster-free-0", 2)

		By("claiming the host with its three cards")
		w.machine(ctx, "cluster", "cluster-free-0")
		w.settled(ctx)
		w.unharmed(ctx, before.except("cluster-free-0"))
	}}}
}

// addCard adds a network card to the machine of a host, and inspects the host again.
func (w *world) addCard(ctx context.Context, host string, number int) {
	GinkgoHelper()
	card := fmt.Sprintf("02:23:00:%02x:%02x:%02x", number, w.serial>>8, w.serial&0xff)
	w.ironic.AddCard(w.namespace+"~"+host, card)
	w.change(ctx, host, func(host *bmov1alpha1.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&host.ObjectMeta, bmov1alpha1.InspectAnnotationPrefix, "")
	})
	Eventually(func(g Gomega) {
		hardware := &bmov1alpha1.HardwareData{}
		g.Expect(w.here.client.Get(ctx, w.key(host), hardware)).To(Succeed())
		g.Expect(hardware.Spec.HardwareDetails.NIC).To(And(HaveLen(number+1), ContainElement(HaveField("MAC", card))))
	}).Should(Succeed())
	w.settled(ctx)
}

// builtImages is the story of a BMO that waits for an image of the agent for each host, as it does with an image
// builder.
func builtImages(c *clusters) []story {
	return []story{{"moves hosts whose agents have images of their own", func(ctx context.Context) {
		w := c.world(ctx)
		defer w.buildImages(ctx)()
		before := w.readyFleet(ctx)
		free := []string{"cluster-free-0", "cluster-free-1"}
		for _, host := range free {
			w.eventuallyBuilt(ctx, host)
		}
		w.move(ctx)
		w.unharmed(ctx, before)
		for _, host := range free {
			w.eventuallyBuilt(ctx, host)
		}
		Expect(w.there.client.Get(ctx, w.key(free[0]), &bmov1alpha1.PreprovisioningImage{})).To(
			MatchError(ContainSubstring("not found")))

		By("provisioning a host in the target")
		w.machine(ctx, "cluster", free[0])
		w.settled(ctx)
		w.unharmed(ctx, before.except(free[0]))
	}}}
}

// buildImages makes the BMOs of both sides create a PreprovisioningImage for each host. The returned function ends this.
func (w *world) buildImages(ctx context.Context) (end func()) {
	GinkgoHelper()
	with := func(flags ...string) {
		for _, at := range []*side{w.source, w.target} {
			at.bmo.Flags = flags
			at.restartBMO(ctx)
		}
	}
	with("-build-preprov-image")
	return func() { with() }
}

// eventuallyBuilt waits until the image of a host is built on this side, and belongs to the host.
func (w *world) eventuallyBuilt(ctx context.Context, host string) {
	GinkgoHelper()
	owner := w.hosts(ctx, Default, w.here)[host]
	Expect(owner).NotTo(BeNil())
	Eventually(func(ctx context.Context) (*bmov1alpha1.PreprovisioningImage, error) {
		image := &bmov1alpha1.PreprovisioningImage{}
		return image, w.here.client.Get(ctx, w.key(host), image)
	}).WithContext(ctx).Should(And(isBuilt(), HaveField("OwnerReferences", ContainElement(HaveField("UID", owner.UID)))))
}

func isBuilt() gomegatypes.GomegaMatcher {
	return WithTransform(func(image *bmov1alpha1.PreprovisioningImage) bool {
		return meta.IsStatusConditionTrue(image.Status.Conditions, string(bmov1alpha1.ConditionImageReady)) &&
			image.Status.KernelUrl != ""
	}, BeTrue())
}
