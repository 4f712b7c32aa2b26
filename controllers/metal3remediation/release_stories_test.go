package metal3remediation_test

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3remediation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeDeletions are the stories about deletions during a try.
func describeDeletions(s *suite) {
	clean := func(ctx context.Context, w *world) {
		GinkgoHelper()
		w.gone(ctx)
		Expect(w.powerOffRequests(ctx, Default)).To(BeEmpty())
	}

	It("is deleted while the host is powered off", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.PoweringOffReason, ""))
		w.remove(ctx, w.request(ctx, Default))
		clean(ctx, w)
	})

	reach := phases(s)
	for _, phase := range slices.Sorted(maps.Keys(reach)) {
		It("is deleted in phase "+string(phase), func(ctx context.Context) {
			w := reach[phase](ctx)
			Eventually(func(g Gomega) { g.Expect(w.request(ctx, g).Status.Phase).To(Equal(phase)) }).Should(Succeed())
			w.remove(ctx, w.request(ctx, Default))
			clean(ctx, w)
			Expect(w.host(ctx, Default).Annotations).NotTo(HaveKey(infrav1.UnhealthyAnnotation))
			node := w.getNode(ctx, Default)
			Expect(node.Spec.Taints).NotTo(ContainElement(outOfService()))
			Expect(node.Labels).To(HaveKeyWithValue("rack", "a"))
		})
	}

	It("is deleted while pods leave the Node", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		pod := w.pod(ctx)
		w.start()
		w.remediate(ctx)
		w.power(ctx, false)
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.FencingNodeReason, ""))
		w.remove(ctx, w.request(ctx, Default))
		clean(ctx, w)
		Expect(w.getNode(ctx, Default).Spec.Taints).NotTo(ContainElement(outOfService()))
		Expect(w.client.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
	})

	It("restores a Node that joins after the deletion", func(ctx context.Context) {
		w := s.deletedNode(ctx)
		w.remove(ctx, w.request(ctx, Default))
		w.eventually(ctx, infrav1.DeletingCondition, HaveField("Reason", infrav1.WaitingForNodeReason))
		w.joins(ctx, nil)
		clean(ctx, w)
		Expect(w.getNode(ctx, Default).Labels).To(HaveKeyWithValue("rack", "a"))
	})

	It("does not wait longer than the timeout of a try for a missing Node", func(ctx context.Context) {
		w := s.deletedNode(ctx)
		w.remove(ctx, w.request(ctx, Default))
		w.eventually(ctx, infrav1.DeletingCondition, HaveField("Reason", infrav1.WaitingForNodeReason))
		w.passes(ctx, timeout+time.Second)
		clean(ctx, w)
	})

	tainted := func(ctx context.Context, connection *lateConnection) *world {
		GinkgoHelper()
		w := s.world(ctx)
		w.connection = func(clusters clustercache.ClusterCache) clustercache.ClusterCache {
			connection.ClusterCache = clusters
			return connection
		}
		w.machine(ctx)
		stage.Change(ctx, w.client, client.ObjectKey{Name: w.node}, &corev1.Node{}, func(node *corev1.Node) {
			node.Spec.Taints = append(node.Spec.Taints, outOfService())
		})
		short := func(request *infrav1.Metal3Remediation) { request.Spec.Strategy.TimeoutSeconds = ptr.To(int32(1)) }
		w.remediate(ctx, short, at(`{"phase":"Deleting machine","fence":"Taint","lastRemediated":"2020-01-01T00:00:00Z"}`))
		w.remove(ctx, w.request(ctx, Default))
		w.passes(ctx, 10*time.Second)
		w.start()
		w.eventually(ctx, infrav1.DeletingCondition, HaveField("Reason", infrav1.WorkloadClusterUnreachableReason))
		return w
	}

	It("removes the fence after a new manager has connected", func(ctx context.Context) {
		connection := &lateConnection{}
		w := tainted(ctx, connection)
		w.passes(ctx, time.Hour)
		Consistently(func(g Gomega) { w.request(ctx, g) }).Should(Succeed())
		connection.open.Store(true)
		clean(ctx, w)
		Expect(w.getNode(ctx, Default).Spec.Taints).NotTo(ContainElement(outOfService()))
	})

	It("does not wait longer than a minute for a cluster without a connection", func(ctx context.Context) {
		w := tainted(ctx, &lateConnection{tried: time.Now()})
		w.passes(ctx, time.Minute)
		clean(ctx, w)
	})

	It("does not wait longer than a minute for an API server that answers no requests", func(ctx context.Context) {
		w := s.world(ctx)
		w.nodes = func(nodes metal3remediation.Nodes) metal3remediation.Nodes { return silentNodes{nodes} }
		w.machine(ctx)
		short := func(request *infrav1.Metal3Remediation) { request.Spec.Strategy.TimeoutSeconds = ptr.To(int32(1)) }
		w.remediate(ctx, short, at(`{"phase":"Deleting machine","fence":"Taint","lastRemediated":"2020-01-01T00:00:00Z"}`))
		w.remove(ctx, w.request(ctx, Default))
		w.start()
		w.eventually(ctx, infrav1.DeletingCondition, HaveField("Reason", infrav1.WorkloadClusterUnreachableReason))
		w.passes(ctx, 2*time.Minute)
		clean(ctx, w)
	})

	It("does not wait longer than a minute for the permission to read the Node", func(ctx context.Context) {
		w := s.world(ctx)
		w.nodes = func(nodes metal3remediation.Nodes) metal3remediation.Nodes {
			return forbiddenNodes{Nodes: nodes, read: true}
		}
		w.machine(ctx)
		short := func(request *infrav1.Metal3Remediation) { request.Spec.Strategy.TimeoutSeconds = ptr.To(int32(1)) }
		w.remediate(ctx, short, at(`{"phase":"Deleting machine","fence":"Taint","lastRemediated":"2020-01-01T00:00:00Z"}`))
		w.remove(ctx, w.request(ctx, Default))
		w.start()
		w.eventually(ctx, infrav1.DeletingCondition, And(
			HaveField("Reason", infrav1.ReleaseFailedReason), HaveField("Message", ContainSubstring("no permission"))))
		w.passes(ctx, 2*time.Minute)
		clean(ctx, w)
	})

	It("does not wait for the Node of a deleted Machine", func(ctx context.Context) {
		w := s.deletedNode(ctx)
		w.remove(ctx, w.owner(ctx, Default))
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.MachineMissingReason, ""))
		w.remove(ctx, w.request(ctx, Default))
		w.gone(ctx)
	})
}

