package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/plugin"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/witness"
)

// live sets the cluster that manages this one.
func (e *endpoint) live(in *lab.Cluster) { e.home, e.Client = in, in.Client }

// disarmNodes removes annotations and files of users from the nodes, and waits until the nodes are disarmed.
func (e *endpoint) disarmNodes(ctx context.Context) {
	GinkgoHelper()
	e.disarm()
	for _, name := range e.nodes(ctx) {
		var node corev1.Node
		Expect(e.workload.Client.Get(ctx, client.ObjectKey{Name: name}, &node)).To(Succeed())
		before := node.DeepCopy()
		delete(node.Annotations, ironic.ArmedAnnotation)
		Expect(e.workload.Client.Patch(ctx, &node, client.MergeFrom(before))).To(Succeed())
	}
	e.untilDisarmed(ctx)
}

// ran is the result of a command of the plugin.
type ran struct {
	Code int
	Text string
}

// ended matches a result by its exit code and its output.
func ended(code int, words ...string) types.GomegaMatcher {
	matchers := []types.GomegaMatcher{HaveField("Code", code)}
	for _, word := range words {
		matchers = append(matchers, HaveField("Text", ContainSubstring(word)))
	}
	return And(matchers...)
}

// pivot runs a command of the plugin for a move from home to another cluster.
func (e *endpoint) pivot(ctx context.Context, to *lab.Cluster, command string) ran {
	return plug(ctx, command, "--kubeconfig="+e.home.Kubeconfig, "--to-kubeconfig="+to.Kubeconfig)
}

// demote scales the Ironic of the management cluster down, or undoes that.
func (e *endpoint) demote(ctx context.Context, flags ...string) ran {
	return plug(ctx, "handover", append(flags, "--yes", "--kubeconfig="+bed.lab.Management().Kubeconfig,
		"--to-kubeconfig="+e.home.Kubeconfig)...)
}

// plug runs the plugin and prints its output.
func plug(ctx context.Context, command string, flags ...string) ran {
	var output bytes.Buffer
	arguments := append([]string{"clusterctl-metal3", "pivot", command, "--namespace=" + lab.Namespace}, flags...)
	code := plugin.Main(ctx, arguments, plugin.Environment{Output: &output, Errors: &output})
	fmt.Printf("clusterctl metal3 pivot %s: exit code %d\n%s", command, code, output.String())
	return ran{Code: code, Text: output.String()}
}

// untilReadyForMove waits until the provider has no objection to a move, and runs the checks of the plugin. A cluster
// that was paused before is not ready at once.
func (e *endpoint) untilReadyForMove(ctx context.Context, to *lab.Cluster) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var infra infrav1.Metal3Cluster
		g.Expect(e.Get(ctx, client.ObjectKey{Namespace: lab.Namespace, Name: endpointCluster}, &infra)).To(Succeed())
		g.Expect(isTrue(infra.Status.Conditions, infrav1.ReadyForMoveCondition)).To(BeTrue(), "%v", infra.Status.Conditions)
		g.Expect(infra.Annotations).To(HaveKey(infrav1.BlockMoveAnnotation))
	}, patiently()...).Should(Succeed())
	// BMO is not ready at once if the nodes of the target have just started.
	Expect(bed.lab.WaitForDeployments(ctx, to, client.InNamespace(lab.OperatorNamespace))).To(Succeed())
	Expect(e.pivot(ctx, to, "preflight")).To(ended(0, "Ready: "))
}

// clusterIn returns the Cluster if it is in that cluster, and nil otherwise.
func clusterIn(ctx context.Context, g Gomega, where *lab.Cluster) *clusterv1.Cluster {
	var found clusterv1.Cluster
	err := where.Client.Get(ctx, client.ObjectKey{Namespace: lab.Namespace, Name: endpointCluster}, &found)
	g.Expect(client.IgnoreNotFound(err)).To(Succeed())
	if err != nil {
		return nil
	}
	return &found
}

