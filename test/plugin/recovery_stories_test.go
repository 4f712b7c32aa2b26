package plugin_test

import (
	"context"
	"fmt"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/departure"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeRecovery has the stories of moves that clusterctl did not complete. test/move has whole moves.
func describeRecovery(c *clusters) {
	It("aborts a move before the first deletion, after a confirmation", func(ctx context.Context) {
		namespace, source, target := c.halfMoved(ctx)
		Expect(c.run(ctx, namespace, "abort --yes=false")).To(end(1, "not confirmed: nothing was done", "Use --yes"))
		Expect(source.isPaused(ctx)).To(BeTrue())
		Expect(c.run(ctx, namespace, "abort --dry-run")).To(end(0,
			"Dry run: Unpaused Cluster cluster in the source", "Dry run: Removed 6 objects in the target"))
		Expect(source.isPaused(ctx)).To(BeTrue())

		source.resumed(ctx)
		Expect(c.run(ctx, namespace, "abort")).To(end(0, "Done."))
		Expect(source.isPaused(ctx)).To(BeFalse())
		target.isEmpty(ctx)
		Expect(source.hosts(ctx)).To(HaveLen(1), "the source keeps its objects")
		Expect(c.run(ctx, namespace, "abort")).To(end(0, "Nothing to do."))
	})

	It("does not end a move while clusterctl copies", func(ctx context.Context) {
		namespace, source, target := c.halfMoved(ctx)
		for _, command := range []string{"abort", "resume"} {
			stop := copying(ctx, source, target, command)
			Expect(c.run(ctx, namespace, command)).To(end(1, "clusterctl still runs", "stop it"))
			stop()
			Expect(source.isPaused(ctx)).To(BeTrue())
			Expect(target.isPaused(ctx)).To(BeTrue())
		}
	})

	It("does not abort a move that has begun to delete, and completes it", func(ctx context.Context) {
		namespace, source, target := c.halfMoved(ctx)
		source.discard(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "host-bmc"}})
		Expect(c.run(ctx, namespace, "abort")).To(end(1, "clusterctl has begun to delete in the source", "pivot resume"))
		Expect(c.run(ctx, namespace, "clean")).To(end(1, "the Clusters of the target are paused"))
		Expect(source.hosts(ctx)).To(HaveLen(1))

		target.resumed(ctx)
		told := c.run(ctx, namespace, "resume -o json")
		Expect(told).To(end(0))
		Expect(told.decode()).To(And(HaveKeyWithValue("kind", "PivotResume"), HaveKeyWithValue("course", "Deleting"),
			HaveKeyWithValue("done", true), HaveKeyWithValue("apiVersion", "plugin.infrastructure.cluster.x-k8s.io/v1alpha1"),
			HaveKeyWithValue("safeToSwitchOff", false),
			HaveKeyWithValue("because", ContainElement(And(HaveKeyWithValue("code", "NodeNotArmed"),
				HaveKeyWithValue("kind", "Node"), HaveKeyWithValue("name", "node-0"))))))
		source.isEmpty(ctx)
		Expect(target.isPaused(ctx)).To(BeFalse())
		Expect(target.hosts(ctx)).To(HaveLen(1))
	})

	It("refuses if an object is in the target only and the copy is not complete", func(ctx context.Context) {
		namespace, source, target := c.halfMoved(ctx)
		target.discard(ctx, &infrav1.Metal3Machine{ObjectMeta: metav1.ObjectMeta{Name: "machine"}})
		target.create(ctx, build.Machine("deleted", clusterName))
		for _, command := range []string{"abort", "resume", "run"} {
			Expect(c.run(ctx, namespace, command)).To(end(1, "Machine deleted is in the target only", "pivot clean --target"))
		}
		Expect(source.isPaused(ctx)).To(BeTrue())
		Expect(source.hosts(ctx)).To(HaveLen(1))
	})

	It("removes leftovers in the source, and keeps objects that the target lacks or BMO manages", func(ctx context.Context) {
		namespace, source, target := c.halfMoved(ctx)
		target.unpauseCluster(ctx)
		target.changeInfra(ctx, epoch("2"))
		source.create(ctx, build.Host("mine", build.Available(), build.Paused("maintenance")))
		Expect(c.run(ctx, namespace, "clean")).To(end(1, "BareMetalHost mine of the source is not in the target"))
		source.discard(ctx, &bmov1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "mine"}})
		stage.Change(ctx, source.client, source.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			delete(host.Annotations, bmov1alpha1.PausedAnnotation)
		})
		Expect(c.run(ctx, namespace, "clean")).To(end(1, "source: BareMetalHost host is not paused"))
		Expect(source.hosts(ctx)).To(HaveLen(1))
		stage.Change(ctx, source.client, source.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&host.ObjectMeta, bmov1alpha1.PausedAnnotation, infrav1.HostPausedByProvider)
			host.Finalizers = []string{bmov1alpha1.BareMetalHostFinalizer}
		})
		By("deleting objects of the source, which their paused controllers keep")
		for name, object := range map[string]client.Object{clusterName: &clusterv1.Cluster{}, "machine": &infrav1.Metal3Machine{}} {
			stage.Change(ctx, source.client, source.key(name), object, func(object client.Object) {
				object.SetFinalizers([]string{"example.com/controller"})
			})
			source.discard(ctx, object)
		}
		Expect(c.run(ctx, namespace, "clean")).To(end(0, "Removed 6 objects in the source", "Done."))
		source.isEmpty(ctx)
		Expect(target.hosts(ctx)).To(HaveLen(1))
	})

	It("refuses to clean the source while the Clusters of the target are paused", func(ctx context.Context) {
		namespace, source, target := c.halfMoved(ctx)
		source.discard(ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: clusterName}})
		Expect(c.run(ctx, namespace, "clean")).To(end(1, "Cluster cluster of the target is paused",
			"complete the move with pivot resume"))
		Expect(source.hosts(ctx)).To(HaveLen(1))
		target.resumed(ctx)
		Expect(c.run(ctx, namespace, "resume")).To(end(0, "Unpaused Cluster cluster in the target", "Done."))
		Expect(c.run(ctx, namespace, "clean")).To(end(0, "Nothing to do."))
	})

	It("aborts a move and keeps other objects of the target with their Secrets", func(ctx context.Context) {
		namespace, source, target := c.halfMoved(ctx)
		for _, w := range []world{source, target} {
			w.create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Name: "own-bmc", Labels: map[string]string{infrav1.MoveLabel: ""},
			}})
		}
		target.create(ctx, build.Host("own", build.Available()))
		source.resumed(ctx)
		Expect(c.run(ctx, namespace, "abort")).To(end(0, "Done."))
		Expect(target.client.Get(ctx, target.key("own-bmc"), &corev1.Secret{})).To(Succeed())
		Expect(target.hosts(ctx)).To(HaveLen(1))
	})

	It("unpauses the Clusters of the target that arrived with the move, and no others", func(ctx context.Context) {
		namespace, source, target := c.halfMoved(ctx)
		source.discard(ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: clusterName}})
		other := build.Cluster("other")
		other.Spec.Paused = ptr.To(true)
		target.create(ctx, other)
		target.resumed(ctx)
		Expect(c.run(ctx, namespace, "resume")).To(end(0, "Unpaused Cluster cluster in the target", "Done."))
		Expect(target.client.Get(ctx, target.key("other"), other)).To(Succeed())
		Expect(other.Spec.Paused).To(HaveValue(BeTrue()))
	})

	It("keeps a Cluster of the target paused that was paused after the move", func(ctx context.Context) {
		namespace, source, target := c.halfMoved(ctx)
		target.changeInfra(ctx, epoch("3"))
		Expect(source.client.DeleteAllOf(ctx, &infrav1.Metal3Cluster{}, client.InNamespace(namespace))).To(Succeed())
		source.discard(ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: clusterName}})
		for _, command := range []string{"resume", "run"} {
			Expect(c.run(ctx, namespace, command)).To(end(1,
				"a user or another move paused Cluster cluster in the target after it had arrived",
				"Safe to switch off the source: no"))
		}
		Expect(target.isPaused(ctx)).To(BeTrue())
		Expect(source.hosts(ctx)).To(BeEmpty(), "the leftovers are removed")
	})

	It("removes nothing from a target that managed the cluster last", func(ctx context.Context) {
		namespace, source, target := c.halfMoved(ctx)
		target.changeInfra(ctx, epoch("3"))
		for _, command := range []string{"abort", "clean", "resume", "run"} {
			Expect(c.run(ctx, namespace, command)).To(end(1))
		}
		Expect(c.run(ctx, namespace, "abort")).To(end(1, "has a newer move epoch", "unpause the Cluster there"))
		Expect(source.isPaused(ctx)).To(BeTrue())
		Expect(source.hosts(ctx)).To(HaveLen(1))
		Expect(target.hosts(ctx)).To(HaveLen(1))
	})

	It("refuses to move if the kubeconfigs are swapped", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		Expect(c.target.Client.Create(ctx, build.Namespace(namespace))).To(Succeed())
		settle(ctx, c.target, namespace)
		for _, command := range []string{"run", "resume"} {
			Expect(c.run(ctx, namespace, command)).To(And(end(1, "Not done, because:",
				"the source has neither a Cluster nor a record of a move", "they may be swapped"), Not(says("Safe to switch off"))))
		}
	})

	It("runs nothing while an obstacle exists", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		source := settle(ctx, c.source, namespace)
		source.create(ctx, build.Host("busy", build.State(bmov1alpha1.StateProvisioning)))
		Expect(c.run(ctx, namespace, "run --no-wait")).To(end(1, "Not done, because:", "source: host busy is provisioning"))
		Expect(source.isPaused(ctx)).To(BeFalse())
		Expect(c.run(ctx, namespace, "resume")).To(end(1, "no move is under way: begin one with pivot run"))
	})
}

