package metal3remediation_test

import (
	"context"
	"sync/atomic"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/collections"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3remediation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeEscalations are the stories about Machines that stay unhealthy.
func describeEscalations(s *suite) {
	It("retries, then marks the Machine for replacement by its owner", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		w.operate(ctx)
		tries, replacements := counter("metal3_remediation_tries_total"), counter("metal3_remediation_replacements_total")
		w.start()
		w.remediate(ctx)
		w.done(ctx)
		Expect(w.request(ctx, Default).Status.RetryCount).To(BeZero())

		first := w.request(ctx, Default).Status.LastRemediated
		w.passes(ctx, timeout+time.Second)
		Eventually(func(g Gomega) {
			request := w.request(ctx, g)
			g.Expect(request.Status.RetryCount).To(BeEquivalentTo(1))
			g.Expect(request.Status.LastRemediated.After(first.Time)).To(BeTrue())
			g.Expect(request.Status.Conditions).To(stage.HaveCondition(infrav1.ReadyCondition, stage.IsTrue()))
		}).Should(Succeed())
		Expect(collections.IsUnhealthyAndOwnerRemediated(w.owner(ctx, Default))).To(BeFalse())

		w.passes(ctx, timeout+time.Second)
		w.eventually(ctx, infrav1.HostRebootedCondition,
			stage.IsFalseBecause(infrav1.RetriesExhaustedReason, "Machine machine is unhealthy after 2 tries to reboot BareMetalHost host"))
		Expect(w.request(ctx, Default).Status.Phase).To(Equal(infrav1.RemediationDeletingMachine))
		Expect(collections.IsUnhealthyAndOwnerRemediated(w.owner(ctx, Default))).To(BeTrue(),
			"MachineSets and control planes read it")
		Expect(w.owner(ctx, Default).Status.Conditions).To(stage.HaveCondition(clusterv1.MachineOwnerRemediatedCondition,
			stage.IsFalseBecause("WaitingForRemediation", "BareMetalHost host")))
		Expect(w.host(ctx, Default).Annotations).To(HaveKeyWithValue("capm3.metal3.io/unhealthy", "capm3/UnhealthyNode"))
		Expect(w.powerOffRequests(ctx, Default)).To(BeEmpty())
		Eventually(func(g Gomega) { g.Expect(w.events(ctx, g)).To(ContainElement("Warning RetriesExhausted")) }).Should(Succeed())

		w.passes(ctx, timeout+time.Second)
		Consistently(func() []float64 {
			return []float64{
				counter("metal3_remediation_tries_total") - tries, counter("metal3_remediation_replacements_total") - replacements,
			}
		}).Should(Equal([]float64{2, 1}))
	})

	It("neither reboots nor marks a host that was not provisioned in time", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		w.provision(ctx, bmov1alpha1.StateProvisioning)
		w.start()
		w.remediate(ctx)
		waits := func() {
			GinkgoHelper()
			w.eventually(ctx, infrav1.HostRebootedCondition,
				stage.IsFalseBecause(infrav1.HostNotProvisionedReason, "Its state is provisioning"))
			Expect(w.powerOffRequests(ctx, Default)).To(BeEmpty())
		}
		waits()
		w.passes(ctx, timeout+time.Second)
		Eventually(func(g Gomega) {
			g.Expect(w.request(ctx, g).Status.RetryCount).To(BeEquivalentTo(1))
		}).Should(Succeed())
		waits()
		w.passes(ctx, timeout+time.Second)
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.RetriesExhaustedReason,
			"BareMetalHost host was not provisioned in time, and was not rebooted. Waiting for the owner of Machine machine"))
		Expect(collections.IsUnhealthyAndOwnerRemediated(w.owner(ctx, Default))).To(BeTrue())
		Expect(w.host(ctx, Default).Annotations).NotTo(HaveKey(infrav1.UnhealthyAnnotation))
	})

	It("does not reboot a host that was provisioned during the try", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		w.provision(ctx, bmov1alpha1.StateProvisioning)
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.HostRebootedCondition,
			stage.IsFalseBecause(infrav1.HostNotProvisionedReason, "Its state is provisioning"))
		w.clock.SetTime(w.clock.Now().Add(timeout / 2))
		w.provision(ctx, bmov1alpha1.StateProvisioned)
		w.eventually(ctx, infrav1.HostRebootedCondition,
			stage.IsFalseBecause(infrav1.HostNotProvisionedReason, "Its state is provisioned"))
		Expect(w.powerOffRequests(ctx, Default)).To(BeEmpty())
	})

	It("marks the Machine for replacement if its host was deleted", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.PoweringOffReason, ""))
		stage.Change(ctx, w.client, w.key(hostName), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Finalizers = []string{"example.com/deprovision"}
		})
		w.remove(ctx, w.host(ctx, Default))
		w.eventually(ctx, infrav1.HostRebootedCondition,
			stage.IsFalseBecause(infrav1.HostMissingReason, "BareMetalHost host is being deleted"))
		Expect(conditions.Has(w.owner(ctx, Default), clusterv1.MachineOwnerRemediatedCondition)).To(BeFalse())

		w.changeHost(ctx, func(host *bmov1alpha1.BareMetalHost) { host.Finalizers = nil })
		w.eventually(ctx, infrav1.HostRebootedCondition,
			stage.IsFalseBecause(infrav1.HostMissingReason, "BareMetalHost host was deleted. Waiting for the owner of Machine machine"))
		Expect(w.request(ctx, Default).Status.Phase).To(Equal(infrav1.RemediationDeletingMachine))
		Expect(collections.IsUnhealthyAndOwnerRemediated(w.owner(ctx, Default))).To(BeTrue())
		Expect(w.owner(ctx, Default).Status.Conditions).To(stage.HaveCondition(clusterv1.MachineOwnerRemediatedCondition,
			stage.IsFalseBecause("WaitingForRemediation", "BareMetalHost host of the Machine was deleted")))
	})

	It("reboots a host that was restored", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		host := w.host(ctx, Default)
		w.remove(ctx, host)
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.HostMissingReason, "was deleted"))
		host.ResourceVersion, host.UID = "", ""
		w.create(ctx, host)
		w.operate(ctx)
		w.done(ctx)
		Expect(w.request(ctx, Default).Status.Phase).To(Equal(infrav1.RemediationWaiting))
		Expect(w.host(ctx, Default).Annotations).NotTo(HaveKey(infrav1.UnhealthyAnnotation))
	})

	It("marks the Machine for replacement if its host was deleted, and created again for other hardware", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		machine := &infrav1.Metal3Machine{}
		stage.Change(ctx, w.client, w.key(name), machine, func(machine *infrav1.Metal3Machine) {
			machine.Spec.ProviderID = w.owner(ctx, Default).Spec.ProviderID
		})
		w.remove(ctx, w.host(ctx, Default))
		Eventually(time.Now).Should(BeTemporally(">=", machine.CreationTimestamp.Add(time.Second)))
		Expect(build.CreateHost(ctx, w.client, build.Host(hostName, build.InNamespace(w.namespace)))).To(Succeed())
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.HostRebootedCondition,
			stage.IsFalseBecause(infrav1.HostMissingReason, "BareMetalHost host was deleted. Waiting for the owner of Machine machine"))
		Expect(w.request(ctx, Default).Status.Phase).To(Equal(infrav1.RemediationDeletingMachine))
		Expect(collections.IsUnhealthyAndOwnerRemediated(w.owner(ctx, Default))).To(BeTrue())
		Expect(w.host(ctx, Default).Annotations).To(BeEmpty())
	})

	It("does not mark a Machine whose host belongs to another machine", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		w.changeHost(ctx, func(host *bmov1alpha1.BareMetalHost) { host.Spec.ConsumerRef.Name = "another" })
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.HostRebootedCondition,
			stage.IsFalseBecause(infrav1.HostMissingReason, "Metal3Machine machine has no BareMetalHost"))
		Expect(w.request(ctx, Default).Status.Phase).To(Equal(infrav1.RemediationFailed))
		Expect(conditions.Has(w.owner(ctx, Default), clusterv1.MachineOwnerRemediatedCondition)).To(BeFalse())
	})

	It("keeps the condition that the owner set on the Machine", func(ctx context.Context) {
		w := s.exhausted(ctx)
		stage.ChangeStatus(ctx, w.client, w.key(name), &clusterv1.Machine{}, func(machine *clusterv1.Machine) {
			conditions.Set(machine, metav1.Condition{
				Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: "CannotBeRemediated",
			})
		})
		w.passes(ctx, time.Second)
		answer := func(g Gomega) {
			g.Expect(conditions.GetReason(w.owner(ctx, g), clusterv1.MachineOwnerRemediatedCondition)).To(Equal("CannotBeRemediated"))
		}
		Consistently(answer).Should(Succeed())
	})

	It("does not mark a Machine that is healthy again, because its owner would remove the mark", func(ctx context.Context) {
		w := s.exhausted(ctx)
		health := func(is bool) {
			GinkgoHelper()
			stage.ChangeStatus(ctx, w.client, w.key(name), &clusterv1.Machine{}, func(machine *clusterv1.Machine) {
				conditions.Delete(machine, clusterv1.MachineOwnerRemediatedCondition)
				unhealthy(machine, !is)
			})
		}
		health(true)
		w.passes(ctx, time.Second)
		Consistently(func(g Gomega) {
			g.Expect(conditions.Has(w.owner(ctx, g), clusterv1.MachineOwnerRemediatedCondition)).To(BeFalse())
		}).Should(Succeed())
		health(false)
		Eventually(func(g Gomega) {
			g.Expect(collections.IsUnhealthyAndOwnerRemediated(w.owner(ctx, g))).To(BeTrue())
		}).Should(Succeed())
	})

	It("removes the fence after the last try as soon as the host is on", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		w.power(ctx, false)
		stage.Change(ctx, w.client, client.ObjectKey{Name: w.node}, &corev1.Node{}, func(node *corev1.Node) {
			node.Spec.Taints = append(node.Spec.Taints, outOfService())
		})
		w.start()
		w.remediate(ctx, at(`{"phase":"Deleting machine","retryCount":1,"fence":"Taint"}`))
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.RetriesExhaustedReason, ""))
		Expect(w.getNode(ctx, Default).Spec.Taints).To(ContainElement(outOfService()), "pods must not run twice")
		w.power(ctx, true)
		Eventually(func(g Gomega) {
			g.Expect(w.getNode(ctx, g).Spec.Taints).NotTo(ContainElement(outOfService()))
			g.Expect(w.request(ctx, g).Annotations[infrav1.RemediationAnnotation]).NotTo(ContainSubstring("Taint"))
		}).Should(Succeed())
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.RetriesExhaustedReason, ""))
	})

	It("waits for the MachineHealthCheck as long again if the Node is ready at the timeout", func(ctx context.Context) {
		w := s.world(ctx)
		muted := &atomic.Bool{}
		w.nodes = func(nodes metal3remediation.Nodes) metal3remediation.Nodes { return mutedNodes{nodes, muted} }
		w.machine(ctx)
		w.operate(ctx)
		w.start()
		w.remediate(ctx)
		w.done(ctx)
		w.nodeIs(ctx, corev1.ConditionTrue)
		muted.Store(true)
		w.passes(ctx, timeout+time.Second)
		w.eventually(ctx, infrav1.NodeRestoredCondition, stage.IsFalseBecause(infrav1.WorkloadClusterUnreachableReason, ""))
		muted.Store(false)
		w.eventually(ctx, infrav1.NodeRestoredCondition, And(stage.IsTrue(), HaveField("Message", ContainSubstring(
			"Node "+w.node+" is ready after the timeout. The next step waits for the MachineHealthCheck until "))))
		Expect(w.request(ctx, Default).Status.RetryCount).To(BeZero())
		Expect(w.powerOffRequests(ctx, Default)).To(BeEmpty())
		w.passes(ctx, timeout)
		Eventually(func(g Gomega) {
			g.Expect(w.request(ctx, g).Status.RetryCount).To(BeEquivalentTo(1))
		}).Should(Succeed())
	})

	It("does not count the time in which no manager ran", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		w.remediate(ctx, at(`{"phase":"Running","retryCount":1,"lastRemediated":"2020-01-01T00:00:00Z"}`))
		w.passes(ctx, 2*timeout)
		w.start()
		Eventually(func(g Gomega) {
			g.Expect(w.request(ctx, g).Status.LastRemediated).To(HaveValue(
				HaveField("Time", BeTemporally("~", w.clock.Now(), time.Second))))
		}).Should(Succeed())
		Expect(w.request(ctx, Default).Status.Phase).To(Equal(infrav1.RemediationRunning))
		Expect(conditions.Has(w.owner(ctx, Default), clusterv1.MachineOwnerRemediatedCondition)).To(BeFalse())
		w.passes(ctx, timeout)
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.RetriesExhaustedReason, ""))
	})

	It("does not retry after the Machine is healthy", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		w.operate(ctx)
		w.start()
		w.remediate(ctx)
		w.done(ctx)
		stage.ChangeStatus(ctx, w.client, w.key(name), &clusterv1.Machine{}, func(machine *clusterv1.Machine) {
			unhealthy(machine, false)
		})
		w.passes(ctx, 10*timeout)
		Consistently(func(g Gomega) {
			g.Expect(w.request(ctx, g).Status.RetryCount).To(BeZero())
			g.Expect(w.request(ctx, g).Status.Phase).To(Equal(infrav1.RemediationWaiting))
		}).Should(Succeed())
	})

	It("counts a host that cannot be powered off as a failed try, also if its Node is ready", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		w.nodeIs(ctx, corev1.ConditionTrue)
		w.start()
		w.remediate(ctx)
		for range 2 {
			w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.PoweringOffReason, ""))
			count := w.request(ctx, Default).Status.RetryCount
			w.passes(ctx, timeout+time.Second)
			Eventually(func(g Gomega) {
				request := w.request(ctx, g)
				g.Expect(request.Status.RetryCount > count || request.Status.Phase == infrav1.RemediationDeletingMachine).To(BeTrue())
			}).Should(Succeed())
		}
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.RetriesExhaustedReason, ""))
		Expect(w.powerOffRequests(ctx, Default)).To(BeEmpty(), "an owner may keep the Machine")
		Expect(w.owner(ctx, Default).Status.Conditions).To(stage.HaveCondition(clusterv1.MachineOwnerRemediatedCondition,
			stage.IsFalseBecause("WaitingForRemediation", "BareMetalHost host was not rebooted in 2 tries")))
	})

	It("removes the unhealthy annotation if the Machine recovers", func(ctx context.Context) {
		w := s.exhausted(ctx)
		w.remove(ctx, w.request(ctx, Default))
		w.gone(ctx)
		Expect(w.host(ctx, Default).Annotations).NotTo(HaveKey(infrav1.UnhealthyAnnotation))
	})

	It("keeps the unhealthy annotation if the Machine is replaced", func(ctx context.Context) {
		w := s.exhausted(ctx)
		stage.Change(ctx, w.client, w.key(name), &clusterv1.Machine{}, func(machine *clusterv1.Machine) {
			machine.Finalizers = []string{"example.com/drain"}
		})
		w.remove(ctx, w.owner(ctx, Default))
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.MachineDeletingReason, ""))
		w.remove(ctx, w.request(ctx, Default))
		w.gone(ctx)
		Expect(w.host(ctx, Default).Annotations).To(HaveKey(infrav1.UnhealthyAnnotation))
		stage.Change(ctx, w.client, w.key(name), &clusterv1.Machine{}, func(machine *clusterv1.Machine) { machine.Finalizers = nil })
	})
}

