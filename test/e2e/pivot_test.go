package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/bmc"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/witness"
)

// returned is for how long a management machine that was switched on again is watched. Its Ironic looks at the power of
// the machines that it knows every half minute.
const returned = 40 * time.Second

// describePivot are the stories of a cluster that comes to manage itself, twice, and goes back, whatever gets lost in the
// middle. No person arms a node any more: that is the provider's part.
func describePivot(e *endpoint) {
	It("can move when its cluster has what manages clusters", func(ctx context.Context) {
		e.disarmNodes(ctx)
		Expect(e.pivot(ctx, e.workload, "preflight")).To(ended(1, "target", "CustomResourceDefinition", "is missing"))
		e.inviteGuests(ctx)
		Expect(bed.lab.Install(ctx, e.workload, bed.lab.Ironic())).To(Succeed())
		e.seatGuests(ctx)
		e.untilReadyForMove(ctx, e.workload)
	}, NodeTimeout(storyLimit))

	It("stays where it is when its cluster moves into itself with hosts of every kind, and its nodes are armed then",
		func(ctx context.Context) {
			special := []string{late, paused, locked}
			var images []bmc.Operation
			before := e.pictures(ctx, Default, special...)
			e.untouched = time.Now()
			finish := e.provisionLate(ctx)
			started := e.begin(ctx, e.workload)
			e.untilWaitingForLate(ctx)
			finish()
			e.arrive(ctx, started)
			e.untilSettled(ctx)
			e.untilArmed(ctx)
			e.untilHolder(ctx, infrav1.HolderManagement)
			Expect(witness.Longest(e.seen.Held.Since(e.untouched), func(span witness.Span) bool {
				return !strings.Contains(span.Who, lab.ManagementName)
			})).To(BeNumerically("<", moment), "somebody else had it, or nobody")
			e.untilSame(ctx, before, special...)
			e.expectGuestsKept(ctx)
			e.expectUntouched(ctx, late)
			Expect(changes(e.untouched, allBut(late)...)).To(ContainElement(And(HaveField("Resource", "disk"),
				HaveField("Method", http.MethodPut)), &images))
			Expect(images).To(HaveLen(1), "the host that was being provisioned is provisioned once")
			e.thawGuests(ctx)
			e.expectUntouched(ctx, late)
			e.dismissGuests(ctx)
			e.untouched = time.Now()
		}, NodeTimeout(storyLimit))

	It("goes to a node when the management machine loses power", func(ctx context.Context) {
		Expect(bed.lab.Machine(lab.ManagementName).PowerOff(ctx)).To(Succeed())
		e.untilHolder(ctx, infrav1.HolderControlPlane)
		e.untilHostsKnown(ctx)
		e.expectUntouched(ctx)
	}, NodeTimeout(storyLimit))

	It("makes one more node of a host for a cluster that manages itself", func(ctx context.Context) {
		began := time.Now()
		added := e.addWorker(ctx)
		e.untilSettled(ctx)
		e.untilHostsKnown(ctx)
		changed := changes(began)
		Expect(changed).NotTo(BeEmpty(), "somebody has written an image")
		Expect(changed).To(HaveEach(HaveField("Machine", added)), "no other machine is touched")
		Expect(e.ironicWorked(ctx, began)).NotTo(BeEmpty(), "its Ironic says so as well")
		Expect(e.ironicWorked(ctx, began, added)).To(BeEmpty(), "of no other machine")
	}, NodeTimeout(storyLimit))

	It("goes on when a cluster that manages itself replaces its control plane by one with cold standby", Label(slow),
		func(ctx context.Context) {
			before := e.machineNames(ctx)
			e.standBy(ctx, infrav1.StandbyCold)
			e.rollOut(ctx)
			e.untilReplaced(ctx, before)
			e.untilReadyAgain(ctx)
			e.untilOnlyHolderServes(ctx)

			By("losing the node that has the address, and maybe some of what manages the cluster")
			lost := e.holder(ctx)
			Expect(bed.lab.Machine(lost).PowerOff(ctx)).To(Succeed())
			e.untilElsewhere(ctx, lost)
			Expect(bed.lab.Machine(lost).PowerOn(ctx)).To(Succeed())
			e.untilReadyAgain(ctx)
			e.untilOnlyHolderServes(ctx)
			Expect(e.holder(ctx)).NotTo(Equal(lost))
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

	It("stays with its node when its cluster is to move back and the API server there is away", Label(slow),
		func(ctx context.Context) {
			e.untilReadyForMove(ctx, bed.lab.Management())
			before := e.pictures(ctx, Default)
			e.untouched = time.Now()
			e.moveInVain(ctx, bed.lab.Management())
			e.untilSame(ctx, before)
			e.untilSettled(ctx)
			e.untilHolder(ctx, infrav1.HolderControlPlane)
			e.untilHostsKnown(ctx)
			e.expectUntouched(ctx)
		}, NodeTimeout(storyLimit))

	It("goes back to the management cluster when its cluster moves back, although clusterctl is killed once",
		func(ctx context.Context) {
			e.removeWorker(ctx)
			e.untouched = time.Now()
			e.comeBack(ctx, e.moveAtSecondAttempt)
		}, NodeTimeout(storyLimit))

	It("is back with the management machine that loses power while its cluster is copied from there",
		func(ctx context.Context) {
			e.untilReadyForMove(ctx, e.workload)
			e.losePowerDuringMove(ctx, e.workload)
			e.unpause(ctx)
			e.untilTakenBack(ctx)
			e.untilSettled(ctx)
			e.untilHolder(ctx, infrav1.HolderManagement)
			e.untilHostsKnown(ctx)
			e.expectUntouched(ctx)
		}, NodeTimeout(storyLimit))

	It("goes to a node when it is demoted after another move, right before and after which the provider is upgraded",
		func(ctx context.Context) {
			Expect(bed.lab.Upgrade(ctx, e.home)).To(Succeed())
			e.moveAgain(ctx, e.workload)
			Expect(bed.lab.Upgrade(ctx, e.home)).To(Succeed())
			e.untilSettled(ctx)
			e.untilArmed(ctx)
			known := fmt.Sprintf("Its Ironic knows %[1]d of %[1]d hosts after", controlPlanes+e.workers)
			Expect(e.demote(ctx)).To(ended(0, "holds the endpoint after", known))
			e.untilHolder(ctx, infrav1.HolderControlPlane)
			e.untilHostsKnown(ctx)
			e.expectUntouched(ctx)
		}, NodeTimeout(storyLimit))

	It("stays with its node when that is undone, and comes back once more through a partition", func(ctx context.Context) {
		scaled := time.Now()
		Expect(e.demote(ctx, "--undo")).To(ended(0, "has 1 replica now, before 0", "it does not take the address"))
		e.untilIronicStarted(ctx, scaled)
		e.untilGuardSays(ctx, "HandedOver")
		e.untilHolder(ctx, infrav1.HolderControlPlane)
		e.comeBack(ctx, e.moveThroughPartition)
	}, NodeTimeout(storyLimit))

	describeLoss(e)
}

// describeLoss are the stories of moves that leave something behind, of a move without a cluster to move from, and of one
// with company. They take long.
func describeLoss(e *endpoint) {
	It("stays with the management cluster when its cluster moves into itself, although clusterctl is killed while it deletes",
		Label(slow), func(ctx context.Context) {
			e.untilReadyForMove(ctx, e.workload)
			before := e.pictures(ctx, Default)
			e.untouched = time.Now()
			left := e.home
			e.loseWhileDeleting(ctx, e.workload)
			e.live(e.workload)
			e.unpause(ctx)
			e.untilSettled(ctx)
			e.untilArmed(ctx)
			e.clear(ctx, left)
			e.untilHolder(ctx, infrav1.HolderManagement)
			e.untilHostsKnown(ctx)
			e.untilSame(ctx, before)
			e.expectUntouched(ctx)
		}, NodeTimeout(storyLimit))

	It("stays there when its cluster moves back together with another one of its namespace", Label(slow),
		func(ctx context.Context) {
			e.addCompany(ctx)
			e.untilSettled(ctx)
			e.untouched = time.Now()
			before := e.pictures(ctx, Default)
			e.comeBack(ctx, e.move)
			e.untilSame(ctx, before)
			e.removeCompany(ctx)
		}, NodeTimeout(storyLimit))

	It("stays there when its cluster is saved in files and goes on in itself", Label(slow), func(ctx context.Context) {
		e.untilReadyForMove(ctx, e.workload)
		before, free := e.pictures(ctx, Default), e.free(ctx)
		e.untouched = time.Now()
		e.moveThroughFiles(ctx, e.workload)
		e.untilSettled(ctx)
		e.untilArmed(ctx)
		e.untilHolder(ctx, infrav1.HolderManagement)
		e.untilHostsKnown(ctx)
		for name, picture := range e.pictures(ctx, Default, free...) {
			Expect(picture.Spec).To(Equal(before[name].Spec), name)
			Expect(picture.Status.Provisioning.ID).To(Equal(before[name].Status.Provisioning.ID), name)
		}
		// Of a host without an image nobody knows what it is: it is inspected again.
		e.expectUntouched(ctx, free...)
	}, NodeTimeout(storyLimit))

	It("goes to a node when the management machine is lost while its cluster is deleted there, and stays when it is found",
		Label(slow), func(ctx context.Context) {
			// Free hosts that came out of files were inspected anew.
			e.untouched = time.Now()
			e.comeBack(ctx, e.move)
			e.untilReadyForMove(ctx, e.workload)
			e.untouched = time.Now()
			left := e.home
			e.loseManagementWhileDeleting(ctx, e.workload)
			e.untilSettled(ctx)
			e.untilHolder(ctx, infrav1.HolderControlPlane)
			e.untilHostsKnown(ctx)
			e.expectUntouched(ctx)

			found := time.Now()
			Expect(bed.lab.Machine(lab.ManagementName).PowerOn(ctx)).To(Succeed())
			e.untilStarted(ctx, found)
			letGo(ctx, left)
			e.clear(ctx, left)
			e.untilGuardSays(ctx, "HandedOver")
			e.untilHolder(ctx, infrav1.HolderControlPlane)
			e.expectUntouched(ctx)
		}, NodeTimeout(storyLimit))
}
