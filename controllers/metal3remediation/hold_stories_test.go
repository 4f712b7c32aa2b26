package metal3remediation_test

import (
	"context"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeHolds are the stories about pauses, moves, and missing objects.
func describeHolds(s *suite) {
	It("does nothing during a pause, and does not count its time", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		w.pause(ctx, true)
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.PausedCondition, stage.IsTrue())
		Expect(w.writes.Done()).To(Equal([]stage.Write{{Verb: "patch status", Kind: "Metal3Remediation", Name: name}}))
		w.pause(ctx, false)
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.PoweringOffReason, ""))

		w.pause(ctx, true)
		w.eventually(ctx, infrav1.PausedCondition, stage.IsTrue())
		before := w.host(ctx, Default).ResourceVersion
		w.passes(ctx, 10*timeout)
		w.pause(ctx, false)
		w.eventually(ctx, infrav1.PausedCondition, HaveField("Reason", clusterv1.NotPausedReason))
		Eventually(func(g Gomega) {
			g.Expect(w.request(ctx, g).Status.LastRemediated.Time).To(BeTemporally("~", w.clock.Now(), time.Second))
		}).Should(Succeed())
		Expect(w.request(ctx, Default).Status.RetryCount).To(BeZero())
		Expect(w.host(ctx, Default).ResourceVersion).To(Equal(before))
	})

	It("names its Machine, whose annotation pauses it", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx, build.Annotations(map[string]string{clusterv1.PausedAnnotation: ""}))
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.PausedCondition, And(stage.IsTrueBecause(clusterv1.PausedReason),
			HaveField("Message", "Machine machine has the annotation cluster.x-k8s.io/paused: remove the annotation")))
		stage.Change(ctx, w.client, w.key(name), &clusterv1.Machine{}, func(machine *clusterv1.Machine) {
			machine.Annotations = nil
		})
		w.eventually(ctx, infrav1.PausedCondition, HaveField("Reason", clusterv1.NotPausedReason))
	})

	It("does nothing while another management cluster manages the Cluster", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		w.infrastructure(ctx)
		setManagement := func(status metav1.ConditionStatus, reason string) {
			stage.ChangeStatus(ctx, w.client, w.key(clusterName),
				&infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
					conditions.Set(infra, metav1.Condition{
						Type: infrav1.IronicEndpointReadyCondition, Status: status, Reason: reason,
					})
				})
		}
		setManagement(metav1.ConditionFalse, infrav1.ManagedElsewhereReason)
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.PausedCondition, stage.IsTrueBecause(infrav1.ManagedElsewhereReason))
		Expect(w.writes.Done()).To(Equal([]stage.Write{{Verb: "patch status", Kind: "Metal3Remediation", Name: name}}))
		setManagement(metav1.ConditionTrue, infrav1.EndpointAnswersReason)
		// The status of the Metal3Machine changes then, too.
		stage.Change(ctx, w.client, w.key(name), &infrav1.Metal3Machine{}, func(machine *infrav1.Metal3Machine) {
			build.Annotations(map[string]string{"resumed": ""})(machine)
		})
		w.eventually(ctx, infrav1.PausedCondition, HaveField("Reason", clusterv1.NotPausedReason))
	})

	It("continues after a move, which drops status and UIDs", func(ctx context.Context) {
		w := s.world(ctx)
		w.clusters = old
		w.machine(ctx)
		w.remove(ctx, w.getNode(ctx, Default))
		w.power(ctx, false)
		w.changeHost(ctx, func(host *bmov1alpha1.BareMetalHost) {
			host.Annotations = map[string]string{"reboot.metal3.io/metal3-remediation-machine": `{"mode":"hard"}`}
		})
		w.remediate(ctx,
			at(`{"phase":"Running","retryCount":1,"lastRemediated":"2020-01-01T00:00:00Z","fence":"Delete"}`),
			func(request *infrav1.Metal3Remediation) {
				request.Annotations[infrav1.NodeLabelsBackupAnnotation] = `{"rack":"a"}`
			})
		w.operate(ctx)
		w.start()
		w.eventually(ctx, infrav1.NodeRestoredCondition, stage.IsFalseBecause(infrav1.WaitingForNodeReason, ""))
		w.joins(ctx, nil)
		w.done(ctx)
		Expect(w.request(ctx, Default).Status.RetryCount).To(BeEquivalentTo(1), "the time before the move does not count")
		Expect(w.getNode(ctx, Default).Labels).To(HaveKeyWithValue("rack", "a"))
		Expect(w.powerOffRequests(ctx, Default)).To(BeEmpty())
	})

	It("does not write objects that clusterctl move deletes in the source cluster", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		w.start()
		w.remediate(ctx, func(request *infrav1.Metal3Remediation) {
			request.Annotations = map[string]string{infrav1.DeleteForMoveAnnotation: ""}
		})
		w.writes.AwaitRead(name)
		Consistently(func(g Gomega) { g.Expect(w.writes.Done()).To(BeEmpty()) }).Should(Succeed())
	})

	It("waits while the user paused, detached or powered off the host", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		w.changeHost(ctx, func(host *bmov1alpha1.BareMetalHost) { host.Spec.Online = false })
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.HostRebootedCondition,
			stage.IsFalseBecause(infrav1.HostOfflineReason, "spec.online of BareMetalHost host is false"))
		Expect(w.request(ctx, Default).Status.Phase).To(Equal(infrav1.RemediationFailed))
		Eventually(func(g Gomega) { g.Expect(w.events(ctx, g)).To(ContainElement("Warning BareMetalHostOffline")) }).Should(Succeed())
		w.changeHost(ctx, func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.Online, host.Annotations = true, map[string]string{bmov1alpha1.PausedAnnotation: "by me"}
		})
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.HostWithheldReason, "host is paused"))
		w.changeHost(ctx, func(host *bmov1alpha1.BareMetalHost) {
			host.Annotations = map[string]string{bmov1alpha1.PausedAnnotation: infrav1.HostPausedByProvider}
		})
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.HostWithheldReason, "until the move"))
		w.changeHost(ctx, func(host *bmov1alpha1.BareMetalHost) { host.Annotations = nil })
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.PoweringOffReason, ""))
		Expect(w.request(ctx, Default).Status.Phase).To(Equal(infrav1.RemediationRunning))
	})

	It("stops the time of the try while BMO services the host", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		service := func(is bmov1alpha1.OperationalStatus) {
			GinkgoHelper()
			stage.ChangeStatus(ctx, w.client, w.key(hostName), &bmov1alpha1.BareMetalHost{},
				func(host *bmov1alpha1.BareMetalHost) { host.Status.OperationalStatus = is })
		}
		service(bmov1alpha1.OperationalStatusServicing)
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.HostRebootedCondition,
			stage.IsFalseBecause(infrav1.HostWithheldReason, "BareMetalHost host is being serviced"))
		w.passes(ctx, 3*timeout)
		service(bmov1alpha1.OperationalStatusOK)
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.PoweringOffReason, ""))
		Expect(w.request(ctx, Default).Status.RetryCount).To(BeEquivalentTo(0), "the time of the service does not count")
	})

	It("reports a missing object until it exists", func(ctx context.Context) {
		w := s.world(ctx)
		owner := w.machine(ctx)
		machine := &infrav1.Metal3Machine{}
		Expect(w.client.Get(ctx, w.key(name), machine)).To(Succeed())
		w.remove(ctx, machine)
		host := w.host(ctx, Default)
		w.remove(ctx, host)
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.HostRebootedCondition,
			stage.IsFalseBecause(infrav1.Metal3MachineMissingReason, "names Metal3Machine machine in spec.infrastructureRef"))
		machine = build.Metal3Machine(name, clusterName, build.InNamespace(w.namespace), build.OwnedBy(owner))
		w.create(ctx, machine)
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.HostMissingReason, "has no BareMetalHost"))
		host = build.Host(hostName, build.InNamespace(w.namespace), build.Provisioned(), build.Consumed(machine))
		reported := *host.Status.DeepCopy()
		Expect(w.client.Create(ctx, host)).To(Succeed())
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.HostNotReportedReason, "to report"))
		Expect(w.powerOffRequests(ctx, Default)).To(BeEmpty(), "a host without a power state does not count as powered off")
		host.Status = reported
		Expect(w.client.Status().Update(ctx, host)).To(Succeed())
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.PoweringOffReason, ""))
	})

	It("reports that its Machine does not exist", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		w.start()
		w.remediate(ctx, func(request *infrav1.Metal3Remediation) { request.OwnerReferences[0].Name = "gone" })
		w.eventually(ctx, infrav1.ReadyCondition, stage.IsFalseBecause(infrav1.MachineMissingReason,
			"metadata.ownerReferences names Machine gone, which does not exist. Delete this Metal3Remediation"))
		w.remove(ctx, w.request(ctx, Default))
		w.gone(ctx)
	})

	It("applies the watch filter to the Metal3Machine, because a MachineHealthCheck sets no labels", func(ctx context.Context) {
		w := s.world(ctx)
		w.watchFilter = "mine"
		w.machine(ctx)
		w.start()
		w.remediate(ctx)
		w.writes.AwaitRead(name)
		Consistently(func(g Gomega) { g.Expect(w.writes.Done()).To(BeEmpty()) }).Should(Succeed())
		stage.Change(ctx, w.client, w.key(name), &infrav1.Metal3Machine{}, func(machine *infrav1.Metal3Machine) {
			metav1.SetMetaDataLabel(&machine.ObjectMeta, clusterv1.WatchLabel, "mine")
		})
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.PoweringOffReason, ""))
	})

	It("is deleted with a watch filter although its Machine and its Metal3Machine are gone", func(ctx context.Context) {
		w := s.world(ctx)
		w.watchFilter = "mine"
		owner := w.machine(ctx)
		machine := &infrav1.Metal3Machine{}
		stage.Change(ctx, w.client, w.key(name), machine, func(machine *infrav1.Metal3Machine) {
			metav1.SetMetaDataLabel(&machine.ObjectMeta, clusterv1.WatchLabel, "mine")
		})
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.PoweringOffReason, ""))
		w.remove(ctx, machine)
		w.remove(ctx, owner)
		w.remove(ctx, w.request(ctx, Default))
		w.gone(ctx)
	})
}

func (w *world) pause(ctx context.Context, paused bool) {
	GinkgoHelper()
	stage.Change(ctx, w.client, w.key(clusterName), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
		cluster.Spec.Paused = ptr.To(paused)
	})
}
