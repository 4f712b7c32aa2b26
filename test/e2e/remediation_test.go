package e2e_test

import (
	"context"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
)

// describeRemediation has the stories of a MachineHealthCheck that causes reboots of hosts.
func describeRemediation(w *world) {
	It("reboots the host of a worker whose kubelet hangs, and keeps its Machine", func(ctx context.Context) {
		w.checkHealth(ctx)
		machine, used := w.onlyMachine(ctx), w.onlyHost(ctx, Default, w.workers.Name)
		began := time.Now()
		run(ctx, used, "systemctl", "kill", "--signal=SIGSTOP", "kubelet")
		Eventually(func(g Gomega) {
			g.Expect(w.remediations(ctx, g)).To(ConsistOf(HaveField("Name", machine)))
		}, patiently()...).Should(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(w.remediations(ctx, g)).To(BeEmpty(), "the Node is healthy again")
		}, patiently()...).Should(Succeed())

		w.untilRunning(ctx, w.workers.Name, 1)
		Expect(w.onlyMachine(ctx)).To(Equal(machine))
		Expect(w.onlyHost(ctx, Default, w.workers.Name)).To(Equal(used))
		Expect(changes(began)).To(HaveEach(HaveField("Machine", used)), "no other machine is changed")
		Expect(reboots(began, used)).To(Equal(1))
		Expect(w.node(ctx, used).Spec.Taints).To(BeEmpty(), "the fence is removed")
		Expect(w.host(ctx, Default, used).Annotations).NotTo(HaveKey(HavePrefix(bmov1alpha1.RebootAnnotationPrefix)))
	}, NodeTimeout(storyLimit))

	It("replaces a worker whose kubelet does not start after each of two reboots", func(ctx context.Context) {
		w.checkHealth(ctx)
		machine, lost := w.onlyMachine(ctx), w.onlyHost(ctx, Default, w.workers.Name)
		began := time.Now()
		run(ctx, lost, "systemctl", "mask", "--now", "kubelet")
		Eventually(func(g Gomega) {
			g.Expect(w.host(ctx, g, lost).Annotations).To(HaveKeyWithValue(infrav1.UnhealthyAnnotation, infrav1.UnhealthyNode))
		}, patiently()...).Should(Succeed())
		Expect(reboots(began, lost)).To(Equal(2))

		Eventually(func(g Gomega) {
			machines := w.machines(ctx, g, w.workers.Name)
			g.Expect(machines).To(And(HaveLen(1), HaveEach(HaveField("Name", Not(Equal(machine))))))
		}, patiently()...).Should(Succeed())
		w.untilRunning(ctx, w.workers.Name, 1)
		Expect(w.onlyHost(ctx, Default, w.workers.Name)).NotTo(Equal(lost))
		Eventually(func(g Gomega) { g.Expect(w.remediations(ctx, g)).To(BeEmpty()) }, patiently()...).Should(Succeed())
		w.untilFree(ctx, lost)

		By("marking the host as repaired")
		_, err := bed.lab.Management().Kubectl(ctx, "annotate", "baremetalhost", lost, "--namespace="+lab.Namespace,
			infrav1.UnhealthyAnnotation+"-")
		Expect(err).NotTo(HaveOccurred())
		Expect(w.host(ctx, Default, lost).Annotations).To(BeEmpty())
	}, NodeTimeout(storyLimit))
}

// checkHealth runs a MachineHealthCheck for workers, with one retry, until the story ends.
func (w *world) checkHealth(ctx context.Context) {
	GinkgoHelper()
	check{
		cluster: clusterName, machines: map[string]string{clusterv1.MachineDeploymentNameLabel: w.workers.Name},
		timeout: remediationTimeout,
	}.apply(ctx, w.Client)
}

// check is a MachineHealthCheck that reboots the hosts of unhealthy Machines of a cluster.
type check struct {
	cluster  string
	machines map[string]string

	// timeout is the number of seconds that a Node may be unhealthy after a reboot began.
	timeout int32
}

// apply creates the MachineHealthCheck and its Metal3RemediationTemplate until the story ends.
func (c check) apply(ctx context.Context, in client.Client) {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Namespace: lab.Namespace, Name: "health"}
	template := &infrav1.Metal3RemediationTemplate{ObjectMeta: meta}
	template.Spec.Template.Spec.Strategy = &infrav1.RemediationStrategy{
		Type: infrav1.RebootRemediation, RetryLimit: 1, TimeoutSeconds: ptr.To(c.timeout),
	}
	made := &clusterv1.MachineHealthCheck{ObjectMeta: meta}
	made.Spec.ClusterName = c.cluster
	made.Spec.Selector.MatchLabels = c.machines
	for _, status := range []corev1.ConditionStatus{corev1.ConditionUnknown, corev1.ConditionFalse} {
		made.Spec.Checks.UnhealthyNodeConditions = append(made.Spec.Checks.UnhealthyNodeConditions,
			clusterv1.UnhealthyNodeCondition{Type: corev1.NodeReady, Status: status, TimeoutSeconds: ptr.To[int32](unhealthyAfter)})
	}
	made.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{
		APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3RemediationTemplate", Name: template.Name,
	}
	for _, object := range []client.Object{template, made} {
		Expect(in.Create(ctx, object)).To(Succeed())
		DeferCleanup(func(ctx context.Context) {
			Expect(client.IgnoreNotFound(in.Delete(ctx, object))).To(Succeed())
		})
	}
}

const (
	// unhealthyAfter is the number of seconds that a Node may be not ready.
	unhealthyAfter = 10

	// remediationTimeout is the minimum timeout of a try.
	remediationTimeout = 100

	// controlPlaneTimeout is the timeout of a try for a node with a control plane and Ironic.
	controlPlaneTimeout = 900
)

// ofControlPlane is the label of the Machines of a control plane.
func ofControlPlane() map[string]string {
	return map[string]string{clusterv1.MachineControlPlaneLabel: ""}
}

func remediations(ctx context.Context, g Gomega, in client.Client) []infrav1.Metal3Remediation {
	var list infrav1.Metal3RemediationList
	g.Expect(in.List(ctx, &list, client.InNamespace(lab.Namespace))).To(Succeed())
	return list.Items
}

func (w *world) remediations(ctx context.Context, g Gomega) []infrav1.Metal3Remediation {
	return remediations(ctx, g, w.Client)
}

// onlyMachine returns the name of the only worker.
func (w *world) onlyMachine(ctx context.Context) string {
	GinkgoHelper()
	machines := w.machines(ctx, Default, w.workers.Name)
	Expect(machines).To(HaveLen(1))
	return machines[0].Name
}

func (w *world) node(ctx context.Context, name string) *corev1.Node {
	GinkgoHelper()
	workload, err := bed.lab.Workload(ctx, clusterName)
	Expect(err).NotTo(HaveOccurred())
	found := &corev1.Node{}
	Expect(workload.Client.Get(ctx, client.ObjectKey{Name: name}, found)).To(Succeed())
	return found
}

// run runs a command on a machine.
func run(ctx context.Context, machine string, command ...string) {
	GinkgoHelper()
	_, err := bed.lab.Machine(machine).Run(ctx, command...)
	Expect(err).NotTo(HaveOccurred())
}

// reboots returns the number of power-on requests to the BMC of a machine since a time.
func reboots(since time.Time, machine string) int {
	count := 0
	for _, operation := range changesOf(since, machine) {
		if operation.Resource == "reset" && operation.Detail == "On" {
			count++
		}
	}
	return count
}
