package metal3cluster_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeLife are the stories from the creation to the deletion.
func describeLife(s *suite) {
	It("waits for its Cluster, and is ready with its own control-plane endpoint", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.create(ctx, build.Metal3Cluster(clusterName, build.InNamespace(w.namespace), build.Domains("a", "b")))
		w.eventually(ctx, infrav1.ReadyCondition, stage.IsFalseBecause(infrav1.WaitingForClusterReason,
			"Waiting for Cluster API to set the ownerReference of a Cluster"))
		cluster := w.cluster(ctx)
		stage.Change(ctx, w.client, w.key(clusterName), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
			build.OwnedBy(cluster)(infra)
		})
		infra := w.ready(ctx)
		Expect(infra.Finalizers).To(ConsistOf(infrav1.ClusterFinalizer))
		Expect(infra.Status.FailureDomains).To(Equal(domains("a", "b")))
		Expect(infra.Spec.ControlPlaneEndpoint).To(Equal(endpoint(build.EndpointHost)))
	})

	It("is ready with the control-plane endpoint of its Cluster", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx, build.Endpoint("192.0.2.20", 6443)), build.Endpoint("", 0))
		Expect(w.ready(ctx).Spec.ControlPlaneEndpoint).To(BeZero(), "the spec belongs to the user")
	})

	It("reports a missing control-plane endpoint", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx), build.Endpoint("", 0))
		w.eventually(ctx, infrav1.ReadyCondition, stage.IsFalseBecause(infrav1.EndpointMissingReason,
			"Set spec.controlPlaneEndpoint.host and port of Metal3Cluster cluster or of Cluster cluster"))
		Expect(w.get(ctx, Default).Status.Initialization.Provisioned).To(BeNil())
		stage.Change(ctx, w.client, w.key(clusterName), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
			cluster.Spec.ControlPlaneEndpoint = endpoint("192.0.2.20")
		})
		w.ready(ctx)
	})

	It("reports that its Cluster uses another control-plane endpoint", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx, build.Endpoint("192.0.2.20", 6443)))
		w.eventually(ctx, infrav1.InfrastructureReadyCondition, And(stage.IsTrue(), HaveField("Message",
			"Cluster cluster uses control-plane endpoint 192.0.2.20:6443, not 192.0.2.10:6443 of the Metal3Cluster")))
	})

	It("reports another Metal3Cluster with its control-plane endpoint, until one of them has another one", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx))
		w.another(ctx, "other", build.Endpoint("192.0.2.20", 6443))
		change := func(host string) {
			stage.Change(ctx, w.client, w.key("other"), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
				infra.Spec.ControlPlaneEndpoint = endpoint(host)
			})
		}
		w.unique(ctx)
		change(build.EndpointHost)
		w.shared(ctx)
		change("192.0.2.20")
		w.unique(ctx)
	})

	It("reports another Metal3Cluster if their Clusters have the same control-plane endpoint", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx, build.Endpoint("192.0.2.10", 6443)), build.Endpoint("", 0))
		w.another(ctx, "other", build.Endpoint("", 0))
		change := func(host string) {
			stage.Change(ctx, w.client, w.key("other"), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
				cluster.Spec.ControlPlaneEndpoint = endpoint(host)
			})
		}
		change("192.0.2.20")
		w.unique(ctx)
		change("192.0.2.10")
		w.shared(ctx)
		change("192.0.2.20")
		w.unique(ctx)
	})

	It("copies changed failure domains to the status", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx), build.Domains("a"))
		w.ready(ctx)
		stage.Change(ctx, w.client, w.key(clusterName), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
			infra.Spec.FailureDomains = domains("b", "c")
		})
		Eventually(func(g Gomega) {
			g.Expect(w.get(ctx, g).Status.FailureDomains).To(Equal(domains("b", "c")))
		}).Should(Succeed())
	})

	It("is deleted after the last Machine of its Cluster", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx))
		w.ready(ctx)
		for _, name := range []string{"first", "second"} {
			w.create(ctx, build.Machine(name, clusterName, build.InNamespace(w.namespace)))
		}
		w.create(ctx, build.Machine("unrelated", "other", build.InNamespace(w.namespace)))
		w.remove(ctx)
		w.eventually(ctx, infrav1.DeletingCondition, And(stage.IsTrueBecause(infrav1.WaitingForMachinesReason),
			HaveField("Message", "Waiting for the Machines of Cluster cluster to be deleted")))
		w.eventually(ctx, infrav1.ReadyCondition, stage.IsFalseBecause(infrav1.DeletingReason, "Waiting for the Machines"))
		Expect(w.client.Delete(ctx, &clusterv1.Machine{ObjectMeta: named(w.namespace, "first")})).To(Succeed())
		w.untouched(ctx)
		Expect(w.client.Delete(ctx, &clusterv1.Machine{ObjectMeta: named(w.namespace, "second")})).To(Succeed())
		w.gone(ctx)
	})

	It("is deleted at once when its Cluster does not exist", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		cluster := w.cluster(ctx)
		w.infrastructure(ctx, cluster)
		w.ready(ctx)
		w.create(ctx, build.Machine("orphan", clusterName, build.InNamespace(w.namespace)))
		Expect(w.client.Delete(ctx, cluster)).To(Succeed())
		w.remove(ctx)
		w.gone(ctx)
	})
}