// lateConnection is the connection of a manager that has not connected yet.
type lateConnection struct {
	clustercache.ClusterCache
	open atomic.Bool

	// tried is when the manager last tried to connect.
	tried time.Time
}

func (l *lateConnection) Watch(ctx context.Context, cluster client.ObjectKey, watcher clustercache.Watcher) error {
	if !l.open.Load() {
		return clustercache.ErrClusterNotConnected
	}
	return l.ClusterCache.Watch(ctx, cluster, watcher)
}

func (l *lateConnection) GetHealthCheckingState(context.Context, client.ObjectKey) clustercache.HealthCheckingState {
	return clustercache.HealthCheckingState{LastProbeTime: l.tried}
}

// phases returns for each phase a function that returns a world with a Metal3Remediation in it.
func phases(s *suite) map[infrav1.RemediationPhase]func(context.Context) *world {
	begun := func(ctx context.Context, operated bool, edits ...func(*infrav1.Metal3Remediation)) *world {
		GinkgoHelper()
		w := s.world(ctx)
		w.machine(ctx)
		if operated {
			w.operate(ctx)
		}
		w.start()
		w.remediate(ctx, edits...)
		return w
	}
	return map[infrav1.RemediationPhase]func(context.Context) *world{
		infrav1.RemediationRunning: func(ctx context.Context) *world {
			w := begun(ctx, false)
			w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.PoweringOffReason, ""))
			Expect(w.powerOffRequests(ctx, Default)).NotTo(BeEmpty())
			return w
		},
		infrav1.RemediationWaiting: func(ctx context.Context) *world {
			w := begun(ctx, true)
			w.done(ctx)
			return w
		},
		infrav1.RemediationDeletingMachine: s.exhausted,
		infrav1.RemediationFailed: func(ctx context.Context) *world {
			w := begun(ctx, false)
			w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.PoweringOffReason, ""))
			Expect(w.powerOffRequests(ctx, Default)).NotTo(BeEmpty())
			w.changeHost(ctx, func(host *bmov1alpha1.BareMetalHost) { host.Spec.Online = false })
			w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.HostOfflineReason,
				"spec.online of BareMetalHost host is false. Set it to true to reboot the host, or delete Machine machine to replace it."))
			return w
		},
	}
}

// deletedNode returns a world with a deleted Node that has not joined again.
func (s *suite) deletedNode(ctx context.Context) *world {
	GinkgoHelper()
	w := s.world(ctx)
	w.clusters = old
	w.machine(ctx)
	w.operate(ctx)
	w.start()
	w.remediate(ctx)
	w.eventually(ctx, infrav1.NodeRestoredCondition, stage.IsFalseBecause(infrav1.WaitingForNodeReason, ""))
	Expect(w.client.Get(ctx, client.ObjectKey{Name: w.node}, &corev1.Node{})).NotTo(Succeed())
	return w
}
