package metal3remediation_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinehealthcheck"
	"sigs.k8s.io/cluster-api/core/reconcilers/machineset"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/index"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// ofSet is on the Machines of the MachineSet.
const ofSet = "example.com/set"

// describeHealthChecks are the stories with the controllers of Cluster API for MachineHealthChecks and MachineSets.
func describeHealthChecks(s *suite) {
	It("reboots the host of an unhealthy Node, and keeps its Machine if the Node is ready then", func(ctx context.Context) {
		w := s.checked(ctx)
		w.create(ctx, w.remediationTemplate())
		w.nodeIs(ctx, corev1.ConditionUnknown)
		w.done(ctx)
		w.nodeIs(ctx, corev1.ConditionTrue)
		w.gone(ctx)
		Expect(w.machines(ctx, Default)).To(ConsistOf(name))
		Expect(w.host(ctx, Default).Annotations).NotTo(HaveKey(infrav1.UnhealthyAnnotation))
		Expect(w.powerOffRequests(ctx, Default)).To(BeEmpty())
	})

	It("reboots the host once a missing Metal3RemediationTemplate exists", func(ctx context.Context) {
		w := s.checked(ctx)
		w.nodeIs(ctx, corev1.ConditionUnknown)
		w.templateMissing(ctx)
		Expect(w.owner(ctx, Default).Status.Conditions).NotTo(
			ContainElement(HaveField("Type", clusterv1.MachineExternallyRemediatedCondition)), "see the troubleshooting page")
		w.create(ctx, w.remediationTemplate())
		w.done(ctx)
	})

	It("reboots the host of a Node that stays unhealthy, then has its Machine replaced", func(ctx context.Context) {
		w := s.checked(ctx)
		w.create(ctx, w.remediationTemplate())
		w.nodeIs(ctx, corev1.ConditionUnknown)
		w.done(ctx)
		Expect(w.request(ctx, Default).Spec.Strategy).To(HaveValue(HaveField("RetryLimit", BeEquivalentTo(1))))
		Expect(w.request(ctx, Default).Status.RetryCount).To(BeZero())

		w.exhausted(ctx)
		Expect(w.host(ctx, Default).Annotations).To(HaveKeyWithValue(infrav1.UnhealthyAnnotation, infrav1.UnhealthyNode))
		Expect(w.powerOffRequests(ctx, Default)).To(BeEmpty())

		w.drained(ctx)
		Eventually(func(g Gomega) { g.Expect(w.machines(ctx, g)).To(ConsistOf(HavePrefix("workers-"))) }).Should(Succeed())
		w.remove(ctx, w.request(ctx, Default))
		w.gone(ctx)
		Expect(w.host(ctx, Default).Annotations).To(HaveKey(infrav1.UnhealthyAnnotation))
	})

	healthyBefore := []metav1.Condition{{
		Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionTrue,
		Reason: clusterv1.MachineHealthCheckSucceededReason, LastTransitionTime: metav1.Unix(1, 0),
	}}
	DescribeTable("has a Machine replaced without the report of its MachineHealthCheck", func(
		ctx context.Context, reports []metav1.Condition,
	) {
		w, check := s.watched(ctx)
		stage.ChangeStatus(ctx, w.client, w.key(name), &clusterv1.Machine{}, func(machine *clusterv1.Machine) {
			machine.Status.Conditions = reports
		})
		w.nodeIs(ctx, corev1.ConditionUnknown)
		w.create(ctx, w.remediationTemplate())
		w.remediate(ctx, at(`{"phase":"Waiting","retryCount":1,"lastRemediated":"2020-01-01T00:00:00Z"}`),
			func(request *infrav1.Metal3Remediation) {
				request.Annotations[clusterv1.TemplateClonedFromNameAnnotation] = "reboot"
				// The clock must not pass the timeout of the next one, which has no report in its first moment.
				request.Spec.Strategy.TimeoutSeconds = ptr.To[int32](1)
			})
		moved := w.request(ctx, Default).UID
		w.startControllers(ctx, check)
		w.done(ctx)
		Expect(conditions.IsFalse(w.owner(ctx, Default), clusterv1.MachineHealthCheckSucceededCondition)).To(BeFalse(),
			"Cluster API does not repeat its report")

		w.passes(ctx, 2*time.Second)
		Eventually(func(g Gomega) {
			w.passes(ctx, time.Second)
			g.Expect(conditions.IsFalse(w.owner(ctx, g), clusterv1.MachineHealthCheckSucceededCondition)).To(BeTrue())
			g.Expect(w.request(ctx, g).UID).NotTo(Equal(moved))
		}).Should(Succeed())
		w.done(ctx)
		w.exhausted(ctx)
	},
		Entry("that it lost in a move", nil),
		Entry("that could not be written", healthyBefore),
	)
}

