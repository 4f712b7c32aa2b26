package hostmove_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/hostmove"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/departure"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/specs"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

func TestHostMove(t *testing.T) { specs.Run(t, "Host move") }

// suite is shared by all stories.
type suite struct{ server *env.Server }

var _ = Describe("A move of hosts", Ordered, ContinueOnFailure, func() {
	s := &suite{}

	BeforeAll(func(ctx context.Context) {
		stage.SetLimits()
		s.server = stage.Start(ctx, env.Options{
			Definitions: []components.Group{components.Provider, components.ClusterAPICore, components.BaremetalOperator},
		})
	})

	describeParking(s)
	describeResuming(s)
	describeArrivals(s)
	describeInterruption(s)
	describeFaults(s)
})

// world is the namespace of one story.
type world struct {
	client    client.Client
	namespace string
	writes    *stage.Writes
	manager   stage.Manager
	nodes     *nodes
}

// nodes simulate a workload cluster.
type nodes struct {
	mutex  sync.Mutex
	joined bool
	err    error
	asked  workload.Query
}

func (n *nodes) Joined(_ context.Context, _ types.NamespacedName, query workload.Query, _ time.Time) (bool, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.asked = query
	return n.joined, n.err
}

func (n *nodes) answer(joined bool, err error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.joined, n.err = joined, err
}

func (n *nodes) question() workload.Query {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.asked
}

func (s *suite) world(ctx context.Context) *world {
	GinkgoHelper()
	w := &world{client: s.server.Client, namespace: stage.Namespace(ctx, s.server), writes: &stage.Writes{}}
	w.nodes = &nodes{}
	w.manager = stage.Manager{Config: s.server.Config, Namespace: w.namespace, Writes: w.writes, Setup: w.setup}
	return w
}

func (w *world) setup(_ context.Context, mgr ctrl.Manager, _ clustercache.ClusterCache) error {
	shared := true
	hosts := hostmove.NewStore(
		hoststore.New(mgr.GetClient(), mgr.GetAPIReader()), mgr.GetClient(), mgr.GetAPIReader())
	hosts.OneNamespace = len(w.manager.Everywhere) > 0
	return (&hostmove.Reconciler{
		Client:   mgr.GetClient(),
		Recorder: mgr.GetEventRecorder("hostmove"),
		Clock:    clock.RealClock{},
		Hosts:    hosts,
		Statuses: hosts,
		Nodes:    w.nodes,

		Departures: departure.New(mgr.GetClient()),
	}).SetupWithManager(mgr, controller.Options{SkipNameValidation: &shared})
}

func (w *world) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.namespace, Name: name}
}

func (w *world) create(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(build.CreateWithStatus(ctx, w.client, object)).To(Succeed())
}

func (w *world) host(ctx context.Context, name string, options ...build.HostOption) {
	GinkgoHelper()
	w.create(ctx, build.Host(name, append([]build.HostOption{build.InNamespace(w.namespace)}, options...)...))
}

func (w *world) get(ctx context.Context, g Gomega, name string) *bmov1alpha1.BareMetalHost {
	host := &bmov1alpha1.BareMetalHost{}
	g.Expect(w.client.Get(ctx, w.key(name), host)).To(Succeed())
	return host
}

// events returns the reasons of the events about a host.
func (w *world) events(ctx context.Context, g Gomega, host string) []string {
	var list eventsv1.EventList
	g.Expect(w.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	var reasons []string
	for _, event := range list.Items {
		if event.Regarding.Kind == "BareMetalHost" && event.Regarding.Name == host {
			reasons = append(reasons, event.Reason)
		}
	}
	return reasons
}

func (w *world) pause(ctx context.Context, paused bool) {
	GinkgoHelper()
	stage.Change(ctx, w.client, w.key("cluster"), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
		cluster.Spec.Paused = ptr.To(paused)
	})
}

// cluster creates a Cluster and its Metal3Cluster.
func (w *world) cluster(ctx context.Context, options ...build.Metal3ClusterOption) {
	GinkgoHelper()
	w.create(ctx, build.Cluster("cluster", build.InNamespace(w.namespace)))
	w.create(ctx, build.Metal3Cluster("cluster",
		append([]build.Metal3ClusterOption{build.InNamespace(w.namespace), gated()}, options...)...))
}

