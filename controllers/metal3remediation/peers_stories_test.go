package metal3remediation_test

import (
	"context"
	"fmt"
	"sync"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/remediation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// barrier blocks the first list of Nodes until another one begins, so that two reconciles observe the same state.
type barrier struct {
	client.Reader
	arrived chan struct{}
	once    sync.Once
}

func newBarrier(reader client.Reader) client.Reader {
	return &barrier{Reader: reader, arrived: make(chan struct{})}
}

func (m *barrier) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, isNodes := list.(*corev1.NodeList); isNodes {
		first := false
		m.once.Do(func() { first = true })
		if first {
			select {
			case <-m.arrived:
			case <-ctx.Done():
				return ctx.Err()
			}
		} else {
			select {
			case m.arrived <- struct{}{}:
			default:
			}
		}
	}
	return m.Reader.List(ctx, list, options...)
}

// describePeers are the stories about several remediations of one cluster at the same time.
func describePeers(s *suite) {
	It("does not power off two of three nodes of the management cluster at the same time", func(ctx context.Context) {
		w := s.world(ctx)
		w.reader = newBarrier
		for i := range 3 {
			w.managementMachine(ctx, i)
		}
		w.remediateMachine(ctx, 0)
		w.remediateMachine(ctx, 1)
		w.start()

		var first, second int
		Eventually(func(g Gomega) {
			off := w.poweredOff(ctx, g)
			g.Expect(off).To(HaveLen(1))
			first, second = off[0], 1-off[0]
			w.holds(ctx, g, second, first)
		}).Should(Succeed())

		By("BMO powers the first host off, and its Node keeps the condition Ready")
		w.powerOf(ctx, first, false)
		Eventually(func(g Gomega) {
			g.Expect(w.poweredOff(ctx, g)).To(BeEmpty(), "the Node is fenced, and the host is powered on")
			w.holds(ctx, g, second, first)
		}).Should(Succeed())

		By("BMO powers the first host on, and its Node boots")
		w.powerOf(ctx, first, true)
		Eventually(func(g Gomega) {
			request := w.requestOf(ctx, g, first)
			g.Expect(request.Status.Conditions).To(stage.HaveCondition(infrav1.ReadyCondition, stage.IsTrue()))
			w.holds(ctx, g, second, first)
		}).Should(Succeed())

		By("the MachineHealthCheck deletes the first remediation")
		w.remove(ctx, w.requestOf(ctx, Default, first))
		Eventually(func(g Gomega) { g.Expect(w.poweredOff(ctx, g)).To(ConsistOf(second)) }).Should(Succeed())
	})
}

// describeOperators are the stories about nodes that run BMO.
func describeOperators(s *suite) {
	It("does not power off the only worker of the management cluster that may run BMO", func(ctx context.Context) {
		w := s.world(ctx)
		owner := w.machine(ctx)
		w.isManagement(ctx, w.node, owner.Spec.ProviderID, true)
		w.isWorker(ctx, w.node)
		controlPlane := w.node + "-cp"
		w.controlPlaneNode(ctx, controlPlane, "metal3://"+controlPlane)
		stage.Change(ctx, w.client, client.ObjectKey{Name: controlPlane}, &corev1.Node{}, func(node *corev1.Node) {
			node.Spec.Taints = []corev1.Taint{{
				Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule,
			}}
		})
		w.operator(ctx)
		w.operate(ctx)
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.ManagementClusterAtRiskReason,
			"Without Node "+w.node+", no ready Node of the management cluster runs, or may run, the Baremetal Operator"))
		Expect(w.powerOffRequests(ctx, Default)).To(BeEmpty())
		Expect(w.request(ctx, Default).Status.Phase).To(BeEmpty())

		By("another worker joins")
		w.controlPlaneNode(ctx, w.node+"-b", "metal3://"+w.node+"-b")
		w.isWorker(ctx, w.node+"-b")
		w.done(ctx)
	})
}

