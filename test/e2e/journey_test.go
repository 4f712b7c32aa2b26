package e2e_test

import (
	"context"
	"fmt"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/witness"
)

// journey is a running clusterctl move.
type journey struct {
	from, to *lab.Cluster
	began    time.Time
	kill     context.CancelFunc
	ended    chan error
}

// begin starts to move the cluster with all hosts. The cleanup of the story kills clusterctl.
func (e *endpoint) begin(ctx context.Context, to *lab.Cluster) *journey {
	e.moved = true
	ctx, kill := context.WithCancel(ctx)
	started := &journey{from: e.home, to: to, began: time.Now(), kill: kill, ended: make(chan error, 1)}
	go func() {
		_, err := started.from.Clusterctl().Run(ctx, "move", "--namespace="+lab.Namespace,
			"--to-kubeconfig="+to.Kubeconfig)
		started.ended <- err
	}()
	return started
}

// arrive waits until clusterctl has moved all objects, and requires that none remains in the source.
func (e *endpoint) arrive(ctx context.Context, started *journey) {
	GinkgoHelper()
	Eventually(started.ended, patiently()...).WithContext(ctx).Should(Receive(Not(HaveOccurred())))
	fmt.Printf("clusterctl move from %s to %s took %s\n", started.from.Name, started.to.Name,
		time.Since(started.began).Round(time.Second))
	Expect(hostsIn(ctx, Default, started.from)).To(BeEmpty(), "hosts remain in the source")
	Expect(clusterIn(ctx, Default, started.from)).To(BeNil(), "the Cluster remains in the source")
	e.live(started.to)
}

// move moves the cluster with all hosts.
func (e *endpoint) move(ctx context.Context, to *lab.Cluster) {
	GinkgoHelper()
	e.arrive(ctx, e.begin(ctx, to))
}

// hostsIn returns all hosts of a cluster, with guests.
func hostsIn(ctx context.Context, g Gomega, where *lab.Cluster) []bmov1alpha1.BareMetalHost {
	var list bmov1alpha1.BareMetalHostList
	g.Expect(where.Client.List(ctx, &list, client.InNamespace(lab.Namespace))).To(Succeed())
	return list.Items
}

// hold rejects creations or deletions of Machines in a cluster until stage.EndHold. clusterctl repeats each write for
// more than two minutes. So it stops in the target while it copies, after the hosts and before the Machines, or in the
// source while it deletes, after the dependents of the Machines.
func hold(ctx context.Context, in *lab.Cluster, operation admissionv1.OperationType) {
	GinkgoHelper()
	stage.Hold(ctx, in.Client, stage.Rejected{
		Operation: operation, Resource: clusterv1.GroupVersion.WithResource("machines"),
	}, func() error {
		if operation == admissionv1.Create {
			machine := build.Machine("held", endpointCluster, build.InNamespace(lab.Namespace))
			return in.Client.Create(ctx, machine, client.DryRunAll)
		}
		var machines clusterv1.MachineList
		if err := in.Client.List(ctx, &machines, client.InNamespace(lab.Namespace), client.Limit(1)); err != nil {
			return err
		}
		return in.Client.Delete(ctx, &machines.Items[0], client.DryRunAll)
	}, patiently()...)
}

// beginHeld starts a move to a cluster with a hold, and waits until all hosts and no Machines are there.
func (e *endpoint) beginHeld(ctx context.Context, to *lab.Cluster) *journey {
	GinkgoHelper()
	hold(ctx, to, admissionv1.Create)
	started := e.begin(ctx, to)
	Eventually(func(g Gomega) {
		g.Expect(clusterIn(ctx, g, to)).NotTo(BeNil())
		g.Expect(hostsIn(ctx, g, to)).To(HaveLen(labHosts))
	}, patiently()...).Should(Succeed())
	Expect(started.ended).NotTo(Receive(), "clusterctl has ended")
	return started
}

// interrupt starts a move and kills clusterctl while it copies. The function alongside causes another fault at the
// same moment. The copied objects exist, and no controller acts on them.
func (e *endpoint) interrupt(ctx context.Context, to *lab.Cluster, alongside func()) {
	GinkgoHelper()
	started := e.beginHeld(ctx, to)
	alongside()
	started.kill()
	Eventually(started.ended, patiently()...).Should(Receive(HaveOccurred()))
	Consistently(func(g Gomega) {
		g.Expect(hostsIn(ctx, g, to)).To(And(HaveLen(labHosts),
			HaveEach(And(isPausedBy(infrav1.HostPausedByProvider), inState(bmov1alpha1.StateNone)))))
		g.Expect(changes(e.untouched)).To(BeEmpty())
	}, calm, often).Should(Succeed())
	stage.EndHold(ctx, to.Client)
}

// moveAgain unpauses the cluster in the source after an interrupted move, and moves it.
func (e *endpoint) moveAgain(ctx context.Context, to *lab.Cluster) {
	GinkgoHelper()
	e.unpause(ctx)
	e.untilReadyForMove(ctx, to)
	e.move(ctx, to)
}

// moveAtSecondAttempt kills clusterctl in the first move.
func (e *endpoint) moveAtSecondAttempt(ctx context.Context, to *lab.Cluster) {
	GinkgoHelper()
	e.interrupt(ctx, to, func() {})
	e.moveAgain(ctx, to)
}

// losePowerDuringMove powers the management machine off while clusterctl copies from there, and on again. No machine
// holds the VIP meanwhile: no node is armed before the end of the move, and the handover was announced to the
// management Ironic.
func (e *endpoint) losePowerDuringMove(ctx context.Context, to *lab.Cluster) {
	GinkgoHelper()
	management := bed.lab.Machine(lab.ManagementName)
	var lost time.Time
	e.interrupt(ctx, to, func() {
		lost = time.Now()
		Expect(management.PowerOff(ctx)).To(Succeed())
	})
	for _, span := range e.seen.Held.Since(lost) {
		Expect(span.Who).To(BeElementOf(lab.ManagementName, witness.None), "no node is armed: %s", span)
	}
	on := time.Now()
	Expect(management.PowerOn(ctx)).To(Succeed())
	e.untilStarted(ctx, on)
	e.untilGuardSays(ctx, "HandedOver")
}

// moveThroughPartition moves back to the management cluster, which is partitioned from all machines for a while.
// Alone on its side, its machine does not reclaim the VIP of before the first move.
func (e *endpoint) moveThroughPartition(ctx context.Context, to *lab.Cluster) {
	GinkgoHelper()
	started := e.beginHeld(ctx, to)
	Expect(bed.lab.Network().Partition(allBut(to.Name), []string{to.Name})).To(Succeed())
	Consistently(func(g Gomega) {
		addresses, err := bed.lab.Machine(to.Name).Run(ctx, "ip", "-oneline", "-4", "address", "show")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(addresses)).NotTo(ContainSubstring(" " + lab.IronicAddress + "/"))
		g.Expect(started.ended).NotTo(Receive())
		g.Expect(changes(e.untouched)).To(BeEmpty())
	}, calm, often).Should(Succeed())
	Expect(bed.lab.Network().Heal()).To(Succeed())
	stage.EndHold(ctx, to.Client)
	e.arrive(ctx, started)
}

// allBut returns the names of all machines except one.
func allBut(name string) []string {
	var others []string
	for _, other := range bed.lab.Machines() {
		if other != name {
			others = append(others, other)
		}
	}
	return others
}