// exhausted lets both tries time out, and waits until the MachineSet deletes the Machine.
func (w *world) exhausted(ctx context.Context) {
	GinkgoHelper()
	w.passes(ctx, timeout+time.Second)
	Eventually(func(g Gomega) {
		status := w.request(ctx, g).Status
		g.Expect(status.RetryCount).To(BeEquivalentTo(1))
		g.Expect(status.Conditions).To(stage.HaveCondition(infrav1.ReadyCondition, stage.IsTrue()))
	}).Should(Succeed())
	Expect(w.machines(ctx, Default)).To(ConsistOf(name))

	w.passes(ctx, timeout+time.Second)
	Eventually(func(g Gomega) {
		owner := w.owner(ctx, g)
		g.Expect(owner.DeletionTimestamp).NotTo(BeNil())
		g.Expect(owner.Status.Conditions).To(stage.HaveCondition(clusterv1.MachineOwnerRemediatedCondition,
			stage.IsFalseBecause(clusterv1.MachineSetMachineRemediationMachineDeletingReason, "")))
	}).Should(Succeed())
}

// templateMissing waits until the MachineHealthCheck reports that its Metal3RemediationTemplate does not exist.
func (w *world) templateMissing(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		check := &clusterv1.MachineHealthCheck{}
		g.Expect(w.client.Get(ctx, w.key("workers"), check)).To(Succeed())
		g.Expect(check.Status.Deprecated).NotTo(BeNil())
		g.Expect(check.Status.Deprecated.V1Beta1).To(HaveValue(HaveField("Conditions", ContainElement(And(
			HaveField("Type", clusterv1.ExternalRemediationTemplateAvailableV1Beta1Condition),
			HaveField("Status", corev1.ConditionFalse), HaveField("Message", ContainSubstring(`"reboot" not found`)))))))
	}).Should(Succeed())
}

// drained ends the deletion of the Machine in place of the Machine controller, for which the MachineSet has added the
// finalizer.
func (w *world) drained(ctx context.Context) {
	GinkgoHelper()
	stage.Change(ctx, w.client, w.key(name), &clusterv1.Machine{}, func(machine *clusterv1.Machine) {
		Expect(machine.Finalizers).To(ConsistOf(clusterv1.MachineFinalizer))
		machine.Finalizers = nil
	})
}

// checked creates a world in which a MachineHealthCheck watches a healthy Machine of a MachineSet.
func (s *suite) checked(ctx context.Context) *world {
	GinkgoHelper()
	w, check := s.watched(ctx)
	stage.ChangeStatus(ctx, w.client, w.key(name), &clusterv1.Machine{}, func(machine *clusterv1.Machine) {
		unhealthy(machine, false)
	})
	w.nodeIs(ctx, corev1.ConditionTrue)
	w.startControllers(ctx, check)
	Eventually(func(g Gomega) {
		g.Expect(w.client.Get(ctx, client.ObjectKeyFromObject(check), check)).To(Succeed())
		g.Expect(check.Status.CurrentHealthy).To(HaveValue(BeEquivalentTo(1)))
	}).Should(Succeed())
	return w
}

// watched creates a world with a MachineHealthCheck for a Machine of a MachineSet, and runs no controllers.
func (s *suite) watched(ctx context.Context) (*world, *clusterv1.MachineHealthCheck) {
	GinkgoHelper()
	w := s.world(ctx)
	stage.ChangeStatus(ctx, w.client, w.key(clusterName), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
		for _, condition := range []string{
			clusterv1.ClusterInfrastructureReadyCondition, clusterv1.ClusterControlPlaneInitializedCondition,
		} {
			conditions.Set(cluster, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: "Ready"})
		}
	})
	labels := map[string]string{clusterv1.ClusterNameLabel: clusterName, ofSet: "workers"}
	w.machine(ctx, build.Labels(labels))
	w.create(ctx, build.MachineTemplate("template", build.InNamespace(w.namespace)))
	w.create(ctx, w.machineSet(ctx, labels))
	check := w.healthCheck(labels)
	w.create(ctx, check)
	return w, check
}

