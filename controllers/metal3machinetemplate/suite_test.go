package metal3machinetemplate_test

import (
	"context"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3machinetemplate"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/specs"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

func TestMetal3MachineTemplate(t *testing.T) { specs.Run(t, "Metal3MachineTemplate") }

// suite is shared by all stories.
type suite struct{ server *env.Server }

var _ = Describe("A Metal3MachineTemplate", Ordered, ContinueOnFailure, func() {
	s := &suite{}

	BeforeAll(func(ctx context.Context) {
		stage.SetLimits()
		s.server = stage.Start(ctx, env.Options{Definitions: []components.Group{
			components.Provider, components.ClusterAPICore, components.BaremetalOperator,
		}})
	})

	describeCleaningMode(s)
	describeCapacity(s)
	describeOthers(s)
})

// world is the namespace of one story.
type world struct {
	client      client.Client
	namespace   string
	writes      *stage.Writes
	watchFilter string
	manager     stage.Manager
}

func (s *suite) world(ctx context.Context) *world {
	GinkgoHelper()
	w := &world{client: s.server.Client, namespace: stage.Namespace(ctx, s.server), writes: &stage.Writes{}}
	w.manager = stage.Manager{Config: s.server.Config, Namespace: w.namespace, Writes: w.writes, Setup: w.setup}
	return w
}

func (w *world) setup(ctx context.Context, mgr ctrl.Manager, _ clustercache.ClusterCache) error {
	shared := true
	return (&metal3machinetemplate.Reconciler{
		Reporter: flow.Reporter{Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("metal3machinetemplate"), WatchFilter: w.watchFilter},
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

func (w *world) template(ctx context.Context, options ...build.MachineTemplateOption) {
	GinkgoHelper()
	options = append([]build.MachineTemplateOption{build.InNamespace(w.namespace)}, options...)
	w.create(ctx, build.MachineTemplate("template", options...))
}

// machine creates a Metal3Machine of a template.
func (w *world) machine(ctx context.Context, name, template, mode string) {
	GinkgoHelper()
	w.create(ctx, build.Metal3Machine(name, "cluster", build.InNamespace(w.namespace),
		build.Annotations(map[string]string{
			clusterv1.TemplateClonedFromNameAnnotation:      template,
			clusterv1.TemplateClonedFromGroupKindAnnotation: "Metal3MachineTemplate." + infrav1.GroupVersion.Group,
		}), stage.With(func(machine *infrav1.Metal3Machine) { machine.Spec.AutomatedCleaningMode = mode })))
}

func (w *world) get(ctx context.Context, g Gomega) *infrav1.Metal3MachineTemplate {
	found := &infrav1.Metal3MachineTemplate{}
	g.Expect(w.client.Get(ctx, w.key("template"), found)).To(Succeed())
	return found
}

func (w *world) modeOf(ctx context.Context, g Gomega, machine string) string {
	found := &infrav1.Metal3Machine{}
	g.Expect(w.client.Get(ctx, w.key(machine), found)).To(Succeed())
	return found.Spec.AutomatedCleaningMode
}

// eventually waits until a condition matches.
func (w *world) eventually(ctx context.Context, conditionType string, want types.GomegaMatcher) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(w.get(ctx, g).Status.Conditions).To(stage.HaveCondition(conditionType, want))
	}).Should(Succeed())
}

// change changes spec.template.spec of a template.
func (w *world) change(ctx context.Context, edit func(*infrav1.Metal3MachineSpec)) {
	GinkgoHelper()
	stage.Change(ctx, w.client, w.key("template"), &infrav1.Metal3MachineTemplate{},
		func(template *infrav1.Metal3MachineTemplate) { edit(&template.Spec.Template.Spec) })
}

func (w *world) changeHardware(ctx context.Context, host string, edit func(*bmov1alpha1.HardwareDetails)) {
	GinkgoHelper()
	stage.ChangeStatus(ctx, w.client, w.key(host), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
		edit(host.Status.HardwareDetails)
	})
}

func (w *world) pause(ctx context.Context, paused bool) {
	GinkgoHelper()
	stage.Change(ctx, w.client, w.key("cluster"), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
		cluster.Spec.Paused = ptr.To(paused)
	})
}
