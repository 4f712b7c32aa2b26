package metal3cluster_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	eventsv1 "k8s.io/api/events/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// onNetwork sets an Ironic endpoint on the network that all stories share.
func onNetwork(clusterID, address string, routerID int32) build.ObjectOption {
	return withIronic(&fakeIronic{port: 1}, func(ironic *infrav1.Ironic) {
		ironic.ClusterID, ironic.Endpoint.VirtualIPs = clusterID, []string{address}
		ironic.VRRP.VirtualRouterID = routerID
	})
}

// another creates a second Cluster with its Metal3Cluster.
func (w *world) another(ctx context.Context, name string, options ...build.Metal3ClusterOption) {
	GinkgoHelper()
	owner := build.Cluster(name, build.InNamespace(w.namespace))
	w.create(ctx, owner)
	options = append([]build.Metal3ClusterOption{build.InNamespace(w.namespace), build.OwnedBy(owner)}, options...)
	w.create(ctx, build.Metal3Cluster(name, options...))
}

// uniqueness waits until the condition of a Metal3Cluster is as wanted.
func (w *world) uniqueness(ctx context.Context, name string, want types.GomegaMatcher) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		infra := &infrav1.Metal3Cluster{}
		g.Expect(w.client.Get(ctx, w.key(name), infra)).To(Succeed())
		g.Expect(infra.Status.Conditions).To(stage.HaveCondition(infrav1.IronicEndpointUniqueCondition, want))
		g.Expect(infra.Status.Conditions).To(stage.HaveCondition(infrav1.ReadyCondition, stage.IsTrue()))
	}).Should(Succeed())
}

func (w *world) routerID(ctx context.Context, name string) int32 {
	GinkgoHelper()
	infra := &infrav1.Metal3Cluster{}
	Expect(w.client.Get(ctx, w.key(name), infra)).To(Succeed())
	return infra.Spec.Ironic.VRRP.VirtualRouterID
}

// warnings counts the events of a reason.
func (w *world) warnings(ctx context.Context, g Gomega, reason string) int {
	var list eventsv1.EventList
	g.Expect(w.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	count := 0
	for _, event := range list.Items {
		if event.Reason == reason && event.Type == "Warning" {
			count++
		}
	}
	return count
}

// colliding returns two clusterIDs with the same default virtual router ID, and that ID.
func colliding() (first, second string, routerID int32) {
	GinkgoHelper()
	known := map[int]string{}
	for number := range 2 * vip.MaxRouterID {
		clusterID := fmt.Sprintf("c%d", number)
		id, err := vip.RouterID(clusterID)
		Expect(err).NotTo(HaveOccurred())
		if earlier, taken := known[id]; taken && id < vip.MaxRouterID {
			return earlier, clusterID, int32(id)
		}
		known[id] = clusterID
	}
	Fail("more clusterIDs than router IDs, and no two have the same")
	return "", "", 0
}

// describeConflicts are the stories of conflicting users of an Ironic endpoint.
func describeConflicts(s *suite) {
	unique := stage.IsTrueBecause(infrav1.EndpointUniqueReason)

	It("reports a conflict in both clusters that use one virtual router ID, until one of them has another", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx), onNetwork("c1", "127.0.0.2", 50))
		w.uniqueness(ctx, clusterName, unique)
		w.another(ctx, "other", onNetwork("c2", "127.0.0.3", 50))
		w.uniqueness(ctx, clusterName, stage.IsFalseBecause(infrav1.VirtualRouterIDTakenReason, w.namespace+"/other uses"))
		w.uniqueness(ctx, "other", stage.IsFalseBecause(infrav1.VirtualRouterIDTakenReason, w.namespace+"/"+clusterName+" uses"))
		Eventually(func(g Gomega) {
			g.Expect(w.warnings(ctx, g, infrav1.VirtualRouterIDTakenReason)).To(Equal(2))
		}).Should(Succeed())

		stage.Change(ctx, w.client, w.key("other"), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
			infra.Spec.Ironic.VRRP.VirtualRouterID = 51
		})
		w.uniqueness(ctx, clusterName, unique)
		w.uniqueness(ctx, "other", unique)
		Expect(w.warnings(ctx, Default, infrav1.VirtualRouterIDTakenReason)).To(Equal(2), "one event for each conflict")
	})

	It("chooses different virtual router IDs for clusters of one network, and keeps them", func(ctx context.Context) {
		first, second, routerID := colliding()
		w := s.world(ctx)
		w.infrastructure(ctx, w.cluster(ctx), onNetwork(first, "127.0.0.2", 0))
		w.another(ctx, "other", onNetwork(second, "127.0.0.3", 0))
		running := w.manager.Start()
		w.uniqueness(ctx, clusterName, unique)
		w.uniqueness(ctx, "other", unique)
		ids := []int32{w.routerID(ctx, clusterName), w.routerID(ctx, "other")}
		Expect(ids).To(ConsistOf(routerID, routerID+1))

		running.Stop()
		w.another(ctx, "third", onNetwork("c3", "127.0.0.4", routerID+1))
		w.manager.Start()
		w.uniqueness(ctx, "third", stage.IsFalseBecause(infrav1.VirtualRouterIDTakenReason, "uses virtual router ID"))
		Expect(w.client.Delete(ctx, build.Metal3Cluster("third", build.InNamespace(w.namespace)))).To(Succeed())
		w.uniqueness(ctx, clusterName, unique)
		w.uniqueness(ctx, "other", unique)
		Expect([]int32{w.routerID(ctx, clusterName), w.routerID(ctx, "other")}).To(Equal(ids), "nodes run with them")
	})

	It("compares itself with clusters of other namespaces, and does not reconcile these", func(ctx context.Context) {
		w, other := s.world(ctx), s.world(ctx)
		other.infrastructure(ctx, other.cluster(ctx), onNetwork("c3", "127.0.61.3", 61))
		other.another(ctx, "sharer", onNetwork("c1", "127.0.61.2", 61))
		w.manager.Everywhere = []client.Object{&infrav1.Metal3Cluster{}}
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx), onNetwork("c1", "127.0.61.2", 61))
		w.uniqueness(ctx, clusterName,
			stage.IsFalseBecause(infrav1.VirtualRouterIDTakenReason, other.namespace+"/"+clusterName+" uses"))
		stage.Change(ctx, w.client, other.key(clusterName), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
			infra.Spec.Ironic.VRRP.VirtualRouterID = 62
		})
		w.eventually(ctx, infrav1.IronicEndpointUniqueCondition, Not(
			stage.IsFalseBecause(infrav1.VirtualRouterIDTakenReason, other.namespace+"/"+clusterName+" uses")))
		other.untouched(ctx)
		Expect(other.get(ctx, Default).Status.Conditions).To(BeEmpty())
	})

	It("reports a conflict if a host has the VIP", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx), onNetwork("c1", "127.0.0.2", 50))
		machine := build.Metal3Machine("machine", clusterName, build.InNamespace(w.namespace))
		host := build.Host("host", build.InNamespace(w.namespace), build.Provisioned(), build.Consumed(machine),
			build.NIC("eth0", "02:00:00:00:00:01", "127.0.0.2"),
			build.Labels(map[string]string{clusterv1.ClusterNameLabel: clusterName}))
		w.create(ctx, host)
		w.uniqueness(ctx, clusterName, stage.IsFalseBecause(infrav1.VirtualIPTakenReason, "Host host had 127.0.0.2"))
		Expect(w.client.Delete(ctx, host)).To(Succeed())
		w.uniqueness(ctx, clusterName, unique)
	})
}
