package metal3remediation_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// carriers are the nodes with an Ironic endpoint.
type carriers struct {
	nodes []workload.ControlPlaneNode
	err   error
}

func (c *carriers) Read(context.Context, types.NamespacedName, string) (workload.ControlPlane, error) {
	return workload.ControlPlane{Nodes: c.nodes}, c.err
}

// describeProtection are the stories about nodes that the provider requires.
func describeProtection(s *suite) {
	untouched := func(ctx context.Context, w *world) {
		GinkgoHelper()
		Expect(w.powerOffRequests(ctx, Default)).To(BeEmpty())
		Expect(w.request(ctx, Default).Status.Phase).To(BeEmpty())
	}

	It("does not power off the only node of the management cluster", func(ctx context.Context) {
		w := s.world(ctx)
		owner := w.machine(ctx, ofControlPlane())
		w.isManagement(ctx, w.node, owner.Spec.ProviderID, true)
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.HostRebootedCondition,
			stage.IsFalseBecause(infrav1.ManagementClusterAtRiskReason, "Without Node "+w.node+", 0 of 1 control-plane nodes"))
		untouched(ctx, w)
		w.passes(ctx, 10*timeout)
		Consistently(func(g Gomega) {
			g.Expect(w.request(ctx, g).Status.RetryCount).To(BeZero())
			g.Expect(w.powerOffRequests(ctx, g)).To(BeEmpty())
		}).Should(Succeed(), "the time does not count")
		for _, other := range []string{"-b", "-c"} {
			w.controlPlaneNode(ctx, w.node+other, "metal3://"+w.node+other)
		}
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.PoweringOffReason, ""))
	})

	It("begins the next try at once when another node is ready again", func(ctx context.Context) {
		w := s.world(ctx)
		owner := w.machine(ctx, ofControlPlane())
		w.isManagement(ctx, w.node, owner.Spec.ProviderID, false)
		others := []string{w.node + "-b", w.node + "-c"}
		for _, other := range others {
			w.controlPlaneNode(ctx, other, "metal3://"+other)
		}
		w.operate(ctx)
		w.start()
		w.remediate(ctx)
		w.done(ctx)
		began := w.request(ctx, Default).Status.LastRemediated
		w.isManagement(ctx, others[0], "metal3://"+others[0], false)
		w.passes(ctx, timeout+time.Second)
		atRisk := stage.IsFalseBecause(infrav1.ManagementClusterAtRiskReason, "")
		w.eventually(ctx, infrav1.HostRebootedCondition, atRisk)
		w.passes(ctx, 0)
		Consistently(func(g Gomega) {
			status := w.request(ctx, g).Status
			g.Expect(status.Conditions).To(stage.HaveCondition(infrav1.HostRebootedCondition, atRisk))
			g.Expect(status.LastRemediated).To(Equal(began), "no try begins")
		}).Should(Succeed())
		w.isManagement(ctx, others[0], "metal3://"+others[0], true)
		Eventually(func(g Gomega) { g.Expect(w.request(ctx, g).Status.RetryCount).To(BeEquivalentTo(1)) }).Should(Succeed())
	})

	It("powers off the only node of another cluster", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx, ofControlPlane())
		w.isManagement(ctx, w.node, "metal3://other/host/machine", false)
		w.operate(ctx)
		w.start()
		w.remediate(ctx)
		w.done(ctx)
	})

	It("does not power off the only node that may hold the VIP of the Ironic endpoint", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx, ofControlPlane())
		w.infrastructure(ctx)
		w.planes = &carriers{nodes: []workload.ControlPlaneNode{
			{Name: w.node, Armed: pivot.ArmedByProvider, PodsReady: true},
			{Name: "other", Armed: pivot.ArmedByProvider, PodsReady: false},
		}}
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.HostRebootedCondition,
			stage.IsFalseBecause(infrav1.IronicEndpointAtRiskReason, "Node "+w.node+" may hold the VIP"))
		untouched(ctx, w)
	})

	It("powers off the VIP holder while another node may hold the VIP", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx, ofControlPlane())
		w.infrastructure(ctx)
		w.planes = &carriers{nodes: []workload.ControlPlaneNode{
			{Name: w.node, Armed: pivot.ArmedByProvider, PodsReady: true},
			{Name: "other", Armed: pivot.ArmedByUser, PodsReady: true},
		}}
		w.operate(ctx)
		w.start()
		w.remediate(ctx)
		w.done(ctx)
	})

	It("does not power off a node that may hold the VIP while the state of the others is unknown", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx, ofControlPlane())
		w.infrastructure(ctx)
		w.planes = &carriers{err: workload.ErrUnreachable}
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.HostRebootedCondition,
			stage.IsFalseBecause(infrav1.WorkloadClusterUnreachableReason, "may hold the VIP"))
		untouched(ctx, w)
	})
}

func ofControlPlane() build.ObjectOption {
	return build.Labels(map[string]string{clusterv1.MachineControlPlaneLabel: "", clusterv1.ClusterNameLabel: clusterName})
}

// infrastructure creates a Metal3Cluster with an Ironic endpoint on its nodes.
func (w *world) infrastructure(ctx context.Context) {
	GinkgoHelper()
	w.create(ctx, build.Metal3Cluster(clusterName, build.InNamespace(w.namespace),
		stage.With(func(infra *infrav1.Metal3Cluster) {
			infra.Spec.Ironic = &infrav1.Ironic{
				ClusterID: "c1", Takeover: infrav1.TakeoverAlways,
				Endpoint: infrav1.IronicEndpoint{VirtualIPs: []string{"192.0.2.2"}, CIDRs: []string{"192.0.2.0/24"}, Interface: "eth0"},
			}
		})))
}

// isManagement makes a Node a control-plane node of the management cluster.
func (w *world) isManagement(ctx context.Context, name, providerID string, ready bool) {
	GinkgoHelper()
	key := client.ObjectKey{Name: name}
	stage.Change(ctx, w.client, key, &corev1.Node{}, func(node *corev1.Node) {
		metav1.SetMetaDataLabel(&node.ObjectMeta, "node-role.kubernetes.io/control-plane", "")
		node.Spec.ProviderID = providerID
	})
	stage.ChangeStatus(ctx, w.client, key, &corev1.Node{}, func(node *corev1.Node) {
		status := corev1.ConditionFalse
		if ready {
			status = corev1.ConditionTrue
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	})
}

// controlPlaneNode creates another node of that control plane.
func (w *world) controlPlaneNode(ctx context.Context, name, providerID string) {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	w.create(ctx, node)
	DeferCleanup(func(ctx context.Context) { Expect(w.client.Delete(ctx, node)).To(Succeed()) })
	w.isManagement(ctx, name, providerID, true)
}
