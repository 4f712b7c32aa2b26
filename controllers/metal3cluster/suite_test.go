package metal3cluster_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3cluster"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/departure"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/specs"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

const (
	// interval is the time between two probes of the Ironic endpoint.
	interval = 200 * time.Millisecond

	// clusterName is the name of the Cluster and of the Metal3Cluster of every world.
	clusterName = "cluster"
)

func TestMetal3Cluster(t *testing.T) { specs.Run(t, "Metal3Cluster") }

// suite is shared by all stories.
type suite struct{ server *env.Server }

var _ = Describe("A Metal3Cluster", Ordered, ContinueOnFailure, func() {
	s := &suite{}

	BeforeAll(func(ctx context.Context) {
		stage.SetLimits()
		s.server = stage.Start(ctx, env.Options{Definitions: []components.Group{
			components.Provider, components.ClusterAPI, components.BaremetalOperator, components.AddressManager,
		}})
		s.labelDefinitions(ctx)
	})

	describeLife(s)
	describeReservations(s)
	describeDeletions(s)
	describeOthers(s)
	describeIronic(s)
	describeConflicts(s)
	describeMoves(s)
})

// labelDefinitions sets the labels for clusterctl move on the CRDs of BMO and of the IP address manager.
func (s *suite) labelDefinitions(ctx context.Context) {
	GinkgoHelper()
	var definitions apiextensionsv1.CustomResourceDefinitionList
	Expect(s.server.Client.List(ctx, &definitions)).To(Succeed())
	for i := range definitions.Items {
		definition := &definitions.Items[i]
		for _, label := range pivot.MoveLabels(definition.Name) {
			metav1.SetMetaDataLabel(&definition.ObjectMeta, label, "")
		}
		Expect(s.server.Client.Update(ctx, definition)).To(Succeed())
	}
}

// world is the namespace of one story.
type world struct {
	client      client.Client
	namespace   string
	watchFilter string
	manager     stage.Manager

	// plane simulates the nodes of the control plane and the management Ironic.
	plane *simulatedPlane
}

func (s *suite) world(ctx context.Context) *world {
	GinkgoHelper()
	w := &world{client: s.server.Client, namespace: stage.Namespace(ctx, s.server), plane: newSimulatedPlane()}
	w.manager = stage.Manager{Config: s.server.Config, Namespace: w.namespace, Writes: &stage.Writes{}, Setup: w.setup}
	return w
}

func (w *world) setup(ctx context.Context, mgr ctrl.Manager, _ clustercache.ClusterCache) error {
	shared := true
	now := clock.RealClock{}
	recorder := mgr.GetEventRecorder("metal3cluster")
	return (&metal3cluster.Reconciler{
		Reporter:  flow.Reporter{Client: mgr.GetClient(), Recorder: recorder, WatchFilter: w.watchFilter},
		Live:      mgr.GetAPIReader(),
		Clock:     now,
		Hosts:     hoststore.New(mgr.GetClient(), mgr.GetAPIReader()),
		Namespace: w.namespace,
		Secrets: &secrets.Keeper{
			Client: mgr.GetClient(), Random: rand.Reader, Clock: now, Hash: secrets.HashPassword,
		},
		Endpoints:  metal3cluster.NewEndpointProber(metal3cluster.ProbeIronic, now, interval),
		Nodes:      metal3cluster.NewNodeProber(w.plane, recorder, now, interval),
		Handover:   w.plane,
		Departures: departure.New(mgr.GetClient()),
	}).SetupWithManager(ctx, mgr, controller.Options{SkipNameValidation: &shared})
}

func (w *world) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.namespace, Name: name}
}

func (w *world) create(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(build.CreateWithStatus(ctx, w.client, object)).To(Succeed())
}

// cluster creates the Cluster.
func (w *world) cluster(ctx context.Context, options ...build.ClusterOption) *clusterv1.Cluster {
	GinkgoHelper()
	cluster := build.Cluster(clusterName, append([]build.ClusterOption{build.InNamespace(w.namespace)}, options...)...)
	w.create(ctx, cluster)
	return cluster
}

