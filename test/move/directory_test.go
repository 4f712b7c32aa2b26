package move_test

import (
	"context"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// directories are the stories of a copy in files. clusterctl writes it without waiting for block-move, so it contains
// no status of hosts.
func directories(c *clusters) []story {
	return []story{
		{"saves everything in a directory, and restores it without provisioning anything", func(ctx context.Context) {
			w := c.world(ctx)
			w.fleet(ctx, "cluster", 1, 1)
			w.host(ctx, "own", imaged)
			w.settled(ctx)
			w.readyForMove(ctx)
			before := w.trace(ctx)
			folder := GinkgoT().TempDir()
			_, err := w.clusterctl.Run(ctx, "move", "--kubeconfig="+w.here.kubeconfig, "--to-directory="+folder,
				"--namespace="+w.namespace)
			Expect(err).NotTo(HaveOccurred())
			w.unharmed(ctx, before)
			w.readyForMove(ctx)

			By("losing the source")
			w.clear(ctx, w.here)
			_, err = w.clusterctl.Run(ctx, "move", "--to-kubeconfig="+w.there.kubeconfig, "--from-directory="+folder)
			Expect(err).NotTo(HaveOccurred())
			w.here, w.there = w.there, w.here
			ours := isPausedBy(infrav1.HostPausedByProvider)
			w.eventually(ctx, "cluster-0", ours)
			Consistently(func(g Gomega) {
				for _, name := range []string{"cluster-0", "own"} {
					g.Expect(w.hosts(ctx, g, w.here)).To(HaveKeyWithValue(name, And(ours, inState(bmov1alpha1.StateNone))))
				}
			}).Should(Succeed())

			By("finding the node of the machine")
			w.pretend(ctx)
			w.eventually(ctx, "cluster-0", inState(bmov1alpha1.StateProvisioned), isFine(), isNotPaused(),
				HaveField("Status.PoweredOn", true),
				HaveField("Status.Provisioning.ID", before.pictures["cluster-0"].Status.Provisioning.ID),
				HaveField("Status.HardwareDetails", before.pictures["cluster-0"].Status.HardwareDetails),
				HaveField("Spec", before.pictures["cluster-0"].Spec))
			w.eventually(ctx, "cluster-free-0", inState(bmov1alpha1.StateAvailable), isFine(), isNotPaused())
			// The API does not show whether the host runs its image. The user runs pivot keep.
			w.eventually(ctx, "own", ours, inState(bmov1alpha1.StateNone))
			w.nothingDone(before.except("cluster-free-0"), "update")
			w.keep(ctx, "own")
			w.eventually(ctx, "own", inState(bmov1alpha1.StateProvisioned), isFine(), HaveField("Status.PoweredOn", true))
			w.nothingDone(before.except("cluster-free-0"), "update")
		}},
	}
}