// exhausted returns a world after the last try failed.
func (s *suite) exhausted(ctx context.Context) *world {
	GinkgoHelper()
	w := s.world(ctx)
	w.machine(ctx)
	w.start()
	w.remediate(ctx, at(`{"phase":"Deleting machine","retryCount":1}`))
	w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.RetriesExhaustedReason, ""))
	Expect(w.host(ctx, Default).Annotations).To(HaveKey(infrav1.UnhealthyAnnotation))
	return w
}

// mutedNodes are the Nodes of a cluster. Its API server does not answer while they are muted.
type mutedNodes struct {
	metal3remediation.Nodes
	muted *atomic.Bool
}

func (n mutedNodes) Read(ctx context.Context, cluster types.NamespacedName, name string) (*corev1.Node, error) {
	if n.muted.Load() {
		return silentNodes{}.Read(ctx, cluster, name)
	}
	return n.Nodes.Read(ctx, cluster, name)
}

// at sets a record on a Metal3Remediation.
func at(record string) func(*infrav1.Metal3Remediation) {
	return func(request *infrav1.Metal3Remediation) {
		request.Finalizers = []string{infrav1.RemediationFinalizer}
		metav1.SetMetaDataAnnotation(&request.ObjectMeta, infrav1.RemediationAnnotation, record)
	}
}

// counter returns the value of a counter without labels.
func counter(name string) float64 {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	Fail(name + " is not registered")
	return 0
}