// untilSettled waits until all machines of the cluster are available, and no host has an operation or an error.
func (e *endpoint) untilSettled(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var machines clusterv1.MachineList
		g.Expect(e.List(ctx, &machines, client.InNamespace(lab.Namespace))).To(Succeed())
		g.Expect(machines.Items).To(HaveLen(*controlPlanes + e.workers + e.company))
		for _, machine := range machines.Items {
			g.Expect(machine.Status.Phase).To(BeEquivalentTo(clusterv1.MachinePhaseRunning), machine.Name)
			available := isTrue(machine.Status.Conditions, clusterv1.AvailableCondition)
			if !available {
				g.Expect(e.home.ReconcileControlPlanes(ctx)).To(Succeed())
			}
			g.Expect(available).To(BeTrue(), machine.Name)
		}
		hosts := e.hosts(ctx, g)
		g.Expect(hosts).To(HaveLen(labHosts))
		free := 0
		for _, host := range hosts {
			want := bmov1alpha1.StateProvisioned
			if host.Spec.ConsumerRef == nil {
				want = bmov1alpha1.StateAvailable
				free++
			}
			g.Expect(host.Annotations).NotTo(HaveKey(bmov1alpha1.PausedAnnotation), host.Name)
			g.Expect(host.Status.Provisioning.State).To(Equal(want), host.Name)
			g.Expect(host.Status.ErrorMessage).To(BeEmpty(), host.Name)
			g.Expect(host.Status.PoweredOn).To(Equal(host.Spec.Online), host.Name)
		}
		g.Expect(free).To(Equal(labHosts-len(machines.Items)), "free hosts")
	}, patiently()...).Should(Succeed())
}

// untilReadyAgain waits until the control plane of a cluster that manages itself is complete and ready.
func (e *endpoint) untilReadyAgain(ctx context.Context) {
	GinkgoHelper()
	e.untilSettled(ctx)
	e.untilArmed(ctx)
	e.untilHolder(ctx, infrav1.HolderControlPlane)
	e.untilHostsKnown(ctx)
}

// untilArmed waits until the provider has armed all nodes, and until they could claim the VIP.
func (e *endpoint) untilArmed(ctx context.Context) {
	GinkgoHelper()
	for _, name := range e.nodes(ctx) {
		e.untilAnnotated(ctx, name, And(HaveKeyWithValue(ironic.ArmedAnnotation, ironic.ArmedValue),
			HaveKeyWithValue(ironic.ArmedByAnnotation, ironic.ArmedByProvider)))
		e.eventually(ctx, name, "armed", "1")
		e.eventually(ctx, name, "ironic-ok", "1")
	}
	Eventually(func(g Gomega) {
		var infra infrav1.Metal3Cluster
		g.Expect(e.Get(ctx, client.ObjectKey{Namespace: lab.Namespace, Name: endpointCluster}, &infra)).To(Succeed())
		g.Expect(infra.Status.Ironic).NotTo(BeNil())
		g.Expect(infra.Status.Ironic.Nodes).To(And(HaveLen(*controlPlanes), HaveEach(And(
			HaveField("Armed", HaveValue(BeTrue())), HaveField("PodsReady", HaveValue(BeTrue()))))))
	}, patiently()...).Should(Succeed())
}

// untilDisarmed waits until no node may claim the VIP.
func (e *endpoint) untilDisarmed(ctx context.Context) {
	GinkgoHelper()
	for _, name := range e.nodes(ctx) {
		e.untilAnnotated(ctx, name, Not(Or(HaveKey(ironic.ArmedAnnotation), HaveKey(ironic.ArmedByAnnotation))))
		e.eventually(ctx, name, "armed", "0")
	}
}

func (e *endpoint) untilAnnotated(ctx context.Context, name string, as types.GomegaMatcher) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var node corev1.Node
		g.Expect(e.workload.Client.Get(ctx, client.ObjectKey{Name: name}, &node)).To(Succeed())
		g.Expect(node.Annotations).To(as, name)
	}, patiently()...).Should(Succeed())
}

