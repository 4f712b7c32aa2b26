package movelabel_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/movelabel"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/specs"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

func TestMoveLabel(t *testing.T) { specs.Run(t, "Labels for clusterctl move") }

// suite is shared by all stories. CRDs have no namespace, so the stories run in order.
type suite struct {
	server  *env.Server
	writes  *stage.Writes
	manager stage.Manager
}

var _ = Describe("A definition of BMO", Ordered, func() {
	s := &suite{}

	BeforeAll(func(ctx context.Context) {
		stage.SetLimits()
		s.server = stage.Start(ctx, env.Options{Definitions: []components.Group{
			components.BaremetalOperator, components.ClusterAPICore, components.Provider,
		}})
	})

	BeforeEach(func(ctx context.Context) {
		s.writes = &stage.Writes{}
		s.manager = stage.Manager{
			Config: s.server.Config, Namespace: stage.Namespace(ctx, s.server), Writes: s.writes, Setup: setup,
		}
	})

	describeLabels(s)
})

func setup(_ context.Context, mgr ctrl.Manager, _ clustercache.ClusterCache) error {
	shared := true
	return (&movelabel.Reconciler{Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("movelabel")}).
		SetupWithManager(mgr, controller.Options{SkipNameValidation: &shared})
}

// setupWithoutLabels registers all controllers as the product does with --keep-move-labels=false.
func setupWithoutLabels(ctx context.Context, mgr ctrl.Manager, clusters clustercache.ClusterCache) error {
	return controllers.SetupWithManager(ctx, mgr, controllers.Options{
		Clusters: clusters, EndpointInterval: time.Minute, KeepMoveLabels: false,
	})
}

// labels returns the labels of a CRD.
func (s *suite) labels(ctx context.Context, g Gomega, name string) map[string]string {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	g.Expect(s.server.Client.Get(ctx, client.ObjectKey{Name: name}, definition)).To(Succeed())
	return definition.Labels
}

// label replaces the labels of a CRD.
func (s *suite) label(ctx context.Context, name string, labels map[string]string) {
	GinkgoHelper()
	stage.Change(ctx, s.server.Client, client.ObjectKey{Name: name}, &apiextensionsv1.CustomResourceDefinition{},
		func(definition *apiextensionsv1.CustomResourceDefinition) { definition.Labels = labels })
}

// foreign installs a CRD that does not belong to BMO.
func (s *suite) foreign(ctx context.Context, plural, group string) string {
	GinkgoHelper()
	preserve := true
	definition := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: group,
		Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: "Foreign" + plural},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1alpha1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", XPreserveUnknownFields: &preserve,
			}},
		}},
	}}
	definition.Name = plural + "." + group
	// API groups of Kubernetes and its projects require an approval annotation.
	definition.Annotations = map[string]string{"api-approved.kubernetes.io": "unapproved, for a test"}
	Expect(s.server.Client.Create(ctx, definition)).To(Succeed())
	return definition.Name
}

// events returns the reasons and notes of the events about a CRD.
func (s *suite) events(ctx context.Context, g Gomega, name string) []string {
	var list eventsv1.EventList
	g.Expect(s.server.Client.List(ctx, &list)).To(Succeed())
	var found []string
	for _, event := range list.Items {
		if event.Regarding.Kind == "CustomResourceDefinition" && event.Regarding.Name == name {
			found = append(found, event.Reason+": "+event.Note)
		}
	}
	return found
}
