package movesecret_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/movesecret"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/specs"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

const (
	// managerUser is the user of the manager, which distinguishes its requests from those of a story.
	managerUser = "manager"
)

func TestMoveSecret(t *testing.T) { specs.Run(t, "Secrets that move") }

// suite is shared by all stories.
type suite struct {
	server  *env.Server
	manager *rest.Config
}

var _ = Describe("A Secret", Ordered, ContinueOnFailure, func() {
	s := &suite{}

	BeforeAll(func(ctx context.Context) {
		stage.SetLimits()
		s.server = stage.Start(ctx, env.Options{
			Definitions: []components.Group{components.Provider, components.BaremetalOperator}, Audit: true,
		})
		var err error
		s.manager, err = s.server.User(managerUser, "system:masters")
		Expect(err).NotTo(HaveOccurred())
	})

	describeLabels(s)
	describeRefusals(s)
	describeCost(s)
})

// world is the namespace of one story.
type world struct {
	*suite
	client      client.Client
	namespace   string
	writes      *stage.Writes
	watchFilter string
	manager     stage.Manager
}

func (s *suite) world(ctx context.Context) *world {
	GinkgoHelper()
	w := &world{
		suite: s, client: s.server.Client, namespace: stage.Namespace(ctx, s.server), writes: &stage.Writes{},
	}
	w.manager = stage.Manager{Config: s.manager, Namespace: w.namespace, Writes: w.writes, Setup: w.setup}
	return w
}

func (w *world) setup(ctx context.Context, mgr ctrl.Manager, _ clustercache.ClusterCache) error {
	shared := true
	return (&movesecret.Reconciler{
		Client: mgr.GetClient(), Cached: mgr.GetCache(), Recorder: flow.NewRecorder(mgr.GetEventRecorder("movesecret")),
		WatchFilter: w.watchFilter,
	}).
		SetupWithManager(ctx, mgr, controller.Options{SkipNameValidation: &shared})
}

func (w *world) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.namespace, Name: name}
}

func (w *world) create(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(build.CreateWithStatus(ctx, w.client, object)).To(Succeed())
}

// secrets creates Secrets without owners.
func (w *world) secrets(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		w.secret(ctx, name)
	}
}

func (w *world) secret(ctx context.Context, name string, options ...build.ObjectOption) {
	GinkgoHelper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		StringData: map[string]string{"value": "of " + name},
	}
	for _, option := range options {
		option(secret)
	}
	w.create(ctx, secret)
}

func (w *world) reference(name string) *corev1.SecretReference {
	return &corev1.SecretReference{Namespace: w.namespace, Name: name}
}

// moves returns true if a Secret has the label.
func (w *world) moves(ctx context.Context, g Gomega, name string) bool {
	secret := &corev1.Secret{}
	g.Expect(w.client.Get(ctx, w.key(name), secret)).To(Succeed())
	_, moves := secret.Labels[infrav1.MoveLabel]
	return moves
}

// eventuallyMove waits until all these Secrets have the label.
func (w *world) eventuallyMove(ctx context.Context, names ...string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		for _, name := range names {
			g.Expect(w.moves(ctx, g, name)).To(BeTrue(), name)
		}
	}).Should(Succeed())
}

// looks counts the live reads of each Secret of the namespace by the manager.
func (w *world) looks(g Gomega) map[string]int {
	requests, err := w.server.Requests()
	g.Expect(err).NotTo(HaveOccurred())
	return env.CountRequests(requests, func(request env.Request) string {
		if request.User != managerUser || request.Namespace != w.namespace || request.String() != "get secrets" {
			return ""
		}
		return request.Name
	})
}

// warnings returns the notes of the warning events, by the object that they regard and the Secret. It fails if there are
// two for the same Secret.
func (w *world) warnings(ctx context.Context, g Gomega) map[string]string {
	var list eventsv1.EventList
	g.Expect(w.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	notes := map[string]string{}
	for _, event := range list.Items {
		g.Expect(event.Type).To(Equal(corev1.EventTypeWarning))
		g.Expect(event.Reason).To(Equal("LabelFailed"))
		about := event.Regarding.Kind + " " + event.Regarding.Name + ", " + event.Related.Name
		g.Expect(notes).NotTo(HaveKey(about))
		notes[about] = event.Note
	}
	return notes
}