// epoch simulates the controller of the Metal3Cluster when a move begins or ends.
func (w *world) epoch(ctx context.Context, epoch, arrival string) {
	GinkgoHelper()
	stage.Change(ctx, w.client, w.key("cluster"), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
		build.Annotations(map[string]string{
			infrav1.MoveEpochAnnotation: epoch, infrav1.ArrivalEpochAnnotation: arrival,
		})(infra)
	})
}

// gated returns a Metal3Cluster with block-move.
func gated() build.Metal3ClusterOption {
	return build.Annotations(map[string]string{infrav1.BlockMoveAnnotation: ""})
}

// claimed returns a host with a machine of the cluster as consumer.
func (w *world) claimed() build.HostOption {
	machine := build.Metal3Machine("machine", "cluster", build.InNamespace(w.namespace))
	return stage.With(func(host *bmov1alpha1.BareMetalHost) {
		host.Labels = map[string]string{clusterv1.ClusterNameLabel: "cluster"}
		host.Spec.ConsumerRef = build.Host("x", build.Consumed(machine)).Spec.ConsumerRef
	})
}

// report simulates BMO, which changes the status of a host.
func (w *world) report(ctx context.Context, name string, edit func(status *bmov1alpha1.BareMetalHostStatus)) {
	GinkgoHelper()
	stage.ChangeStatus(ctx, w.client, w.key(name), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
		edit(&host.Status)
	})
}

// observe simulates the controller of the Metal3Cluster, which reports the VIP holder.
func (w *world) observe(ctx context.Context, ready metav1.ConditionStatus, holder infrav1.IronicHolder) {
	GinkgoHelper()
	stage.ChangeStatus(ctx, w.client, w.key("cluster"), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
		meta.SetStatusCondition(&infra.Status.Conditions, metav1.Condition{
			Type: infrav1.IronicEndpointReadyCondition, Status: ready, Reason: "Story",
		})
		infra.Status.Ironic = &infrav1.IronicStatus{Holder: &holder}
	})
}

// judge simulates the controller of the Metal3Cluster, which reports the Ironic endpoint.
func (w *world) judge(ctx context.Context, ready metav1.ConditionStatus, reason string) {
	GinkgoHelper()
	stage.ChangeStatus(ctx, w.client, w.key("cluster"), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
		meta.SetStatusCondition(&infra.Status.Conditions, metav1.Condition{
			Type: infrav1.IronicEndpointReadyCondition, Status: ready, Reason: reason,
		})
	})
}

// parked waits until a host is paused by the provider and its annotation holds its status without the hardware details.
func (w *world) parked(ctx context.Context, name string, by string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		// A typed host has more fields than the API server stores.
		host := &unstructured.Unstructured{}
		host.SetGroupVersionKind(bmov1alpha1.GroupVersion.WithKind("BareMetalHost"))
		g.Expect(w.client.Get(ctx, w.key(name), host)).To(Succeed())
		g.Expect(host.GetAnnotations()).To(HaveKeyWithValue(bmov1alpha1.PausedAnnotation, by))
		status, _, err := unstructured.NestedMap(host.Object, "status")
		g.Expect(err).NotTo(HaveOccurred())
		delete(status, "hardware")
		want, err := json.Marshal(status)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(host.GetAnnotations()[bmov1alpha1.StatusAnnotation]).To(MatchJSON(want))
	}).Should(Succeed())
}

// running waits until a host is not paused.
func (w *world) running(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(w.get(ctx, g, name).Annotations).NotTo(HaveKey(bmov1alpha1.PausedAnnotation))
	}).Should(Succeed())
}

// stays expects that the annotations of a host do not change for a while.
func (w *world) stays(ctx context.Context, name string) {
	GinkgoHelper()
	annotations := w.get(ctx, Default, name).Annotations
	w.writes.AwaitRead(name)
	Consistently(func(g Gomega) { g.Expect(w.get(ctx, g, name).Annotations).To(Equal(annotations)) }).Should(Succeed())
}
