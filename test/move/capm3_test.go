package move_test

import (
	"context"
	"maps"
	"os"
	"path"
	"slices"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

const (
	// capm3Variable names a manager of CAPM3.
	capm3Variable = "CAPM3_MANAGER"

	// uuidLabel is the label by which CAPM3 finds the Node of a host.
	uuidLabel = "metal3.io/uuid"
)

// CAPM3 runs in the target. A move from CAPM3 is not safe, as the document says: clusterctl removes the pause of a host
// before it deletes the host, and BMO of the source may deprovision it.
var _ = Describe("A move to CAPM3", Ordered, func() {
	c := &clusters{capm3: os.Getenv(capm3Variable)}
	var w *world
	free := []string{"cluster-free-0", "cluster-free-1"}

	BeforeAll(func(ctx context.Context) {
		if c.capm3 == "" {
			Skip(capm3Variable + " does not name a manager of CAPM3")
		}
		if *measure {
			Skip("nothing of this is measured")
		}
		SetDefaultEventuallyTimeout(patience)
		SetDefaultEventuallyPollingInterval(pollEvery)
		SetDefaultConsistentlyDuration(quiet)
		c.open(ctx)
		w = c.world(ctx)
		// CAPM3 writes an empty format otherwise, which the API server refuses.
		w.image = build.Metal3Machine("any", "cluster").Spec.Image
		w.image.DiskFormat = "qcow2"
		w.cluster(ctx, "cluster")
		w.workload(ctx, "cluster")
		w.dataTemplate = "data"
		template := &infrav1.Metal3DataTemplate{ObjectMeta: w.named("data")}
		template.Spec.ClusterName = "cluster"
		template.Spec.MetaData = &infrav1.MetaData{Strings: []infrav1.MetaDataString{{Key: "rack", Value: "7"}}}
		w.create(ctx, template)
		for _, name := range []string{"cluster-0", "cluster-1"} {
			w.host(ctx, name)
			w.node(ctx, name)
			w.machine(ctx, "cluster", name)
		}
		for _, name := range free {
			w.host(ctx, name)
		}
		w.settled(ctx)
		w.pretend(ctx)
		w.ready(ctx)
		w.readyForMove(ctx)
	})

	It("keeps all machines, and a user unpauses the free hosts, as the document says", func(ctx context.Context) {
		before, secrets := w.trace(ctx), w.secrets(ctx)
		w.move(ctx)
		w.vacated(ctx, w.there)
		w.ready(ctx)
		for _, name := range free {
			w.eventually(ctx, name, isPausedBy(infrav1.HostPausedByProvider))
		}
		Expect(w.runPlugin(ctx, "unpause", "--all-hosts")).To(Equal(done))
		w.settled(ctx)
		w.nothingPaused(ctx)
		w.alike(ctx, before)
		w.nothingDone(before, "update")
		Expect(w.secrets(ctx)).To(Equal(secrets))
		infra := &infrav1.Metal3Cluster{}
		Expect(w.here.client.Get(ctx, w.key("cluster"), infra)).To(Succeed())
		Expect(infra.Annotations).NotTo(HaveKey(infrav1.BlockMoveAnnotation), "CAPM3 would not remove it")
	})
})

// workload makes the source the workload cluster of a Cluster.
func (w *world) workload(ctx context.Context, name string) {
	GinkgoHelper()
	file, err := w.source.server.WriteKubeconfig(w.namespace, w.source.server.Config)
	Expect(err).NotTo(HaveOccurred())
	content, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	w.connect(ctx, name, content)
}

// node creates the Node of a host, with the condition that its kubelet sets.
func (w *world) node(ctx context.Context, host string) {
	GinkgoHelper()
	read := &bmov1alpha1.BareMetalHost{}
	Expect(w.here.client.Get(ctx, w.key(host), read)).To(Succeed())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: host, Labels: map[string]string{uuidLabel: string(read.UID)},
	}}
	Expect(w.source.client.Create(ctx, node)).To(Succeed())
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	Expect(w.source.client.Status().Update(ctx, node)).To(Succeed())
}

// ready waits until all Metal3Machines are ready. Each must have its original provider ID and host, and no other host
// may have a consumer.
func (w *world) ready(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var machines infrav1.Metal3MachineList
		g.Expect(w.here.client.List(ctx, &machines, client.InNamespace(w.namespace))).To(Succeed())
		claimed := map[string]string{}
		for _, machine := range machines.Items {
			claimed[machine.Name] = machine.Name
			g.Expect(machine.Status.Conditions).To(stage.HaveCondition(infrav1.ReadyCondition, stage.IsTrue()), machine.Name)
			g.Expect(machine.Spec.ProviderID).To(Equal("metal3://" + path.Join(w.namespace, machine.Name, machine.Name)))
		}
		consumers := map[string]string{}
		for name, host := range w.hosts(ctx, g, w.here) {
			if host.Spec.ConsumerRef != nil {
				consumers[name] = host.Spec.ConsumerRef.Name
			}
		}
		g.Expect(consumers).To(Equal(claimed))
	}).Should(Succeed())
}

// alike waits until all hosts are as in the trace, except for their annotations, and BMO has reconciled their current
// version. CAPM3 leaves the annotations of a move on hosts.
func (w *world) alike(ctx context.Context, before trace) {
	GinkgoHelper()
	names := slices.Collect(maps.Keys(before.pictures))
	w.observed(ctx, names...)
	Eventually(func(g Gomega) {
		now := w.pictures(ctx, g)
		for name, was := range before.pictures {
			is := now[name]
			was.Annotations, is.Annotations = nil, nil
			g.Expect(cmp.Diff(was, is)).To(BeEmpty(), "host %s", name)
		}
	}).Should(Succeed())
}

// secrets returns the contents of all Secrets by name.
func (w *world) secrets(ctx context.Context) map[string]map[string][]byte {
	GinkgoHelper()
	var list corev1.SecretList
	Expect(w.here.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	found := map[string]map[string][]byte{}
	for _, secret := range list.Items {
		found[secret.Name] = secret.Data
	}
	return found
}

// nothingPaused expects that no Cluster and no host is paused.
func (w *world) nothingPaused(ctx context.Context) {
	GinkgoHelper()
	for name, host := range w.hosts(ctx, Default, w.here) {
		Expect(host).To(isNotPaused(), name)
	}
	var list clusterv1.ClusterList
	Expect(w.here.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	Expect(list.Items).To(HaveEach(HaveField("Spec.Paused", Or(BeNil(), HaveValue(BeFalse())))))
}
