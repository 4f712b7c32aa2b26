package e2e_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/witness"
)

// returned is for how long a management machine that was switched on again is watched. Its Ironic looks at the power of
// the machines that it knows every half minute.
const returned = 40 * time.Second

// describePivot are the stories of a cluster that comes to manage itself, twice, and goes back. No person arms a node
// any more: that is the provider's part.
func describePivot(e *endpoint) {
	It("can move when its cluster has what manages clusters", func(ctx context.Context) {
		e.disarmNodes(ctx)
		Expect(e.pivot(ctx, e.workload, "preflight")).To(ended(1, "target", "CustomResourceDefinition", "is missing"))
		Expect(bed.lab.Install(ctx, e.workload, bed.lab.Ironic())).To(Succeed())
		e.untilReadyForMove(ctx, e.workload)
	}, NodeTimeout(storyLimit))

	It("stays where it is when its cluster moves into itself, whose nodes are armed then", func(ctx context.Context) {
		e.untouched = time.Now()
		e.move(ctx, e.workload)
		e.untilSettled(ctx)
		e.untilArmed(ctx)
		e.untilHolder(ctx, infrav1.HolderManagement)
		Expect(witness.Longest(e.seen.Held.Since(e.untouched), func(span witness.Span) bool {
			return !strings.Contains(span.Who, lab.ManagementName)
		})).To(BeNumerically("<", moment), "somebody else had it, or nobody")
		e.expectUntouched()
	}, NodeTimeout(storyLimit))

	It("goes to a node when the management machine loses power", func(ctx context.Context) {
		Expect(bed.lab.Machine(lab.ManagementName).PowerOff(ctx)).To(Succeed())
		e.untilHolder(ctx, infrav1.HolderControlPlane)
		e.untilHostsKnown(ctx)
		e.expectUntouched()
	}, NodeTimeout(storyLimit))

	It("makes one more node of a host for a cluster that manages itself", func(ctx context.Context) {
		began := time.Now()
		added := e.addWorker(ctx)
		e.untilSettled(ctx)
		e.untilHostsKnown(ctx)
		changed := changes(began)
		Expect(changed).NotTo(BeEmpty(), "somebody has written an image")
		Expect(changed).To(HaveEach(HaveField("Machine", added)), "no other machine is touched")
	}, NodeTimeout(storyLimit))

	It("goes on when a cluster that manages itself replaces its control plane", Label(slow), func(ctx context.Context) {
		before := e.machineNames(ctx)
		e.rollOut(ctx)
		e.untilReplaced(ctx, before)
		e.untilSettled(ctx)
		e.untilArmed(ctx)
		e.untilHolder(ctx, infrav1.HolderControlPlane)
		e.untilHostsKnown(ctx)
	}, NodeTimeout(rolloutLimit))

	It("stays with its node when the management machine is switched on again", func(ctx context.Context) {
		holder := e.holder(ctx)
		e.untouched = time.Now()
		Expect(bed.lab.Machine(lab.ManagementName).PowerOn(ctx)).To(Succeed())
		e.untilStarted(ctx, e.untouched)
		e.untilGuardSays(ctx, "HandedOver")
		Consistently(func(g Gomega) {
			g.Expect(e.seen.Held.Since(e.untouched)).NotTo(ContainElement(HaveField("Who", ContainSubstring(lab.ManagementName))))
			g.Expect(changes(e.untouched)).To(BeEmpty())
		}, returned, often).Should(Succeed())
		Expect(e.holder(ctx)).To(Equal(holder))
		e.untilHolder(ctx, infrav1.HolderControlPlane)
		e.untilHostsKnown(ctx)
	}, NodeTimeout(storyLimit))

	It("goes back to the management cluster when its cluster moves back there", func(ctx context.Context) {
		e.comeBack(ctx)
	}, NodeTimeout(storyLimit))

	It("goes to a node when it is demoted after another move, and comes back once more", func(ctx context.Context) {
		e.untilReadyForMove(ctx, e.workload)
		e.move(ctx, e.workload)
		e.untilSettled(ctx)
		e.untilArmed(ctx)
		Expect(e.demote(ctx)).To(ended(0, "holds the endpoint after", "Its Ironic knows 4 of 4 hosts after"))
		e.untilHolder(ctx, infrav1.HolderControlPlane)
		e.untilHostsKnown(ctx)
		e.expectUntouched()

		scaled := time.Now()
		Expect(e.demote(ctx, "--undo")).To(ended(0, "has 1 replica now, before 0", "it does not take the address"))
		e.untilIronicStarted(ctx, scaled)
		e.untilGuardSays(ctx, "HandedOver")
		e.untilHolder(ctx, infrav1.HolderControlPlane)
		e.comeBack(ctx)
	}, NodeTimeout(2*storyLimit))
}
