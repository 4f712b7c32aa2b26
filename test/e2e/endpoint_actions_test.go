package e2e_test

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/witness"
)

// scaleManagement starts or stops Ironic on the management cluster, and does not wait.
func (e *endpoint) scaleManagement(ctx context.Context, replicas int) {
	GinkgoHelper()
	_, err := bed.lab.Management().Kubectl(ctx, "scale", "--namespace="+lab.IronicNamespace,
		"deployment/"+lab.IronicDeployment, "--replicas="+strconv.Itoa(replicas))
	Expect(err).NotTo(HaveOccurred())
}

// expectDescribed requires that clusterctl describes a cluster, its control plane and all its machines as available
// and ready.
func expectDescribed(ctx context.Context, in *lab.Cluster, name string, machines int) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		tree, err := in.Clusterctl().Run(ctx, "describe", "cluster", name, "--namespace="+lab.Namespace, "--echo", "--grouping=false")
		g.Expect(err).NotTo(HaveOccurred())
		// Each row ends with the status of the condition, its reason, its age and its message.
		g.Expect(tree).NotTo(MatchRegexp(`\s(False|Unknown)\s`))
		for kind, count := range map[string]int{
			"Cluster": 1, "Metal3Cluster": 1, "KubeadmControlPlane": 1, "Machine": machines, "Metal3Machine": machines,
		} {
			rows := regexp.MustCompile(`(?m)(^|─)`+kind+` \S+.*\sTrue\s+(Available|Ready)\s.*$`).FindAllString(tree, -1)
			g.Expect(rows).To(HaveLen(count), "%s in\n%s", kind, tree)
		}
	}, patiently()...).Should(Succeed())
}

// armNodes arms all nodes, and nodes that join later, until disarm is called. It retries errors.
func (e *endpoint) armNodes() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	e.disarm = func() {
		stop()
		<-done
	}
	go func() {
		defer close(done)
		ticks := time.NewTicker(armEvery)
		defer ticks.Stop()
		for {
			e.armOnce(ctx)
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
			}
		}
	}()
}

func (e *endpoint) armOnce(ctx context.Context) {
	var nodes corev1.NodeList
	if e.workload.Client.List(ctx, &nodes) != nil {
		return
	}
	for _, node := range nodes.Items {
		if node.Annotations[ironic.ArmedAnnotation] == ironic.ArmedValue {
			continue
		}
		before := node.DeepCopy()
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, ironic.ArmedAnnotation, ironic.ArmedValue)
		_ = e.workload.Client.Patch(ctx, &node, client.MergeFrom(before))
	}
}

// expectKept disturbs the VIP holder, and requires that it continues with the same database. An Ironic with an empty
// database has another term.
func (e *endpoint) expectKept(ctx context.Context, disturb func(ctx context.Context, machine string)) {
	GinkgoHelper()
	holder, before := e.holder(ctx), e.reported(ctx, Default)
	Expect(before.Name).To(Equal(holder))
	began := time.Now()
	disturb(ctx, holder)
	e.settle(ctx)
	e.untilHolder(ctx, infrav1.HolderControlPlane)
	Expect(e.reported(ctx, Default)).To(Equal(before))
	Expect(e.seen.Held.Since(began)).To(HaveEach(HaveField("Who", BeElementOf(holder, witness.None))))
}

// reported returns the holder in the status of the Metal3Cluster.
func (e *endpoint) reported(ctx context.Context, g Gomega) infrav1.IronicHolder {
	var infra infrav1.Metal3Cluster
	g.Expect(e.Get(ctx, named(endpointCluster), &infra)).To(Succeed())
	g.Expect(infra.Status.Ironic).To(HaveValue(HaveField("Holder", Not(BeNil()))))
	return *infra.Status.Ironic.Holder
}

// crashIronic kills Ironic on a machine and waits until another process serves. Its gate, which is the first process
// of the container, survives.
func (e *endpoint) crashIronic(ctx context.Context, machine string) {
	GinkgoHelper()
	gate := e.ironicGate(ctx, machine)
	children := func() string {
		// For a moment no process exists.
		found, _ := bed.lab.Machine(machine).Run(ctx, "pgrep", "--parent", gate)
		return strings.TrimSpace(string(found))
	}
	before := children()
	Expect(before).NotTo(BeEmpty(), "the gate of machine %s runs no Ironic", machine)
	_, err := bed.lab.Machine(machine).Run(ctx, "pkill", "--signal=KILL", "--parent", gate)
	Expect(err).NotTo(HaveOccurred())
	Eventually(children, patiently()...).Should(And(Not(BeEmpty()), Not(Equal(before))))
	Expect(e.ironicGate(ctx, machine)).To(Equal(gate), "the container was restarted")
	e.eventually(ctx, machine, "ironic-ok", "1")
}

