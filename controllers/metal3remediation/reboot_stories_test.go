package metal3remediation_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3remediation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// describeReboots are the stories about successful reboots.
func describeReboots(s *suite) {
	It("reboots the host and fences its Node with the out-of-service taint during the reboot", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		pod := w.pod(ctx)
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.HostRebootedCondition,
			stage.IsFalseBecause(infrav1.PoweringOffReason, "Waiting for BareMetalHost host to be powered off"))
		Expect(w.host(ctx, Default).Annotations).To(
			HaveKeyWithValue("reboot.metal3.io/metal3-remediation-machine", `{"mode":"hard"}`))
		Expect(w.getNode(ctx, Default).Spec.Taints).NotTo(ContainElement(outOfService()), "pods may still run while the host is on")
		request := w.request(ctx, Default)
		Expect(request.Status.Phase).To(Equal(infrav1.RemediationRunning))
		Expect(request.Status.LastRemediated).NotTo(BeNil())
		Expect(request.Finalizers).To(ConsistOf(infrav1.RemediationFinalizer))

		w.power(ctx, false)
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.FencingNodeReason, "Pod "+w.namespace+"/pod"))
		Expect(w.getNode(ctx, Default).Spec.Taints).To(ContainElement(outOfService()))
		Expect(w.powerOffRequests(ctx, Default)).NotTo(BeEmpty())

		Expect(w.client.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.PoweringOnReason, ""))
		Expect(w.powerOffRequests(ctx, Default)).To(BeEmpty())
		Expect(w.request(ctx, Default).Status.Phase).To(Equal(infrav1.RemediationWaiting))
		w.power(ctx, true)
		w.done(ctx)
		Expect(w.getNode(ctx, Default).Spec.Taints).NotTo(ContainElement(outOfService()))
		Eventually(func(g Gomega) {
			g.Expect(w.events(ctx, g)).To(ContainElements("Normal BareMetalHostRebooted", "Normal NodeRestored"))
		}).Should(Succeed())

		w.remove(ctx, w.request(ctx, Default))
		w.gone(ctx)
		Expect(w.host(ctx, Default).Annotations).To(BeEmpty())
		Expect(w.owner(ctx, Default).Status.Conditions).To(HaveLen(1), "the Machine is not marked")
	})

	It("deletes the Node of a cluster without that taint, and restores its labels and annotations", func(ctx context.Context) {
		w := s.world(ctx)
		w.clusters = old
		w.machine(ctx)
		stage.Change(ctx, w.client, client.ObjectKey{Name: w.node}, &corev1.Node{}, func(node *corev1.Node) {
			node.Annotations = map[string]string{
				"note": "kept", "ironic.infrastructure.cluster.x-k8s.io/armed": "true",
				"ironic.infrastructure.cluster.x-k8s.io/armed-by": "provider",
			}
		})
		w.operate(ctx)
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.NodeRestoredCondition, stage.IsFalseBecause(infrav1.WaitingForNodeReason, "Waiting for Node "+w.node+
			" to join again. If it does not, read the console of BareMetalHost host, or delete Machine machine to replace it."))
		Expect(w.client.Get(ctx, client.ObjectKey{Name: w.node}, &corev1.Node{})).NotTo(Succeed())
		Expect(w.request(ctx, Default).Annotations).To(And(
			HaveKeyWithValue("remediation.metal3.io/node-labels-backup", `{"rack":"a"}`),
			HaveKeyWithValue("remediation.metal3.io/node-annotations-backup", `{"note":"kept"}`)))
		w.joins(ctx, map[string]string{"zone": "b"})
		w.done(ctx)
		node := w.getNode(ctx, Default)
		Expect(node.Labels).To(Equal(map[string]string{"rack": "a", "zone": "b"}))
		Expect(node.Annotations).To(HaveKeyWithValue("note", "kept"))
		Expect(node.Annotations).NotTo(HaveKey("ironic.infrastructure.cluster.x-k8s.io/armed"), "the provider arms it anew")
		Expect(w.request(ctx, Default).Annotations).NotTo(HaveKey(ContainSubstring("backup")))
	})

	It("reboots the host of a Machine without a Node", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		stage.ChangeStatus(ctx, w.client, w.key(name), &clusterv1.Machine{}, func(machine *clusterv1.Machine) {
			machine.Status.NodeRef = clusterv1.MachineNodeReference{}
		})
		w.operate(ctx)
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.NodeRestoredCondition,
			stage.IsFalseBecause(infrav1.WaitingForNodeReason, `status.nodeRef of Machine machine is empty: Cluster API finds no Node `+
				`with spec.providerID "metal3://`+w.namespace+`/host/machine". Read the console of BareMetalHost host to see why it `+
				`does not join, or delete the Machine to replace it.`))
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsTrue())
		Expect(w.getNode(ctx, Default).Spec.Taints).NotTo(ContainElement(outOfService()))
	})

	unfenced := func(ctx context.Context, w *world) {
		GinkgoHelper()
		w.machine(ctx, build.Labels(map[string]string{clusterv1.MachineControlPlaneLabel: ""}))
		w.operate(ctx)
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.HostRebootedCondition,
			stage.IsFalseBecause(infrav1.WorkloadClusterUnreachableReason, "API server of Cluster cluster to answer, to fence"))
		w.passes(ctx, 2*time.Minute)
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsTrue())
		w.eventually(ctx, infrav1.NodeRestoredCondition,
			stage.IsFalseBecause(infrav1.WorkloadClusterUnreachableReason, "API server of Cluster cluster"))
		Expect(w.request(ctx, Default).Status.Phase).To(Equal(infrav1.RemediationWaiting))
		Expect(w.powerOffRequests(ctx, Default)).To(BeEmpty())
	}

	It("reboots without a fence without a connection to the cluster, and names its missing kubeconfig", func(ctx context.Context) {
		w := s.world(ctx)
		w.connected = false
		w.remove(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "cluster-kubeconfig"}})
		unfenced(ctx, w)
		w.eventually(ctx, infrav1.NodeRestoredCondition,
			stage.IsFalseBecause(infrav1.WorkloadClusterUnreachableReason, "Restore Secret cluster-kubeconfig with label"))
	})

	It("reboots without a fence after a request hung and the connection closed", func(ctx context.Context) {
		w := s.world(ctx)
		dying := &dyingConnection{}
		w.connection = func(clusters clustercache.ClusterCache) clustercache.ClusterCache {
			dying.ClusterCache = clusters
			return dying
		}
		unfenced(ctx, w)
		Expect(dying.hung.Load()).To(BeTrue())
	})

	It("reboots without a fence if the API server accepts connections, and answers no requests", func(ctx context.Context) {
		w := s.world(ctx)
		w.nodes = func(nodes metal3remediation.Nodes) metal3remediation.Nodes { return silentNodes{nodes} }
		unfenced(ctx, w)
	})

	for title, refused := range map[string]forbiddenNodes{
		"read": {read: true}, "change": {write: true},
	} {
		It("reboots without a fence if the user of the kubeconfig may not "+title+" the Node", func(ctx context.Context) {
			w := s.world(ctx)
			w.nodes = func(nodes metal3remediation.Nodes) metal3remediation.Nodes {
				refused.Nodes = nodes
				return refused
			}
			w.machine(ctx)
			w.operate(ctx)
			w.start()
			w.remediate(ctx)
			w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.RebootFailedReason, "no permission"))
			Expect(w.powerOffRequests(ctx, Default)).NotTo(BeEmpty())
			w.passes(ctx, 2*time.Minute)
			w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsTrue())
			Expect(w.powerOffRequests(ctx, Default)).To(BeEmpty())
			Expect(w.request(ctx, Default).Status.RetryCount).To(BeZero())
			w.remove(ctx, w.request(ctx, Default))
			w.gone(ctx)
		})
	}

	It("powers the host on after half of the remaining timeout although a pod stays, and reboots it again", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		pod := w.pod(ctx)
		w.operate(ctx)
		w.start()
		w.remediate(ctx)
		for try := range 2 {
			w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.FencingNodeReason, "Pod "+w.namespace+"/pod"))
			Expect(w.powerOffRequests(ctx, Default)).NotTo(BeEmpty())
			w.passes(ctx, timeout/2)
			w.done(ctx)
			Expect(w.request(ctx, Default).Status.RetryCount).To(BeEquivalentTo(try))
			Expect(w.getNode(ctx, Default).Spec.Taints).NotTo(ContainElement(outOfService()))
			w.passes(ctx, timeout)
		}
		Eventually(func(g Gomega) { g.Expect(w.events(ctx, g)).To(ContainElement("Warning FenceIncomplete")) }).Should(Succeed())
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.RetriesExhaustedReason, ""))
		Expect(w.owner(ctx, Default).Status.Conditions).To(stage.HaveCondition(clusterv1.MachineOwnerRemediatedCondition,
			stage.IsFalseBecause("WaitingForRemediation", "still unhealthy after reboots of BareMetalHost host")))
		Expect(w.client.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
	})

	It("powers the host on although the fence fails, but not after a conflict", func(ctx context.Context) {
		w := s.world(ctx)
		answer := &atomic.Pointer[apierrors.StatusError]{}
		answer.Store(apierrors.NewConflict(corev1.Resource("nodes"), w.node, errors.New("another client wrote it")))
		w.nodes = func(nodes metal3remediation.Nodes) metal3remediation.Nodes { return failingNodes{nodes, answer} }
		w.machine(ctx)
		w.operate(ctx)
		w.start()
		w.remediate(ctx)
		Eventually(func(g Gomega) {
			g.Expect(w.request(ctx, g).Annotations[infrav1.RemediationAnnotation]).To(ContainSubstring("fencedAt"))
		}).Should(Succeed())
		w.passes(ctx, timeout/2)
		Consistently(func(g Gomega) { g.Expect(w.powerOffRequests(ctx, g)).NotTo(BeEmpty()) }).Should(Succeed())
		answer.Store(apierrors.NewInternalError(errors.New("a webhook is broken")))
		w.passes(ctx, time.Second)
		Eventually(func(g Gomega) {
			g.Expect(w.powerOffRequests(ctx, g)).To(BeEmpty())
			g.Expect(w.events(ctx, g)).To(ContainElement("Warning FenceIncomplete"))
		}).Should(Succeed())
		answer.Store(nil)
		w.done(ctx)
	})

	It("restarts a host with disablePowerOff, without a fence", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		w.changeHost(ctx, func(host *bmov1alpha1.BareMetalHost) { host.Spec.DisablePowerOff = true })
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.PoweringOffReason, "to be restarted"))
		Expect(w.host(ctx, Default).Annotations).To(HaveKey("reboot.metal3.io"))
		Expect(w.powerOffRequests(ctx, Default)).To(BeEmpty(), "BMO would restart the host again and again")
		w.changeHost(ctx, func(host *bmov1alpha1.BareMetalHost) { delete(host.Annotations, "reboot.metal3.io") })
		w.done(ctx)
		Expect(w.host(ctx, Default).Annotations).NotTo(HaveKey("reboot.metal3.io"))
	})

	It("writes nothing without a change", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		w.operate(ctx)
		w.start()
		w.remediate(ctx)
		w.done(ctx)
		before := len(w.writes.Done())
		Expect(before).To(BeNumerically("<=", 12), "writes of one reboot: %v", w.writes.Done())
		for range 3 {
			w.passes(ctx, 0)
		}
		Consistently(func(g Gomega) { g.Expect(w.writes.Done()).To(HaveLen(before)) }).Should(Succeed())
	})

	It("continues a remediation of CAPM3", func(ctx context.Context) {
		w := s.world(ctx)
		w.clusters = old
		w.machine(ctx)
		w.remove(ctx, w.getNode(ctx, Default))
		w.power(ctx, false)
		w.changeHost(ctx, func(host *bmov1alpha1.BareMetalHost) {
			host.Annotations = map[string]string{"reboot.metal3.io/metal3-remediation-0b2f6c1e": `{"mode":"hard"}`}
		})
		w.remediate(ctx, func(request *infrav1.Metal3Remediation) {
			request.Finalizers = []string{infrav1.RemediationFinalizer}
			request.Annotations = map[string]string{
				infrav1.NodeLabelsBackupAnnotation: `{"rack":"a"}`, infrav1.NodeAnnotationsBackupAnnotation: `{}`,
			}
			request.Status = infrav1.Metal3RemediationStatus{
				Phase: infrav1.RemediationWaiting, RetryCount: 1, LastRemediated: &metav1.Time{Time: w.clock.Now()},
			}
		})
		w.operate(ctx)
		w.start()
		w.joins(ctx, nil)
		w.done(ctx)
		Expect(w.getNode(ctx, Default).Labels).To(HaveKeyWithValue("rack", "a"))
		Expect(w.powerOffRequests(ctx, Default)).To(BeEmpty())
		Expect(w.request(ctx, Default).Status.RetryCount).To(BeEquivalentTo(1))
	})
}

