package e2e_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/bmc"
)

// returned is how long a management machine is observed after it was powered on again. Its Ironic compares the power
// of its nodes every half minute.
const returned = 40 * time.Second

// describePivot has the stories of a cluster that is moved to its control plane. The provider arms the nodes.
func describePivot(e *endpoint) {
	e.story("can move when its cluster has the providers", unarmed, movable, func(ctx context.Context) {
		Expect(e.pivot(ctx, e.workload, "preflight")).To(ended(1, "target", "CustomResourceDefinition", "is missing"))
		e.install(ctx)
	}, Label(spine))

	e.story("stays with the management cluster when its cluster is moved to its control plane", movable, arrived,
		func(ctx context.Context) {
			e.untouched = time.Now()
			e.moveIn(ctx)
		}, Label(spine))

	e.story("goes to a node when the management machine loses power", arrived, alone, e.loseManagement, Label(spine))

	e.story("provisions one more worker for a cluster that manages itself", alone, alone, func(ctx context.Context) {
		began := time.Now()
		added := e.addWorker(ctx)
		e.untilAddressed(ctx)
		e.untilSettled(ctx)
		e.untilHostsKnown(ctx)
		changed := changes(began)
		Expect(changed).NotTo(BeEmpty(), "an image was written")
		Expect(changed).To(HaveEach(HaveField("Machine", added)), "no other machine is changed")
		Expect(e.ironicWorked(ctx, began)).NotTo(BeEmpty(), "Ironic of the node logs it too")
		Expect(e.ironicWorked(ctx, began, added)).To(BeEmpty(), "of no other machine")
	}, Label(spine))

	e.story("goes to another node while a worker is deployed, which starts again", alone, alone, func(ctx context.Context) {
		finish, err := bed.lab.BMC().HoldImage(lab.NodeImage)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(finish)
		began := time.Now()
		e.scaleWorkers(ctx, 1)
		Eventually(func() int { return bed.lab.BMC().Held(lab.NodeImage) }, patiently()...).Should(Equal(1), "an agent waits")
		lost := e.holder(ctx)
		Expect(bed.lab.Machine(lost).PowerOff(ctx)).To(Succeed())
		e.untilElsewhere(ctx, lost)
		finish()
		Expect(bed.lab.Machine(lost).PowerOn(ctx)).To(Succeed())
		e.untilReadyAgain(ctx)

		changed := changes(began)
		Expect(changed).To(HaveEach(HaveField("Machine", changed[0].Machine)), "no other machine is changed")
		e.removeWorkers(ctx)
	})

	e.story("goes to another node when the Machine of its node is replaced", alone, alone, func(ctx context.Context) {
		lost := e.holder(ctx)
		e.replaceMachine(ctx, lost)
		e.untilReadyAgain(ctx)
	})

	e.story("survives a rollout of the control plane to cold standby", alone, alone, func(ctx context.Context) {
		before := e.machineNames(ctx)
		e.standBy(ctx, infrav1.StandbyCold)
		e.rollOut(ctx)
		e.untilReplaced(ctx, before)
		e.untilReadyAgain(ctx)
		e.untilOnlyHolderServes(ctx)

		By("losing the VIP holder, and maybe controllers on it")
		lost := e.holder(ctx)
		Expect(bed.lab.Machine(lost).PowerOff(ctx)).To(Succeed())
		e.untilElsewhere(ctx, lost)
		Expect(bed.lab.Machine(lost).PowerOn(ctx)).To(Succeed())
		e.untilReadyAgain(ctx)
		e.untilOnlyHolderServes(ctx)
		Expect(e.holder(ctx)).NotTo(Equal(lost))
	})

	e.story("stays with its node when the management machine is switched on again", alone, beside, func(ctx context.Context) {
		holder := e.holder(ctx)
		e.untouched = time.Now()
		e.restoreManagement(ctx)
		// The management Ironic compares the power of its machines twice in this time.
		Consistently(func(g Gomega) {
			g.Expect(e.seen.Held.Since(e.untouched)).NotTo(ContainElement(HaveField("Who", ContainSubstring(lab.ManagementName))))
			g.Expect(changes(e.untouched)).To(BeEmpty())
		}, returned, often).Should(Succeed())
		Expect(e.holder(ctx)).To(Equal(holder))
		e.untilHostsKnown(ctx)
	})
}