// halfMoved creates a paused cluster on both sides, as clusterctl leaves it between copying and deleting.
func (c *clusters) halfMoved(ctx context.Context, edits ...func(*infrav1.Metal3Cluster)) (namespace string, source, target world) {
	GinkgoHelper()
	namespace = stage.Namespace(ctx, c.source)
	Expect(c.target.Client.Create(ctx, build.Namespace(namespace))).To(Succeed())
	source, target = settle(ctx, c.source, namespace, edits...), settle(ctx, c.target, namespace, edits...)
	for _, w := range []world{source, target} {
		stage.Change(ctx, w.client, w.key(clusterName), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
			cluster.Spec.Paused = ptr.To(true)
		})
		w.changeInfra(ctx, epoch("1"))
		stage.Change(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			build.Annotations(map[string]string{bmov1alpha1.PausedAnnotation: infrav1.HostPausedByProvider})(host)
		})
	}
	left := pivot.Departure{Infras: map[string]pivot.Epoch{clusterName: 1}}
	Expect(departure.New(c.source.Client).Remember(ctx, namespace, left)).To(Succeed())
	return namespace, source, target
}

// copying copies hosts from the source to the target, as clusterctl does, until it is stopped.
func copying(ctx context.Context, source, target world, prefix string) (stop func()) {
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(ended)
		for number := 0; ; number++ {
			select {
			case <-stopped:
				return
			case <-time.After(100 * time.Millisecond):
			}
			name := fmt.Sprintf("%s-%d", prefix, number)
			for _, w := range []world{source, target} {
				w.create(ctx, build.Host(name, build.Available(), build.Paused(infrav1.HostPausedByProvider)))
			}
		}
	}()
	return func() {
		close(stopped)
		<-ended
	}
}