// ironicGate returns the process of the gate of Ironic on a machine.
func (e *endpoint) ironicGate(ctx context.Context, machine string) string {
	GinkgoHelper()
	found, err := bed.lab.Machine(machine).Run(ctx, "pgrep", "--full", "gate .*--until-lost.*runironic$")
	Expect(err).NotTo(HaveOccurred())
	gates := strings.Fields(string(found))
	Expect(gates).To(HaveLen(1))
	return gates[0]
}

// killGuard kills the guard of a machine with its keepalived, and waits until the kubelet reports that the next one
// is ready. By then another node would have claimed the VIP.
func (e *endpoint) killGuard(ctx context.Context, machine string) {
	GinkgoHelper()
	guard := func(g Gomega) corev1.ContainerStatus {
		var pod corev1.Pod
		key := client.ObjectKey{Namespace: ironic.Namespace, Name: ironic.VIPPod + "-" + machine}
		g.Expect(e.workload.Client.Get(ctx, key, &pod)).To(Succeed())
		g.Expect(pod.Status.ContainerStatuses).To(HaveLen(1))
		return pod.Status.ContainerStatuses[0]
	}
	before := guard(Default)
	e.killContainer(ctx, machine, before.Name)
	Eventually(guard, patiently()...).Should(And(HaveField("RestartCount", BeNumerically(">", before.RestartCount)),
		HaveField("Ready", true)))
}

// killContainer kills all processes of the containers with a name on a machine.
func (e *endpoint) killContainer(ctx context.Context, machine, name string) {
	GinkgoHelper()
	const program, namespace = "ctr", "--namespace=k8s.io"
	found, err := bed.lab.Machine(machine).Run(ctx, program, namespace, "containers", "list", "--quiet",
		`labels."io.kubernetes.container.name"==`+name)
	Expect(err).NotTo(HaveOccurred())
	killed := 0
	for _, container := range strings.Fields(string(found)) {
		// Ended containers have no processes.
		if _, err := bed.lab.Machine(machine).Run(ctx, program, namespace, "tasks", "kill", "--signal=SIGKILL",
			container); err == nil {
			killed++
		}
	}
	Expect(killed).To(Equal(1), "containers %s on %s: %s", name, machine, found)
}

// machines returns the Machines of the control plane.
func (e *endpoint) machines(ctx context.Context, g Gomega) []clusterv1.Machine {
	var list clusterv1.MachineList
	g.Expect(e.List(ctx, &list, client.InNamespace(lab.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: endpointCluster},
		client.HasLabels{clusterv1.MachineControlPlaneLabel})).To(Succeed())
	return list.Items
}

func (e *endpoint) machineNames(ctx context.Context) []string {
	GinkgoHelper()
	var names []string
	for _, machine := range e.machines(ctx, Default) {
		names = append(names, machine.Name)
	}
	return names
}

// rollOut starts to replace all control-plane nodes, and does not wait.
func (e *endpoint) rollOut(ctx context.Context) {
	GinkgoHelper()
	var found controlplanev1.KubeadmControlPlaneList
	Expect(e.List(ctx, &found, client.InNamespace(lab.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: endpointCluster})).To(Succeed())
	Expect(found.Items).To(HaveLen(1))
	_, err := e.home.Clusterctl().Run(ctx, "alpha", "rollout", "restart", "kubeadmcontrolplane/"+found.Items[0].Name,
		"--namespace="+lab.Namespace)
	Expect(err).NotTo(HaveOccurred())
}

// replaceMachine deletes the Machine of a control-plane node, and waits for its replacement.
func (e *endpoint) replaceMachine(ctx context.Context, node string) {
	GinkgoHelper()
	var lost *clusterv1.Machine
	for _, machine := range e.machines(ctx, Default) {
		if machine.Status.NodeRef.Name == node {
			lost = &machine
		}
	}
	Expect(lost).NotTo(BeNil(), "node %s has no Machine", node)
	Expect(e.Delete(ctx, lost)).To(Succeed())
	Eventually(func(g Gomega) {
		machines := e.machines(ctx, g)
		g.Expect(machines).To(And(HaveLen(*controlPlanes), Not(ContainElement(HaveField("Name", lost.Name))),
			HaveEach(HaveField("Status.Phase", BeEquivalentTo(clusterv1.MachinePhaseRunning)))))
	}, patiently()...).Should(Succeed())
}

// untilReplaced waits until the control plane is complete and has none of the previous machines.
func (e *endpoint) untilReplaced(ctx context.Context, before []string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		after := e.machines(ctx, g)
		g.Expect(after).To(HaveLen(*controlPlanes))
		for _, machine := range after {
			g.Expect(before).NotTo(ContainElement(machine.Name))
			g.Expect(machine.Status.Phase).To(BeEquivalentTo(clusterv1.MachinePhaseRunning), machine.Name)
		}
	}, time.Duration(*controlPlanes)*rolled, 2*time.Second).Should(Succeed())
}