// forbiddenNodes refuses to read or to change Nodes.
type forbiddenNodes struct {
	metal3remediation.Nodes
	read, write bool
}

func (n forbiddenNodes) Read(ctx context.Context, cluster types.NamespacedName, name string) (*corev1.Node, error) {
	if n.read {
		return nil, forbidden(name)
	}
	return n.Nodes.Read(ctx, cluster, name)
}

func (n forbiddenNodes) Write(ctx context.Context, cluster types.NamespacedName, current, desired *corev1.Node) error {
	if n.write && !equality.Semantic.DeepEqual(current, desired) {
		return forbidden(current.Name)
	}
	return n.Nodes.Write(ctx, cluster, current, desired)
}

// failingNodes refuses to change Nodes while it has an error.
type failingNodes struct {
	metal3remediation.Nodes
	answer *atomic.Pointer[apierrors.StatusError]
}

func (n failingNodes) Write(ctx context.Context, cluster types.NamespacedName, current, desired *corev1.Node) error {
	if err := n.answer.Load(); err != nil && !equality.Semantic.DeepEqual(current, desired) {
		return err
	}
	return n.Nodes.Write(ctx, cluster, current, desired)
}

func forbidden(node string) error {
	return fmt.Errorf("using Node %s: %w", node,
		apierrors.NewForbidden(corev1.Resource("nodes"), node, errors.New("no permission")))
}