// isWorker removes the role of a control-plane node from a Node, and the taint of a new Node, which the node controller
// removes.
func (w *world) isWorker(ctx context.Context, name string) {
	GinkgoHelper()
	stage.Change(ctx, w.client, client.ObjectKey{Name: name}, &corev1.Node{}, func(node *corev1.Node) {
		delete(node.Labels, "node-role.kubernetes.io/control-plane")
		node.Spec.Taints = nil
	})
}

// operator creates the pod of BMO on the Node of the machine. It tolerates the out-of-service taint, because no kubelet
// ends it.
func (w *world) operator(ctx context.Context) {
	GinkgoHelper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.namespace, Name: "baremetal-operator", Labels: map[string]string{"webhook": "metal3-io-v1alpha1-baremetalhost"},
	}}
	pod.Spec = corev1.PodSpec{
		NodeName: w.node, Containers: []corev1.Container{{Name: "manager", Image: "baremetal-operator"}},
		Tolerations: []corev1.Toleration{{
			Key: corev1.TaintNodeOutOfService, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		}},
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	w.create(ctx, pod)
	DeferCleanup(func(ctx context.Context) {
		Expect(w.client.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
	})
}

func numbered(prefix string, number int) string { return fmt.Sprintf("%s-%d", prefix, number) }

// managementMachine creates a control-plane machine of the management cluster whose Node is ready.
func (w *world) managementMachine(ctx context.Context, number int) {
	GinkgoHelper()
	here, machineName, hostName := build.InNamespace(w.namespace), numbered(name, number), numbered(hostName, number)
	providerID := "metal3://" + w.namespace + "/" + hostName + "/" + machineName
	owner := build.Machine(machineName, clusterName, here, ofControlPlane())
	owner.Spec.ProviderID, owner.Status.NodeRef.Name = providerID, numbered(w.node, number)
	unhealthy(owner, true)
	w.create(ctx, owner)
	machine := build.Metal3Machine(machineName, clusterName, here, build.OwnedBy(owner),
		build.OnHost(&bmov1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: hostName}}))
	w.create(ctx, machine)
	host := build.Host(hostName, here, build.Provisioned(), build.Consumed(machine))
	Expect(build.CreateHost(ctx, w.client, host)).To(Succeed())
	w.controlPlaneNode(ctx, numbered(w.node, number), providerID)
}

func (w *world) remediateMachine(ctx context.Context, number int) {
	GinkgoHelper()
	w.remediateOwner(ctx, numbered(name, number))
}

func (w *world) requestOf(ctx context.Context, g Gomega, number int) *infrav1.Metal3Remediation {
	request := &infrav1.Metal3Remediation{}
	g.Expect(w.client.Get(ctx, w.key(numbered(name, number)), request)).To(Succeed())
	return request
}

func (w *world) powerOf(ctx context.Context, number int, on bool) {
	GinkgoHelper()
	stage.ChangeStatus(ctx, w.client, w.key(numbered(hostName, number)), &bmov1alpha1.BareMetalHost{},
		func(host *bmov1alpha1.BareMetalHost) { host.Status.PoweredOn = on })
}

// poweredOff returns the numbers of the hosts that remediations keep powered off.
func (w *world) poweredOff(ctx context.Context, g Gomega) []int {
	var off []int
	for number := range 3 {
		host := &bmov1alpha1.BareMetalHost{}
		g.Expect(w.client.Get(ctx, w.key(numbered(hostName, number)), host)).To(Succeed())
		if remediation.HasPowerOffRequest(host) {
			off = append(off, number)
		}
	}
	return off
}

// holds expects a remediation that waits for the reboot of another node.
func (w *world) holds(ctx context.Context, g Gomega, waits, reboots int) {
	request := w.requestOf(ctx, g, waits)
	g.Expect(request.Status.Phase).To(BeEmpty())
	g.Expect(request.Status.Conditions).To(stage.HaveCondition(infrav1.HostRebootedCondition, stage.IsFalseBecause(
		infrav1.ManagementClusterAtRiskReason, "Node "+numbered(w.node, reboots)+" is off or being rebooted")))
}
