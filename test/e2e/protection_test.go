package e2e_test

import (
	"context"
	"fmt"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
)

// rebootHolder stops the kubelet of the VIP holder, and waits until a MachineHealthCheck causes a reboot of its host.
// Ironic of this node powers its own host off, and Ironic of another node powers it on again.
func (e *endpoint) rebootHolder(ctx context.Context) {
	GinkgoHelper()
	check{cluster: endpointCluster, machines: ofControlPlane(), timeout: controlPlaneTimeout}.apply(ctx, e.Client)
	lost, before, began := e.holder(ctx), e.machineNames(ctx), time.Now()
	run(ctx, lost, "systemctl", "kill", "--signal=SIGSTOP", "kubelet")
	Eventually(func(g Gomega) {
		found := remediations(ctx, g, e.Client)
		g.Expect(found).To(HaveLen(1))
		g.Expect(found[0].OwnerReferences).To(ContainElement(HaveField("Name", e.machineOn(ctx, g, lost))))
	}, patiently()...).Should(Succeed())
	e.untilElsewhere(ctx, lost)
	fmt.Printf("another node had the VIP %s after the kubelet hung\n", time.Since(began).Round(time.Second))
	Eventually(func(g Gomega) {
		g.Expect(remediations(ctx, g, e.Client)).To(BeEmpty(), "the Node is healthy again")
	}, patiently()...).Should(Succeed())
	fmt.Printf("the Node was healthy %s after its kubelet hung\n", time.Since(began).Round(time.Second))
	e.settle(ctx)

	Expect(e.holder(ctx)).NotTo(Equal(lost), "a node that returns must not claim the VIP")
	Expect(e.machineNames(ctx)).To(ConsistOf(before), "no Machine is replaced")
	Expect(changes(began)).To(HaveEach(HaveField("Machine", lost)), "no other machine is changed")
	Expect(reboots(began, lost)).To(Equal(1))
	var node corev1.Node
	Expect(e.workload.Client.Get(ctx, client.ObjectKey{Name: lost}, &node)).To(Succeed())
	Expect(node.Spec.Taints).NotTo(ContainElement(HaveField("Key", corev1.TaintNodeOutOfService)), "the fence is removed")
	for _, host := range e.hosts(ctx, Default) {
		Expect(host.Annotations).NotTo(HaveKey(HavePrefix(bmov1alpha1.RebootAnnotationPrefix)), host.Name)
	}
}

// machineOn returns the name of the Machine of a control-plane node.
func (e *endpoint) machineOn(ctx context.Context, g Gomega, node string) string {
	for _, machine := range e.machines(ctx, g) {
		if machine.Status.NodeRef.Name == node {
			return machine.Name
		}
	}
	return ""
}

// describeProtection has the story of a cluster that manages itself on one control-plane node.
func describeProtection(w *world) {
	It("does not reboot the only control-plane node that manages it", func(ctx context.Context) {
		management := bed.lab.Management()
		own, err := bed.lab.Workload(ctx, clusterName)
		Expect(err).NotTo(HaveOccurred())
		Expect(bed.lab.Install(ctx, own, bed.lab.Ironic())).To(Succeed())
		_, err = management.Clusterctl().Run(ctx, "move", "--namespace="+lab.Namespace, "--to-kubeconfig="+own.Kubeconfig)
		Expect(err).NotTo(HaveOccurred())
		w.Client = own.Client
		DeferCleanup(func(ctx context.Context) {
			_, err := own.Clusterctl().Run(ctx, "move", "--namespace="+lab.Namespace, "--to-kubeconfig="+management.Kubeconfig)
			Expect(err).NotTo(HaveOccurred())
			w.Client = management.Client
			w.untilRunning(ctx, w.workers.Name, 1)
		}, NodeTimeout(storyLimit))
		w.untilRunning(ctx, w.workers.Name, 1)

		check{cluster: clusterName, machines: ofControlPlane(), timeout: controlPlaneTimeout}.apply(ctx, w.Client)
		node, began := w.controlPlaneHost(ctx), time.Now()
		run(ctx, node, "systemctl", "kill", "--signal=SIGSTOP", "kubelet")
		waits := stage.HaveCondition(infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.ManagementClusterAtRiskReason,
			fmt.Sprintf("Without Node %[1]s, 0 of 1 control-plane nodes of the management cluster are ready, and etcd requires "+
				"1: nothing could power BareMetalHost %[1]s on again. Add Nodes, or reboot the host by hand.", node)))
		Eventually(func(g Gomega) {
			g.Expect(w.remediations(ctx, g)).To(And(HaveLen(1), HaveEach(HaveField("Status.Conditions", waits))))
		}, patiently()...).Should(Succeed())
		Consistently(func(g Gomega) {
			g.Expect(w.remediations(ctx, g)).To(HaveEach(HaveField("Status.Conditions", waits)))
			g.Expect(w.host(ctx, g, node).Annotations).NotTo(HaveKey(HavePrefix(bmov1alpha1.RebootAnnotationPrefix)))
		}, calm, often).Should(Succeed())

		run(ctx, node, "systemctl", "kill", "--signal=SIGCONT", "kubelet")
		Eventually(func(g Gomega) { g.Expect(w.remediations(ctx, g)).To(BeEmpty()) }, patiently()...).Should(Succeed())
		Expect(changes(began)).To(BeEmpty())
		Expect(bed.lab.Machine(node).Powered()).To(BeTrue())
	}, NodeTimeout(2*storyLimit))
}

// controlPlaneHost returns the host of the only control-plane node.
func (w *world) controlPlaneHost(ctx context.Context) string {
	GinkgoHelper()
	var found infrav1.Metal3MachineList
	Expect(w.List(ctx, &found, client.InNamespace(lab.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: clusterName},
		client.HasLabels{clusterv1.MachineControlPlaneLabel})).To(Succeed())
	Expect(found.Items).To(HaveLen(1))
	return hostOf(&found.Items[0])
}
