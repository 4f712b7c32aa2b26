package plugin_test

import (
	"context"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// lock creates the Lease of another command.
func (w world) lock(ctx context.Context) *coordinationv1.Lease {
	GinkgoHelper()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "metal3-pivot"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("another-user")},
	}
	w.create(ctx, lease)
	return lease
}

// isUnlocked requires that no command has the Lease.
func (w world) isUnlocked(ctx context.Context, because string) {
	GinkgoHelper()
	err := w.client.Get(ctx, w.key("metal3-pivot"), &coordinationv1.Lease{})
	Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%s: %v", because, err)
}

// describeExclusion has the stories of two commands in one namespace.
func describeExclusion(c *clusters) {
	It("waits while another command moves or removes objects", func(ctx context.Context) {
		namespace, source, target := c.halfMoved(ctx)
		source.resumed(ctx)
		lease := source.lock(ctx)
		Expect(c.run(ctx, namespace, "abort --timeout 1s")).To(end(2, "another pivot command did not end within 1s"))
		waiting := c.start(ctx, namespace, "abort")
		waiting.tells("Waiting: another-user runs a pivot command in namespace " + namespace)
		Expect(source.isPaused(ctx)).To(BeTrue())
		source.unpauseCluster(ctx)
		source.discard(ctx, lease)
		waiting.ends(1, "the course of the move changed in the meantime")
		Expect(target.hosts(ctx)).To(HaveLen(1))

		lease = source.lock(ctx)
		waiting = c.start(ctx, namespace, "abort")
		waiting.tells("Waiting: another-user")
		source.discard(ctx, lease)
		waiting.ends(0, "Done.")
		target.isEmpty(ctx)
		source.isUnlocked(ctx, "the command has ended")
	})

	It("removes nothing if the objects changed while another command ran", func(ctx context.Context) {
		namespace, source, target := c.halfMoved(ctx)
		for name, command := range map[string]string{"first": "abort", "second": "clean --target"} {
			lease := source.lock(ctx)
			waiting := c.start(ctx, namespace, command)
			waiting.tells("Waiting: another-user")
			for _, w := range []world{source, target} {
				w.create(ctx, build.Host(name, build.Available(), build.Paused(infrav1.HostPausedByProvider)))
			}
			source.discard(ctx, lease)
			waiting.ends(1, "the confirmed objects changed in the meantime")
		}
		Expect(source.isPaused(ctx)).To(BeTrue())
		Expect(target.hosts(ctx)).To(HaveLen(3))
	})

	It("moves nothing if the hosts changed while another command ran", func(ctx context.Context) {
		source := settle(ctx, c.source, stage.Namespace(ctx, c.source))
		lease := source.lock(ctx)
		waiting := c.start(ctx, source.namespace, "run")
		waiting.tells("Waiting: another-user")
		source.create(ctx, build.Host("young", build.Available()))
		source.discard(ctx, lease)
		waiting.ends(1, "the confirmed objects changed in the meantime", "Now: 1 Cluster, 1 Machine, 2 hosts are moved")

		lease = source.lock(ctx)
		waiting = c.start(ctx, source.namespace, "run")
		waiting.tells("Waiting: another-user")
		stage.ChangeStatus(ctx, source.client, source.key("young"), &bmov1alpha1.BareMetalHost{},
			func(host *bmov1alpha1.BareMetalHost) { host.Status.Provisioning.State = bmov1alpha1.StateInspecting })
		source.discard(ctx, lease)
		waiting.ends(1, "the obstacles changed in the meantime", "Now: source: host young is inspecting")
		Expect(source.isPaused(ctx)).To(BeFalse())
	})

	It("does not keep other commands away while it asks", func(ctx context.Context) {
		_, source, target := c.halfMoved(ctx)
		source.discard(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "host-bmc"}})
		target.resumed(ctx)
		resume, answer := c.answeringTo(ctx, c.target.Kubeconfig, source, "resume")
		resume.tells("objects are removed in the source. Type yes")
		source.isUnlocked(ctx, "the command asks before it removes objects")
		answer("yes")
		resume.tells("are unpaused in the target. Type yes")
		source.isUnlocked(ctx, "the command asks before it unpauses the target")
		lease := source.lock(ctx)
		answer("yes")
		resume.tells("Waiting: another-user")
		Expect(target.isPaused(ctx)).To(BeTrue())
		source.discard(ctx, lease)
		resume.ends(0, "Unpaused Cluster cluster in the target", "Done.")
	})
}