// unique waits until neither of two Metal3Clusters reports the other one, and the manager writes neither.
func (w *world) unique(ctx context.Context) {
	GinkgoHelper()
	for _, name := range []string{clusterName, "other"} {
		w.infrastructureReady(ctx, name, stage.IsTrueBecause(infrav1.InfrastructureReadyReason))
	}
	w.untouched(ctx)
}

// shared waits until two Metal3Clusters report each other.
func (w *world) shared(ctx context.Context) {
	GinkgoHelper()
	for name, other := range map[string]string{clusterName: "other", "other": clusterName} {
		w.infrastructureReady(ctx, name, And(stage.IsTrueBecause(infrav1.EndpointSharedReason), HaveField("Message",
			ContainSubstring("is also that of Metal3Cluster "+w.namespace+"/"+other+". "))))
	}
}

func (w *world) infrastructureReady(ctx context.Context, name string, want types.GomegaMatcher) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		infra := &infrav1.Metal3Cluster{}
		g.Expect(w.client.Get(ctx, w.key(name), infra)).To(Succeed())
		g.Expect(infra.Status.Conditions).To(stage.HaveCondition(infrav1.InfrastructureReadyCondition, want))
	}).Should(Succeed())
}

// describeOthers are the stories about other managers, pauses and moves.
func describeOthers(s *suite) {
	It("does not write an externally managed Metal3Cluster", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx), build.Annotations(map[string]string{clusterv1.ManagedByAnnotation: "others"}))
		w.witness(ctx)
		w.untouched(ctx)
		Expect(w.get(ctx, Default).Finalizers).To(BeEmpty())
	})

	It("does not write a Metal3Cluster without the label of its watch filter", func(ctx context.Context) {
		w := s.world(ctx)
		w.watchFilter = "mine"
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx), build.Labels(map[string]string{clusterv1.WatchLabel: "theirs"}))
		w.pause(ctx, false)
		w.witness(ctx)
		w.untouched(ctx)
		stage.Change(ctx, w.client, w.key(clusterName), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
			infra.Labels[clusterv1.WatchLabel] = "mine"
		})
		w.ready(ctx)
	})

	It("only reports the pause while it is paused", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		cluster := w.cluster(ctx, build.ClusterPaused())
		w.infrastructure(ctx, cluster)
		w.eventually(ctx, infrav1.PausedCondition, stage.IsTrueBecause(clusterv1.PausedReason))
		w.untouched(ctx)
		infra := w.get(ctx, Default)
		Expect(infra.Finalizers).To(BeEmpty())
		Expect(infra.Status.Conditions).To(ConsistOf(
			HaveField("Type", infrav1.PausedCondition), HaveField("Type", infrav1.ReadyForMoveCondition),
			HaveField("Type", infrav1.MoveInProgressCondition)))
		w.pause(ctx, false)
		w.ready(ctx)
		w.eventually(ctx, infrav1.PausedCondition, HaveField("Reason", clusterv1.NotPausedReason))
		w.pause(ctx, true)
		w.eventually(ctx, infrav1.PausedCondition, stage.IsTrue())
		w.remove(ctx)
		w.eventually(ctx, infrav1.PausedCondition, HaveField("ObservedGeneration", w.get(ctx, Default).Generation))
		w.untouched(ctx)
		w.pause(ctx, false)
		w.gone(ctx)
	})

	It("writes nothing while a move deletes it", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx))
		infra := w.ready(ctx)
		infra.Annotations = map[string]string{infrav1.DeleteForMoveAnnotation: ""}
		Expect(w.client.Update(ctx, infra)).To(Succeed())
		w.remove(ctx)
		w.untouched(ctx)
		Expect(w.get(ctx, Default).Finalizers).To(ConsistOf(infrav1.ClusterFinalizer))
	})
}