// startControllers runs all controllers until the MachineHealthCheck has seen its Machine, and the MachineSet owns it.
func (w *world) startControllers(ctx context.Context, check *clusterv1.MachineHealthCheck) {
	GinkgoHelper()
	w.operate(ctx)
	w.start()
	w.startClusterAPI()
	Eventually(func(g Gomega) {
		g.Expect(w.client.Get(ctx, client.ObjectKeyFromObject(check), check)).To(Succeed())
		g.Expect(check.Status.ExpectedMachines).To(HaveValue(BeEquivalentTo(1)))
		g.Expect(metav1.GetControllerOf(w.owner(ctx, g))).To(HaveValue(HaveField("Kind", "MachineSet")))
	}).Should(Succeed())
}

func (w *world) machineSet(ctx context.Context, labels map[string]string) *clusterv1.MachineSet {
	GinkgoHelper()
	machine := w.owner(ctx, Default)
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.namespace, Name: "workers", Labels: map[string]string{clusterv1.ClusterNameLabel: clusterName},
	}}
	set.Spec.ClusterName, set.Spec.Replicas = clusterName, ptr.To[int32](1)
	set.Spec.Selector.MatchLabels = labels
	set.Spec.Template.Labels = labels
	set.Spec.Template.Spec = clusterv1.MachineSpec{
		ClusterName: clusterName, Bootstrap: machine.Spec.Bootstrap,
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "Metal3MachineTemplate", Name: "template",
		},
	}
	return set
}

func (w *world) remediationTemplate() *infrav1.Metal3RemediationTemplate {
	template := &infrav1.Metal3RemediationTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "reboot"}}
	template.Spec.Template.Spec.Strategy = &infrav1.RemediationStrategy{
		Type: infrav1.RebootRemediation, RetryLimit: 1, TimeoutSeconds: ptr.To(int32(timeout / time.Second)),
	}
	return template
}

func (w *world) healthCheck(labels map[string]string) *clusterv1.MachineHealthCheck {
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "workers"}}
	check.Spec.ClusterName = clusterName
	check.Spec.Selector.MatchLabels = labels
	check.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: ptr.To[int32](0),
	}}
	check.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{
		APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3RemediationTemplate", Name: "reboot",
	}
	return check
}

// startClusterAPI runs the controllers of Cluster API in a manager of their own. It disables their rate limit, which
// delays reconciles of a MachineHealthCheck by up to 15 seconds.
func (w *world) startClusterAPI() {
	GinkgoHelper()
	Expect(feature.MutableGates.Set(string(feature.ReconcilerRateLimiting) + "=false")).To(Succeed())
	shared := true
	options := controller.Options{SkipNameValidation: &shared}
	stage.Manager{
		Config: w.server.Config, Namespace: w.namespace, Clusters: true, ManagedFields: true,
		Setup: func(ctx context.Context, mgr ctrl.Manager, clusters clustercache.ClusterCache) error {
			if err := index.AddDefaultIndexes(ctx, mgr); err != nil {
				return err
			}
			checks := &machinehealthcheck.Reconciler{Client: mgr.GetClient(), ClusterCache: clusters}
			if err := checks.SetupWithManager(ctx, mgr, options); err != nil {
				return err
			}
			sets := &machineset.Reconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), ClusterCache: clusters}
			return sets.SetupWithManager(ctx, mgr, options)
		},
	}.Start()
}

// nodeIs sets the condition Ready of the Node.
func (w *world) nodeIs(ctx context.Context, ready corev1.ConditionStatus) {
	GinkgoHelper()
	stage.ChangeStatus(ctx, w.client, client.ObjectKey{Name: w.node}, &corev1.Node{}, func(node *corev1.Node) {
		node.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.Now(), Reason: "OfTheStory",
		}}
	})
}

// machines returns the names of the Machines that are not being deleted.
func (w *world) machines(ctx context.Context, g Gomega) []string {
	var list clusterv1.MachineList
	g.Expect(w.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	var names []string
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp.IsZero() {
			names = append(names, list.Items[i].Name)
		}
	}
	return names
}