// infrastructure creates the Metal3Cluster of a Cluster.
func (w *world) infrastructure(
	ctx context.Context, owner *clusterv1.Cluster, options ...build.Metal3ClusterOption,
) {
	GinkgoHelper()
	ofCluster := build.Labels(map[string]string{clusterv1.ClusterNameLabel: owner.Name})
	options = append([]build.Metal3ClusterOption{build.InNamespace(w.namespace), build.OwnedBy(owner), ofCluster}, options...)
	w.create(ctx, build.Metal3Cluster(clusterName, options...))
}

func (w *world) get(ctx context.Context, g Gomega) *infrav1.Metal3Cluster {
	found := &infrav1.Metal3Cluster{}
	g.Expect(w.client.Get(ctx, w.key(clusterName), found)).To(Succeed())
	return found
}

// eventually waits until a condition is as wanted.
func (w *world) eventually(ctx context.Context, conditionType string, want types.GomegaMatcher) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(w.get(ctx, g).Status.Conditions).To(stage.HaveCondition(conditionType, want))
	}).Should(Succeed())
}

// ready waits until the infrastructure is provisioned.
func (w *world) ready(ctx context.Context) *infrav1.Metal3Cluster {
	GinkgoHelper()
	w.eventually(ctx, infrav1.ReadyCondition, stage.IsTrueBecause(infrav1.ReadyReason))
	infra := w.get(ctx, Default)
	Expect(infra.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
	Expect(meta.IsStatusConditionTrue(infra.Status.Conditions, infrav1.InfrastructureReadyCondition)).To(BeTrue())
	return infra
}

func (w *world) remove(ctx context.Context) {
	GinkgoHelper()
	Expect(w.client.Delete(ctx, w.get(ctx, Default))).To(Succeed())
}

func (w *world) gone(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		err := w.client.Get(ctx, w.key(clusterName), &infrav1.Metal3Cluster{})
		g.Expect(err).To(HaveOccurred())
		g.Expect(client.IgnoreNotFound(err)).To(Succeed())
	}).Should(Succeed())
}

// untouched expects no write of the Metal3Cluster for a while.
func (w *world) untouched(ctx context.Context) {
	GinkgoHelper()
	version := w.get(ctx, Default).ResourceVersion
	Consistently(func(g Gomega) { g.Expect(w.get(ctx, g).ResourceVersion).To(Equal(version)) }).Should(Succeed())
}

// hostAfter creates a host after a time.
func (w *world) hostAfter(ctx context.Context, name string, after metav1.Time) (late *bmov1alpha1.BareMetalHost) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		late = build.Host(name, build.InNamespace(w.namespace))
		g.Expect(client.IgnoreNotFound(w.client.Delete(ctx, late))).To(Succeed())
		late.ResourceVersion = ""
		g.Expect(w.client.Create(ctx, late)).To(Succeed())
		g.Expect(late.CreationTimestamp.After(after.Time)).To(BeTrue(), "times have no fractions")
	}).Should(Succeed())
	return late
}

// witness waits until the manager has written another Metal3Cluster, so that it runs.
func (w *world) witness(ctx context.Context) {
	GinkgoHelper()
	here := build.InNamespace(w.namespace)
	other := build.Cluster("witness", here)
	w.create(ctx, other)
	w.create(ctx, build.Metal3Cluster("witness", here, build.OwnedBy(other), build.Labels(map[string]string{
		clusterv1.ClusterNameLabel: other.Name, clusterv1.WatchLabel: w.watchFilter,
	})))
	Eventually(func(g Gomega) {
		infra := &infrav1.Metal3Cluster{}
		g.Expect(w.client.Get(ctx, w.key("witness"), infra)).To(Succeed())
		g.Expect(infra.Finalizers).NotTo(BeEmpty())
	}).Should(Succeed())
}

func (w *world) pause(ctx context.Context, paused bool) {
	GinkgoHelper()
	stage.Change(ctx, w.client, w.key(clusterName), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
		cluster.Spec.Paused = ptr.To(paused)
	})
}

func endpoint(host string) clusterv1.APIEndpoint {
	return clusterv1.APIEndpoint{Host: host, Port: 6443}
}

func domains(names ...string) []clusterv1.FailureDomain {
	return build.Metal3Cluster("", build.Domains(names...)).Spec.FailureDomains
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}
