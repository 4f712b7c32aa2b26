package metal3machine_test

import (
	"context"
	"errors"
	"slices"
	"sync"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3machine"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// watchedLabels records the values of one label that the manager writes on Nodes. If err is set, writes fail.
type watchedLabels struct {
	metal3machine.Nodes
	label string
	err   error

	mu     sync.Mutex
	values []string
	writes int
}

func (l *watchedLabels) SetLabels(
	ctx context.Context, cluster types.NamespacedName, node string, changes map[string]*string,
) error {
	l.mu.Lock()
	l.writes++
	if value, isSet := changes[l.label]; isSet {
		l.values = append(l.values, ptr.Deref(value, "removed"))
	}
	l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	return l.Nodes.SetLabels(ctx, cluster, node, changes)
}

func (l *watchedLabels) seen() (values []string, writes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.values), l.writes
}

// describeLabels are the stories about copied labels of hosts on Nodes.
func describeLabels(s *suite) {
	const rack, zone, other = "rack.example.com/number", "rack.example.com/zone", "other.example.com/x"

	// labelled returns a world with a linked machine and a label on its host. Its Metal3Cluster lists the prefixes.
	labelled := func(ctx context.Context, prefixes string, err error) (*world, *corev1.Node, *watchedLabels) {
		GinkgoHelper()
		w := s.connectedWorld(ctx)
		watched := &watchedLabels{label: rack, err: err}
		w.nodes = func(nodes metal3machine.Nodes) metal3machine.Nodes {
			watched.Nodes = nodes
			return watched
		}
		w.setPrefixes(ctx, prefixes)
		w.host(ctx, "host", build.Labels(map[string]string{rack: "7"}))
		w.provision(ctx)
		node := w.node(ctx, "node", w.providerID("host", "machine"), map[string]string{other: "stays"})
		stage.ChangeStatus(ctx, w.client, w.key("machine"), &clusterv1.Machine{}, func(owner *clusterv1.Machine) {
			owner.Status.NodeRef.Name = node.Name
		})
		w.eventually(ctx, "machine", infrav1.NodeLinkedCondition, stage.IsTrueBecause(infrav1.NodeLinkedReason))
		return w, node, watched
	}
	change := func(ctx context.Context, w *world, edit func(labels map[string]string)) {
		GinkgoHelper()
		stage.Change(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			edit(host.Labels)
		})
	}

	It("keeps labels of the Node equal to those of the host", func(ctx context.Context) {
		w, node, watched := labelled(ctx, "rack.example.com", nil)
		w.eventually(ctx, "machine", infrav1.NodeLabelsSyncedCondition,
			stage.IsTrueBecause(infrav1.NodeLabelsSyncedReason))
		w.labels(ctx, node, And(HaveKeyWithValue(rack, "7"), HaveKeyWithValue(other, "stays")))

		By("changing the host")
		change(ctx, w, func(labels map[string]string) { labels[rack], labels[zone] = "8", "north" })
		w.labels(ctx, node, And(HaveKeyWithValue(rack, "8"), HaveKeyWithValue(zone, "north")))
		change(ctx, w, func(labels map[string]string) { delete(labels, zone) })
		w.labels(ctx, node, Not(HaveKey(zone)))

		By("changing the Node")
		stage.Change(ctx, w.client, client.ObjectKeyFromObject(node), &corev1.Node{}, func(node *corev1.Node) {
			node.Labels[rack] = "wrong"
		})
		w.labels(ctx, node, HaveKeyWithValue(rack, "8"))

		By("changing a label without a prefix in the list")
		_, before := watched.seen()
		change(ctx, w, func(labels map[string]string) { labels["third.example.com/y"] = "1" })
		change(ctx, w, func(labels map[string]string) { labels[rack] = "9" })
		w.labels(ctx, node, HaveKeyWithValue(rack, "9"))
		_, after := watched.seen()
		Expect(after).To(Equal(before+1), "the Node is written only where something differs")

		By("removing the annotation")
		w.setPrefixes(ctx, "")
		Eventually(func(g Gomega) {
			g.Expect(conditions.Has(w.getMachine(ctx, g, "machine"), infrav1.NodeLabelsSyncedCondition)).To(BeFalse())
		}).Should(Succeed())
	})

	It("keeps labels of the Node while the machine is not linked", func(ctx context.Context) {
		w, node, _ := labelled(ctx, "rack.example.com", nil)
		w.node(ctx, "second", w.providerID("host", "machine"), nil)
		w.eventually(ctx, "machine", infrav1.NodeLinkedCondition, stage.IsFalseBecause(infrav1.ProviderIDConflictReason, ""))
		change(ctx, w, func(labels map[string]string) { labels[rack] = "8" })
		w.labels(ctx, node, HaveKeyWithValue(rack, "8"))
	})

	It("reports invalid prefixes, and stays ready", func(ctx context.Context) {
		w, node, _ := labelled(ctx, "rack.example.com/,rack.example.com", nil)
		w.eventually(ctx, "machine", infrav1.NodeLabelsSyncedCondition, stage.IsFalseBecause(
			infrav1.InvalidLabelPrefixReason, "Annotation metal3.io/metal3-label-sync-prefixes of Metal3Cluster "+clusterName+
				` lists ["rack.example.com/"], which are not valid prefixes of labels: list DNS names such as example.com`))
		w.eventually(ctx, "machine", infrav1.ReadyCondition, stage.IsTrue())
		w.setPrefixes(ctx, "rack.example.com")
		w.labels(ctx, node, HaveKeyWithValue(rack, "7"))
	})

	It("does not change the Node of a paused host", func(ctx context.Context) {
		w, node, watched := labelled(ctx, "rack.example.com", nil)
		w.labels(ctx, node, HaveKeyWithValue(rack, "7"))
		stage.Change(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&host.ObjectMeta, bmov1alpha1.PausedAnnotation, "")
			host.Labels[rack], host.Labels[infrav1.FailureDomainLabel] = "8", "north"
		})
		Eventually(func(g Gomega) {
			g.Expect(w.getMachine(ctx, g, "machine").Status.FailureDomain).To(Equal("north"), "the change is seen")
		}).Should(Succeed())
		stage.Change(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			delete(host.Annotations, bmov1alpha1.PausedAnnotation)
			host.Labels[rack] = "9"
		})
		w.labels(ctx, node, HaveKeyWithValue(rack, "9"))
		values, _ := watched.seen()
		Expect(values).NotTo(ContainElement("8"))
	})

	It("does not change labels that Cluster API copies from the Machine", func(ctx context.Context) {
		const pool = "node.cluster.x-k8s.io/pool"
		w, node, _ := labelled(ctx, "rack.example.com", nil)
		w.labels(ctx, node, HaveKeyWithValue(rack, "7"))
		stage.Change(ctx, w.client, client.ObjectKeyFromObject(node), &corev1.Node{}, func(node *corev1.Node) {
			node.Labels[pool] = "a"
			metav1.SetMetaDataAnnotation(&node.ObjectMeta, clusterv1.LabelsFromMachineAnnotation, pool)
		})
		w.setPrefixes(ctx, "rack.example.com,node.cluster.x-k8s.io")
		change(ctx, w, func(labels map[string]string) {
			labels[rack], labels["node.cluster.x-k8s.io/row"] = "8", "b"
		})
		w.labels(ctx, node, And(HaveKeyWithValue(rack, "8"), HaveKeyWithValue("node.cluster.x-k8s.io/row", "b"),
			HaveKeyWithValue(pool, "a")))
	})

	It("does not change the Node of a paused Metal3Cluster", func(ctx context.Context) {
		w, node, watched := labelled(ctx, "rack.example.com", nil)
		w.labels(ctx, node, HaveKeyWithValue(rack, "7"))
		pause := func(annotations map[string]string) {
			stage.Change(ctx, w.client, w.key(clusterName), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
				infra.Annotations = annotations
			})
		}
		pause(map[string]string{
			infrav1.LabelSyncPrefixesAnnotation: "rack.example.com,more.example.com", clusterv1.PausedAnnotation: "",
		})
		w.eventually(ctx, "machine", infrav1.NodeLabelsSyncedCondition, And(
			stage.IsTrue(), HaveField("Message", ContainSubstring("more.example.com"))))
		stage.Change(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Labels[rack], host.Labels[infrav1.FailureDomainLabel] = "8", "north"
		})
		Eventually(func(g Gomega) {
			g.Expect(w.getMachine(ctx, g, "machine").Status.FailureDomain).To(Equal("north"), "the change is seen")
		}).Should(Succeed())
		values, _ := watched.seen()
		Expect(values).NotTo(ContainElement("8"))
		pause(map[string]string{infrav1.LabelSyncPrefixesAnnotation: "rack.example.com"})
		w.labels(ctx, node, HaveKeyWithValue(rack, "8"))
	})

	It("no longer reports labels after its host is lost", func(ctx context.Context) {
		w, _, _ := labelled(ctx, "rack.example.com", nil)
		w.eventually(ctx, "machine", infrav1.NodeLabelsSyncedCondition, stage.IsTrue())
		stage.Change(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Finalizers = nil
		})
		Expect(w.client.Delete(ctx, w.getHost(ctx, Default, "host"))).To(Succeed())
		w.eventually(ctx, "machine", infrav1.HostAssociatedCondition, stage.IsFalseBecause(infrav1.HostLostReason, ""))
		Expect(conditions.Has(w.getMachine(ctx, Default, "machine"), infrav1.NodeLabelsSyncedCondition)).To(BeFalse())
	})

	It("reports a failed write of the Node, and stays ready", func(ctx context.Context) {
		w, _, _ := labelled(ctx, "rack.example.com", errors.New("denied by a policy"))
		w.eventually(ctx, "machine", infrav1.NodeLabelsSyncedCondition,
			stage.IsFalseBecause(infrav1.LabelSyncFailedReason, "Denied by a policy"))
		w.eventually(ctx, "machine", infrav1.ReadyCondition, stage.IsTrue())
	})
}

// labels waits until a Node has the labels.
func (w *world) labels(ctx context.Context, node *corev1.Node, want gomegatypes.GomegaMatcher) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		current := &corev1.Node{}
		g.Expect(w.client.Get(ctx, client.ObjectKeyFromObject(node), current)).To(Succeed())
		g.Expect(current.Labels).To(want)
	}).Should(Succeed())
}

// setPrefixes sets the annotation with the prefixes. Empty removes it.
func (w *world) setPrefixes(ctx context.Context, prefixes string) {
	GinkgoHelper()
	stage.Change(ctx, w.client, w.key(clusterName), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
		if prefixes == "" {
			delete(infra.Annotations, infrav1.LabelSyncPrefixesAnnotation)
			return
		}
		metav1.SetMetaDataAnnotation(&infra.ObjectMeta, infrav1.LabelSyncPrefixesAnnotation, prefixes)
	})
}
