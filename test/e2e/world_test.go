package e2e_test

import (
	"context"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
)

// clusterName is the cluster of most stories.
const clusterName = "story"

// world is the cluster of the stories and its surroundings.
type world struct {
	client.Client

	cluster      *clusterv1.Cluster
	controlPlane *controlplanev1.KubeadmControlPlane
	workers      *clusterv1.MachineDeployment

	// found are the specs of the hosts before the first claim.
	found map[string]bmov1alpha1.BareMetalHostSpec
}

// create creates the cluster as a user does, and waits until it is complete.
func (w *world) create(ctx context.Context) {
	manifest, err := bed.lab.Management().Clusterctl().Run(ctx, "generate", "cluster", clusterName,
		"--from", bed.lab.Template(), "--target-namespace", lab.Namespace,
		"--kubernetes-version", binaries.KubernetesVersion,
		"--control-plane-machine-count", "1", "--worker-machine-count", "1")
	Expect(err).NotTo(HaveOccurred())
	var made clusterctl.ApplyCustomClusterTemplateAndWaitResult
	clusterctl.ApplyCustomClusterTemplateAndWait(ctx, clusterctl.ApplyCustomClusterTemplateAndWaitInput{
		ClusterProxy: bed.proxy, CustomTemplateYAML: []byte(manifest), ClusterName: clusterName, Namespace: lab.Namespace,
		WaitForClusterIntervals: patiently(), WaitForControlPlaneIntervals: patiently(),
		WaitForMachineDeployments: patiently(),
	}, &made)
	w.cluster, w.controlPlane = made.Cluster, made.ControlPlane
	Expect(made.MachineDeployments).To(HaveLen(1))
	w.workers = made.MachineDeployments[0]
}

func (w *world) hosts(ctx context.Context, g Gomega) []bmov1alpha1.BareMetalHost {
	var list bmov1alpha1.BareMetalHostList
	g.Expect(w.List(ctx, &list, client.InNamespace(lab.Namespace))).To(Succeed())
	return list.Items
}

func (w *world) host(ctx context.Context, g Gomega, name string) *bmov1alpha1.BareMetalHost {
	found := &bmov1alpha1.BareMetalHost{}
	g.Expect(w.Get(ctx, client.ObjectKey{Namespace: lab.Namespace, Name: name}, found)).To(Succeed())
	return found
}

// machines returns the Machines of a MachineDeployment, without those that are being deleted.
func (w *world) machines(ctx context.Context, g Gomega, deployment string) []clusterv1.Machine {
	var list clusterv1.MachineList
	g.Expect(w.List(ctx, &list, client.InNamespace(lab.Namespace),
		client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: deployment})).To(Succeed())
	var living []clusterv1.Machine
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp.IsZero() {
			living = append(living, list.Items[i])
		}
	}
	return living
}

// metal3Machines returns the Metal3Machines of a MachineDeployment, with those that are being deleted.
func (w *world) metal3Machines(ctx context.Context, g Gomega, deployment string) []infrav1.Metal3Machine {
	var list infrav1.Metal3MachineList
	g.Expect(w.List(ctx, &list, client.InNamespace(lab.Namespace),
		client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: deployment})).To(Succeed())
	return list.Items
}

// hostOf returns the name of the host of a Metal3Machine.
func hostOf(machine *infrav1.Metal3Machine) string {
	_, name, _ := strings.Cut(machine.Annotations[infrav1.HostAnnotation], "/")
	return name
}

// onlyHost returns the host of a MachineDeployment with one machine.
func (w *world) onlyHost(ctx context.Context, g Gomega, deployment string) string {
	machines := w.metal3Machines(ctx, g, deployment)
	g.Expect(machines).To(HaveLen(1))
	return hostOf(&machines[0])
}

// scale sets the number of workers, and does not wait.
func (w *world) scale(ctx context.Context, replicas int32) {
	w.changeWorkers(ctx, func(workers *clusterv1.MachineDeployment) { workers.Spec.Replicas = ptr.To(replicas) })
}