// scaleWorkers changes the number of workers, and does not wait.
func (e *endpoint) scaleWorkers(ctx context.Context, by int) *clusterv1.MachineDeployment {
	GinkgoHelper()
	var workers clusterv1.MachineDeploymentList
	Expect(e.List(ctx, &workers, client.InNamespace(lab.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: endpointCluster})).To(Succeed())
	Expect(workers.Items).To(HaveLen(1))
	deployment := &workers.Items[0]
	before := deployment.DeepCopy()
	e.workers += by
	deployment.Spec.Replicas = ptr.To(int32(e.workers))
	Expect(e.Patch(ctx, deployment, client.MergeFrom(before))).To(Succeed())
	return deployment
}

// addWorker adds a worker, and returns the name of its machine once it has a node.
func (e *endpoint) addWorker(ctx context.Context) string {
	GinkgoHelper()
	deployment := e.scaleWorkers(ctx, 1)
	var machines clusterv1.MachineList
	var node string
	Eventually(func(g Gomega) {
		g.Expect(e.List(ctx, &machines, client.InNamespace(lab.Namespace),
			client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: deployment.Name})).To(Succeed())
		g.Expect(machines.Items).To(HaveLen(e.workers))
		node = machines.Items[0].Status.NodeRef.Name
		g.Expect(node).NotTo(BeEmpty())
	}, patiently()...).Should(Succeed())
	e.expectLabelled(ctx, machines.Items[0])
	return node
}

// removeWorkers removes the workers that stories have added. Their hosts are then available.
func (e *endpoint) removeWorkers(ctx context.Context) {
	GinkgoHelper()
	if e.workers == 0 {
		return
	}
	e.scaleWorkers(ctx, -e.workers)
	e.untilSettled(ctx)
	e.untilAddressed(ctx)
	e.untilHostsKnown(ctx)
}

// untilStarted waits until all pods of the management cluster run after it was powered on. It ignores the old status
// of pods.
func (e *endpoint) untilStarted(ctx context.Context, since time.Time, which ...client.ListOption) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var pods corev1.PodList
		g.Expect(bed.lab.Management().Client.List(ctx, &pods, which...)).To(Succeed())
		g.Expect(pods.Items).NotTo(BeEmpty())
		for _, pod := range pods.Items {
			g.Expect(pod.Status.ContainerStatuses).NotTo(BeEmpty(), pod.Name)
			for _, container := range pod.Status.ContainerStatuses {
				g.Expect(container.State.Running).NotTo(BeNil(), "%s of %s", container.Name, pod.Name)
				g.Expect(container.State.Running.StartedAt.Time).To(BeTemporally(">=", since.Truncate(time.Second)),
					"%s of %s", container.Name, pod.Name)
				g.Expect(container.Ready).To(BeTrue(), "%s of %s", container.Name, pod.Name)
			}
		}
	}, patiently()...).Should(Succeed())
}

func (e *endpoint) untilIronicStarted(ctx context.Context, since time.Time) {
	GinkgoHelper()
	e.untilStarted(ctx, since, client.InNamespace(lab.IronicNamespace))
}

// untilGuardSays waits until the guard of the management machine reports a reason for not claiming the VIP.
func (e *endpoint) untilGuardSays(ctx context.Context, reason string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		metrics, err := bed.lab.Machine(lab.ManagementName).Run(ctx, "curl", "--fail", "--silent",
			"http://"+path.Join(guard.DefaultListen, "metrics"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(metrics)).To(ContainSubstring(fmt.Sprintf("metal3_guard_armed{reason=%q} 0", reason)))
	}, patiently()...).Should(Succeed())
}

