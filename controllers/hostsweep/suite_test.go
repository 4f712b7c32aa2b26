package hostsweep_test

import (
	"context"
	"testing"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/hostsweep"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/specs"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// timeLimit bounds each wait of a story, also the waits for the garbage collector.
const timeLimit = 2 * time.Minute

func TestHostSweep(t *testing.T) { specs.Run(t, "Host sweep") }

// suite contains the server of all stories, an API server with a real garbage collector.
type suite struct{ server *env.Server }

var _ = Describe("The host sweep", Ordered, ContinueOnFailure, func() {
	s := &suite{}

	BeforeAll(func(ctx context.Context) {
		stage.SetLimits()
		SetDefaultEventuallyTimeout(timeLimit)
		s.server = stage.Start(ctx, env.Options{
			Definitions:       []components.Group{components.Provider, components.ClusterAPICore, components.BaremetalOperator},
			ControllerManager: true,
		})
	})

	describeUpgrade(s)
	describeSweep(s)
	describeOrphans(s)
})

// world is the namespace of one story.
type world struct {
	client    client.Client
	namespace string
	writes    *stage.Writes
	manager   stage.Manager
}

func (s *suite) world(ctx context.Context) *world {
	GinkgoHelper()
	w := &world{client: s.server.Client, namespace: stage.Namespace(ctx, s.server), writes: &stage.Writes{}}
	w.manager = stage.Manager{Config: s.server.Config, Namespace: w.namespace, Writes: w.writes, Setup: setup}
	return w
}

func setup(ctx context.Context, mgr ctrl.Manager, _ clustercache.ClusterCache) error {
	if err := hoststore.SetupIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	shared := true
	return (&hostsweep.Reconciler{
		Client:   mgr.GetClient(),
		Recorder: mgr.GetEventRecorder("hostsweep"),
		Hosts:    hoststore.New(mgr.GetClient(), mgr.GetAPIReader()),
	}).SetupWithManager(ctx, mgr, controller.Options{SkipNameValidation: &shared})
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

// machine creates a Metal3Machine as CAPM3 leaves it, without a finalizer.
func (w *world) machine(ctx context.Context, name string) *infrav1.Metal3Machine {
	GinkgoHelper()
	machine := build.Metal3Machine(name, "cluster", build.InNamespace(w.namespace))
	w.create(ctx, machine)
	return machine
}

func (w *world) get(ctx context.Context, g Gomega, name string) *bmov1alpha1.BareMetalHost {
	host := &bmov1alpha1.BareMetalHost{}
	g.Expect(w.client.Get(ctx, w.key(name), host)).To(Succeed())
	return host
}

// exists reports whether a host exists.
func (w *world) exists(ctx context.Context, g Gomega, name string) bool {
	err := w.client.Get(ctx, w.key(name), &bmov1alpha1.BareMetalHost{})
	g.Expect(client.IgnoreNotFound(err)).To(Succeed())
	return err == nil
}

// swept waits until the owners and annotations of a host are as wanted.
func (w *world) swept(ctx context.Context, name string, annotations map[string]string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		host := w.get(ctx, g, name)
		g.Expect(host.OwnerReferences).To(BeEmpty())
		g.Expect(host.Annotations).To(Equal(annotations))
	}).Should(Succeed())
}

// events returns the reasons of the events about a host.
func (w *world) events(ctx context.Context, g Gomega, host string) []string {
	return w.eventsAs(ctx, g, host, func(event eventsv1.Event) string { return event.Reason })
}

// notes returns the events about a host with type, reason and text.
func (w *world) notes(ctx context.Context, g Gomega, host string) []string {
	return w.eventsAs(ctx, g, host, func(event eventsv1.Event) string {
		return event.Type + " " + event.Reason + ": " + event.Note
	})
}

func (w *world) eventsAs(ctx context.Context, g Gomega, host string, show func(eventsv1.Event) string) []string {
	var list eventsv1.EventList
	g.Expect(w.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	var shown []string
	for _, event := range list.Items {
		if event.Regarding.Kind == "BareMetalHost" && event.Regarding.Name == host {
			shown = append(shown, show(event))
		}
	}
	return shown
}

func (w *world) pause(ctx context.Context, paused bool) {
	GinkgoHelper()
	stage.Change(ctx, w.client, w.key("cluster"), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
		cluster.Spec.Paused = ptr.To(paused)
	})
}

// ownedAsByCAPM3 is the owner reference that CAPM3 puts on a host: with an old version and without control.
func ownedAsByCAPM3(machine *infrav1.Metal3Machine) build.ObjectOption {
	return func(object metav1.Object) {
		object.SetOwnerReferences(append(object.GetOwnerReferences(), metav1.OwnerReference{
			APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3Machine",
			Name: machine.Name, UID: machine.UID, Controller: ptr.To(true),
		}))
	}
}

// consumedAsByCAPM3 is the claim of CAPM3.
func consumedAsByCAPM3(machine *infrav1.Metal3Machine) build.ObjectOption {
	return stage.With(func(host *bmov1alpha1.BareMetalHost) {
		host.Spec.ConsumerRef = &corev1.ObjectReference{
			APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3Machine",
			Namespace: machine.Namespace, Name: machine.Name,
		}
	})
}