// describeReturn has the stories of a cluster that moves back and again to its control plane.
func describeReturn(e *endpoint) {
	e.story("goes back to the management cluster when its cluster moves back", beside, movable, func(ctx context.Context) {
		e.untouched = time.Now()
		before := e.allocated(ctx, Default)
		e.comeBack(ctx, e.move)
		Expect(e.allocated(ctx, Default)).To(Equal(before))
		e.untilAddressed(ctx)
	}, Label(spine))

	e.story("stays with the management cluster when hosts of every kind move", movable, arrived, func(ctx context.Context) {
		e.inviteGuests(ctx)
		e.seatGuests(ctx)
		special := []string{late, paused, locked}
		var media []bmc.Operation
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
		e.expectHeldByManagement(e.untouched)
		e.untilSame(ctx, before, special...)
		e.expectGuestsKept(ctx)
		e.expectUntouched(ctx, late)
		asked := changes(e.untouched, allBut(late)...)
		Expect(asked).To(ContainElement(And(HaveField("Resource", "boot"), HaveField("Detail", HavePrefix("Hdd ")))),
			"the host boots the written image")
		Expect(asked).To(ContainElement(HaveField("Resource", "insert"), &media))
		Expect(media).To(Or(HaveLen(1), HaveLen(2)),
			"its agent boots for cleaning and for writing the image")
		e.thawGuests(ctx)
		e.expectUntouched(ctx, late)
		e.dismissGuests(ctx)
	})

	e.story("stays with its node when a move back fails because the API server there is unavailable", beside, beside,
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
		})

	e.story("goes back to the management cluster although clusterctl is killed once", beside, movable,
		func(ctx context.Context) {
			e.removeWorkers(ctx)
			e.untouched = time.Now()
			e.comeBack(ctx, e.moveAtSecondAttempt)
		})

	e.story("returns with the management machine that loses power while clusterctl copies", movable, movable,
		func(ctx context.Context) {
			e.untouched = time.Now()
			e.untilReadyForMove(ctx, e.workload)
			e.losePowerDuringMove(ctx, e.workload)
			e.unpause(ctx)
			e.untilTakenBack(ctx)
			e.untilSettled(ctx)
			e.untilHolder(ctx, infrav1.HolderManagement)
			e.untilHostsKnown(ctx)
			e.expectUntouched(ctx)
		})

	e.story("goes to a node when it is demoted after a move, right before and after which the provider is upgraded",
		movable, demoted, func(ctx context.Context) {
			e.untouched = time.Now()
			Expect(bed.lab.Upgrade(ctx, e.home)).To(Succeed())
			e.moveAgain(ctx, e.workload)
			Expect(bed.lab.Upgrade(ctx, e.home)).To(Succeed())
			e.untilSettled(ctx)
			e.untilArmed(ctx)
			known := fmt.Sprintf("Its Ironic has registered %[1]d of %[1]d hosts after", *controlPlanes+e.workers)
			Expect(e.demote(ctx)).To(ended(0, "holds the endpoint after", known))
			e.untilHolder(ctx, infrav1.HolderControlPlane)
			e.untilHostsKnown(ctx)
			e.expectUntouched(ctx)
		})

	e.story("stays with its node when the demotion is undone, and comes back through a partition", demoted, movable,
		func(ctx context.Context) {
			e.untouched = time.Now()
			scaled := time.Now()
			Expect(e.demote(ctx, "--undo")).To(ended(0, "has 1 replica now, before 0", "it does not take the address"))
			e.untilIronicStarted(ctx, scaled)
			e.untilGuardSays(ctx, "HandedOver")
			e.untilHolder(ctx, infrav1.HolderControlPlane)
			e.comeBack(ctx, e.moveThroughPartition)
		})
}

// describeLoss has the stories of moves that leave objects behind, of a move without a source cluster, and of two
// clusters in one namespace.
func describeLoss(e *endpoint) {
	e.story("stays with the management cluster when clusterctl is killed while it deletes", movable, arrived,
		func(ctx context.Context) {
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
		})

	e.story("stays with the management cluster when two clusters of a namespace move back", arrived, movable,
		func(ctx context.Context) {
			e.addCompany(ctx)
			e.untilSettled(ctx)
			e.untouched = time.Now()
			before := e.pictures(ctx, Default)
			e.comeBack(ctx, e.move)
			e.untilSame(ctx, before)
			e.removeCompany(ctx)
		})

	e.story("stays with the management cluster when its cluster is saved in files and restored in its control plane", movable, arrived,
		func(ctx context.Context) {
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
			// Files have no status of available hosts: BMO inspects these again.
			e.expectUntouched(ctx, free...)
		})

	e.story("goes to a node when the management machine is lost while clusterctl deletes there, and stays when it is found",
		movable, beside, func(ctx context.Context) {
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
			stage.EndHold(ctx, left.Client)
			e.clear(ctx, left)
			e.untilGuardSays(ctx, "HandedOver")
			e.untilHolder(ctx, infrav1.HolderControlPlane)
			e.expectUntouched(ctx)
		})
}