func (w *world) changeWorkers(ctx context.Context, change func(*clusterv1.MachineDeployment)) {
	Eventually(func(g Gomega) {
		g.Expect(w.Get(ctx, client.ObjectKeyFromObject(w.workers), w.workers)).To(Succeed())
		before := w.workers.DeepCopy()
		change(w.workers)
		g.Expect(w.Patch(ctx, w.workers, client.MergeFrom(before))).To(Succeed())
	}, patiently()...).Should(Succeed())
}

// reuseNodes sets whether the host of a deleted worker is reserved for its replacement.
func (w *world) reuseNodes(ctx context.Context, reuse bool) {
	GinkgoHelper()
	template := &infrav1.Metal3MachineTemplate{}
	key := client.ObjectKey{Namespace: lab.Namespace, Name: w.workers.Spec.Template.Spec.InfrastructureRef.Name}
	Expect(w.Get(ctx, key, template)).To(Succeed())
	before := template.DeepCopy()
	template.Spec.NodeReuse = reuse
	Expect(w.Patch(ctx, template, client.MergeFrom(before))).To(Succeed())
}

// untilRunning waits until a MachineDeployment has exactly this number of machines with ready nodes.
func (w *world) untilRunning(ctx context.Context, deployment string, replicas int) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		machines := w.machines(ctx, g, deployment)
		g.Expect(machines).To(HaveLen(replicas))
		for i := range machines {
			g.Expect(machines[i].Status.Phase).To(BeEquivalentTo(clusterv1.MachinePhaseRunning), machines[i].Name)
			g.Expect(isTrue(machines[i].Status.Conditions, clusterv1.MachineNodeReadyCondition)).To(BeTrue(), machines[i].Name)
		}
		g.Expect(w.metal3Machines(ctx, g, deployment)).To(HaveLen(replicas))
	}, patiently()...).Should(Succeed())
}

func isTrue(conditions []metav1.Condition, conditionType string) bool {
	return meta.IsStatusConditionTrue(conditions, conditionType)
}

// untilFree waits until a host can be claimed.
func (w *world) untilFree(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		host := w.host(ctx, g, name)
		g.Expect(host.Status.Provisioning.State).To(Equal(bmov1alpha1.StateAvailable))
		g.Expect(host.Spec.ConsumerRef).To(BeNil())
	}, patiently()...).Should(Succeed())
}

// untilReason waits until the Ready condition of the only machine of a MachineDeployment has a reason and a message.
func (w *world) untilReason(ctx context.Context, deployment, reason, message string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var waiting []string
		for _, machine := range w.metal3Machines(ctx, g, deployment) {
			ready := meta.FindStatusCondition(machine.Status.Conditions, infrav1.ReadyCondition)
			g.Expect(ready).NotTo(BeNil())
			if ready.Reason == reason {
				waiting = append(waiting, ready.Message)
			}
		}
		g.Expect(waiting).To(ContainElement(ContainSubstring(message)))
	}, patiently()...).Should(Succeed())
}

// changeSecret changes a Secret of the namespace.
func (w *world) changeSecret(ctx context.Context, name string, change func(*corev1.Secret)) {
	GinkgoHelper()
	found := &corev1.Secret{}
	Expect(w.Get(ctx, client.ObjectKey{Namespace: lab.Namespace, Name: name}, found)).To(Succeed())
	before := found.DeepCopy()
	change(found)
	Expect(w.Patch(ctx, found, client.MergeFrom(before))).To(Succeed())
}

// removeCluster deletes a cluster, if it exists, and waits until it is deleted.
func removeCluster(ctx context.Context, c client.Client, name string) {
	GinkgoHelper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: lab.Namespace, Name: name}}
	Expect(client.IgnoreNotFound(c.Delete(ctx, cluster))).To(Succeed())
	Eventually(func(g Gomega) {
		err := c.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "Cluster %s still exists", name)
	}, patiently()...).Should(Succeed())
}