// comeBack moves the cluster to the management cluster in a given way. A node keeps the VIP until the management
// Ironic reclaims it.
func (e *endpoint) comeBack(ctx context.Context, move func(context.Context, *lab.Cluster)) {
	GinkgoHelper()
	e.untilReadyForMove(ctx, bed.lab.Management())
	began := time.Now()
	move(ctx, bed.lab.Management())
	e.untilTakenBack(ctx)
	e.untilSettled(ctx)
	e.untilHolder(ctx, infrav1.HolderManagement)
	e.untilHostsKnown(ctx)
	e.untilDisarmed(ctx)
	Expect(witness.Longest(e.seen.Held.Since(began), func(span witness.Span) bool {
		return span.Who == witness.None
	})).To(BeNumerically("<", moment), "no node had the VIP")
	e.expectUntouched(ctx)
}

// untilTakenBack waits until the provider lets the management Ironic claim the VIP again. It changes the pod, so that
// the kubelet reads the ConfigMap at once instead of about once a minute.
func (e *endpoint) untilTakenBack(ctx context.Context) {
	GinkgoHelper()
	management := bed.lab.Management()
	Eventually(func(g Gomega) {
		var handover corev1.ConfigMap
		key := client.ObjectKey{Namespace: lab.IronicNamespace, Name: ironic.HandoverConfigMap}
		g.Expect(management.Client.Get(ctx, key, &handover)).To(Succeed())
		g.Expect(handover.Data).NotTo(HaveKey(lab.IronicClusterID))
	}, patiently()...).Should(Succeed())
	_, err := management.Kubectl(ctx, "annotate", "pods", "--all", "--overwrite", "--namespace="+lab.IronicNamespace,
		"e2e.test/taken-back="+time.Now().Format(time.RFC3339Nano))
	Expect(err).NotTo(HaveOccurred())
}

// comeHome moves the cluster and the VIP back to the management cluster from any place, because a cluster cannot
// delete its own nodes. It cannot complete a move that was lost while clusterctl deleted.
func (e *endpoint) comeHome(ctx context.Context) {
	management, began := bed.lab.Management(), time.Now()
	off := !bed.lab.Machine(management.Name).Powered()
	Expect(bed.lab.Machine(management.Name).PowerOn(ctx)).To(Succeed())
	if off {
		e.untilStarted(ctx, began)
	}
	e.scaleManagement(ctx, 1)
	if !e.moved {
		return
	}
	stage.EndHold(ctx, management.Client)
	stage.EndHold(ctx, e.workload.Client)
	var here, there *clusterv1.Cluster
	Eventually(func(g Gomega) {
		here, there = clusterIn(ctx, g, management), clusterIn(ctx, g, e.workload)
	}, patiently()...).Should(Succeed())
	switch {
	case here == nil:
		e.live(e.workload)
	case there == nil:
		e.live(management)
	default:
		// The cluster is still managed in the source, unless clusterctl has begun to delete.
		var machines clusterv1.MachineList
		Expect(e.List(ctx, &machines, client.InNamespace(lab.Namespace))).To(Succeed())
		Expect(machines.Items).To(HaveLen(*controlPlanes+e.workers+e.company), "a move was lost while it deleted")
	}
	e.unpause(ctx)
	if e.home == e.workload {
		e.untilReadyForMove(ctx, management)
		e.move(ctx, management)
	}
	e.untilHolder(ctx, infrav1.HolderManagement)
}

// unpause unpauses the cluster after a cancelled move.
func (e *endpoint) unpause(ctx context.Context) {
	GinkgoHelper()
	e.pause(ctx, nil)
}

// pause pauses or unpauses all Clusters.
func (e *endpoint) pause(ctx context.Context, paused *bool) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var clusters clusterv1.ClusterList
		g.Expect(e.List(ctx, &clusters, client.InNamespace(lab.Namespace))).To(Succeed())
		g.Expect(clusters.Items).NotTo(BeEmpty(), "no Cluster exists")
		for _, found := range clusters.Items {
			before := found.DeepCopy()
			found.Spec.Paused = paused
			g.Expect(e.Patch(ctx, &found, client.MergeFrom(before))).To(Succeed())
		}
	}, patiently()...).Should(Succeed())
}