// epoch writes the epoch of a move.
func epoch(value string) func(*infrav1.Metal3Cluster) {
	return func(infra *infrav1.Metal3Cluster) {
		metav1.SetMetaDataAnnotation(&infra.ObjectMeta, infrav1.MoveEpochAnnotation, value)
	}
}

func (w world) isPaused(ctx context.Context) bool {
	GinkgoHelper()
	cluster := &clusterv1.Cluster{}
	Expect(w.client.Get(ctx, w.key(clusterName), cluster)).To(Succeed())
	return ptr.Deref(cluster.Spec.Paused, false)
}

// unpauseCluster unpauses the Cluster without the manager.
func (w world) unpauseCluster(ctx context.Context) {
	GinkgoHelper()
	stage.Change(ctx, w.client, w.key(clusterName), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
		cluster.Spec.Paused = nil
	})
}

func (w world) hosts(ctx context.Context) []bmov1alpha1.BareMetalHost {
	GinkgoHelper()
	var list bmov1alpha1.BareMetalHostList
	Expect(w.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	return list.Items
}

// isEmpty requires that no object of the cluster is left.
func (w world) isEmpty(ctx context.Context) {
	GinkgoHelper()
	for _, object := range []client.Object{
		&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: clusterName}},
		&infrav1.Metal3Cluster{ObjectMeta: metav1.ObjectMeta{Name: clusterName}},
		&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "machine"}},
		&infrav1.Metal3Machine{ObjectMeta: metav1.ObjectMeta{Name: "machine"}},
		&bmov1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "host"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "host-bmc"}},
	} {
		err := w.client.Get(ctx, w.key(object.GetName()), object)
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%T %s: %v", object, object.GetName(), err)
	}
}

// discard deletes an object at once.
func (w world) discard(ctx context.Context, object client.Object) {
	GinkgoHelper()
	object.SetNamespace(w.namespace)
	Expect(w.client.Delete(ctx, object)).To(Succeed())
}

// resumed does what the manager does: it removes the pause of the host as soon as its Cluster runs.
func (w world) resumed(ctx context.Context) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer GinkgoRecover()
		Eventually(ctx, func(g Gomega) {
			cluster := &clusterv1.Cluster{}
			g.Expect(w.client.Get(ctx, w.key(clusterName), cluster)).To(Succeed())
			g.Expect(ptr.Deref(cluster.Spec.Paused, false)).To(BeFalse())
		}).Should(Succeed())
		stage.Change(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			delete(host.Annotations, bmov1alpha1.PausedAnnotation)
		})
	}()
	DeferCleanup(func() { stop(); <-ended })
}