// dyingConnection hangs at the first read of a Node, and then closes.
type dyingConnection struct {
	clustercache.ClusterCache
	hung atomic.Bool
}

func (d *dyingConnection) GetUncachedClient(ctx context.Context, cluster client.ObjectKey) (client.Client, error) {
	if d.hung.Load() {
		return nil, clustercache.ErrClusterNotConnected
	}
	connected, err := d.ClusterCache.GetUncachedClient(ctx, cluster)
	if err != nil {
		return nil, err
	}
	return hangingClient{connected, d}, nil
}

// GetHealthCheckingState returns the state of a cluster whose health probes have failed since the request hung.
func (d *dyingConnection) GetHealthCheckingState(context.Context, client.ObjectKey) clustercache.HealthCheckingState {
	return clustercache.HealthCheckingState{LastProbeTime: time.Unix(2, 0), LastProbeSuccessTime: time.Unix(1, 0)}
}

type hangingClient struct {
	client.Client
	connection *dyingConnection
}

func (h hangingClient) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	<-ctx.Done()
	h.connection.hung.Store(true)
	return ctx.Err()
}

// silentNodes are the Nodes of a cluster whose API server accepts connections, for example without a quorum of etcd.
type silentNodes struct{ metal3remediation.Nodes }

func (silentNodes) Read(context.Context, types.NamespacedName, string) (*corev1.Node, error) {
	return nil, fmt.Errorf("%w: reading the Node", workload.ErrNoAnswer)
}

func outOfService() corev1.Taint {
	return corev1.Taint{Key: "node.kubernetes.io/out-of-service", Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
}

// pod creates a pod on the Node.
func (w *world) pod(ctx context.Context) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "pod"},
		Spec:       corev1.PodSpec{NodeName: w.node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	w.create(ctx, pod)
	return pod
}
