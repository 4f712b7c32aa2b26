package move_test

import (
	"context"
	"encoding/pem"
	"net/http/httptest"
	"sync"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// late are the stories of hosts that a user creates while clusterctl moves other hosts.
func late(c *clusters) []story {
	return []story{
		{"moves a host that was created after clusterctl had discovered the others", func(ctx context.Context) {
			w := c.world(ctx)
			before := w.readyFleet(ctx)
			created := w.beforePause(ctx, func() { w.host(ctx, "late") })
			Eventually(w.begin(ctx).ended).WithTimeout(4 * patience).Should(Receive(BeNil()))
			Expect(created).To(Receive(BeNil()))
			Expect(w.hosts(ctx, Default, w.here)).To(And(HaveLen(1), HaveKey("late")))
			w.eventually(ctx, "late", isPausedBy(infrav1.HostPausedByProvider))
			Expect(w.pivot(ctx, "clean")).To(Equal(refused))
			Expect(w.pivot(ctx, "resume")).To(Equal(done))
			w.vacated(ctx, w.here)
			w.goOnThere(ctx)
			w.eventually(ctx, "late", isNotPaused(), inState(bmov1alpha1.StateAvailable))
			w.settled(ctx)
			w.unharmed(ctx, before)
		}},
		story{"keeps block-move for a host that was created after the pause, until the next move", func(ctx context.Context) {
			w := c.world(ctx)
			w.fleet(ctx, "cluster", 1, 1)
			before, journey := w.beginWhileProvisioning(ctx, "slow")
			w.reportPause(ctx, true)
			w.host(ctx, "late")
			w.stuck(false)
			w.infras(ctx, stage.HaveCondition(infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason,
				"The move waits: BareMetalHost late was created after clusterctl had discovered the objects")))
			journey.lose()
			Expect(w.hosts(ctx, Default, w.there)).To(BeEmpty())

			By("aborting the move, and moving again")
			w.pauseClusters(ctx, w.here, false)
			w.reportPause(ctx, false)
			w.settled(ctx)
			w.readyForMove(ctx)
			w.move(ctx)
			w.eventually(ctx, "late", isNotPaused(), inState(bmov1alpha1.StateAvailable))
			w.settled(ctx)
			w.unharmed(ctx, before.except("slow"))
		}}.atNight(),
		story{"resumes a host in the source that was created after block-move was removed", func(ctx context.Context) {
			w := c.world(ctx)
			before := w.readyFleet(ctx)
			journey := w.begin(ctx)
			w.await(ctx, w.there, watch.Added, &clusterv1.ClusterList{})
			w.host(ctx, "late")
			Eventually(journey.ended).WithTimeout(4 * patience).Should(Receive(BeNil()))
			w.eventually(ctx, "late", isNotPaused(), inState(bmov1alpha1.StateAvailable), isFine())
			Expect(w.pivot(ctx, "resume")).To(Equal(done))
			Expect(w.pivot(ctx, "clean")).To(Equal(done))
			Expect(w.hosts(ctx, Default, w.here)).To(And(HaveLen(1), HaveKey("late")))
			w.eventually(ctx, "late", isNotPaused(), inState(bmov1alpha1.StateAvailable), isFine())
			w.goOnThere(ctx)
			Expect(w.hosts(ctx, Default, w.here)).NotTo(HaveKey("late"))
			w.unharmed(ctx, before)
			w.settled(ctx)
		}}.atNight(),
	}
}

// beforePause calls a function when clusterctl has discovered the objects and sends the pause of the first Cluster. The
// API server pauses the Cluster afterwards. The channel receives nil if the function succeeded.
func (w *world) beforePause(ctx context.Context, do func()) <-chan any {
	GinkgoHelper()
	var once sync.Once
	failure := make(chan any, 1)
	server := httptest.NewTLSServer(&webhook.Admission{Handler: admission.HandlerFunc(
		func(context.Context, webhook.AdmissionRequest) webhook.AdmissionResponse {
			once.Do(func() {
				defer func() { failure <- recover() }()
				do()
			})
			return admission.Allowed("")
		})})
	DeferCleanup(server.Close)
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	hook.Webhooks = []admissionregistrationv1.ValidatingWebhook{{
		Name: "pause.example.com", AdmissionReviewVersions: []string{"v1"},
		SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNoneOnDryRun),
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			URL:      ptr.To(server.URL),
			CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.namespace}},
		MatchConditions: []admissionregistrationv1.MatchCondition{{
			Name: "pauses", Expression: "has(object.spec.paused) && object.spec.paused",
		}},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{clusterv1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"clusters"},
			},
		}},
	}}
	Expect(w.here.client.Create(ctx, hook)).To(Succeed())
	at := w.here.client
	DeferCleanup(func(ctx context.Context) { Expect(at.Delete(ctx, hook)).To(Succeed()) })
	return failure
}

// reportPause does what Cluster API does when a Cluster is paused or unpaused, and waits for a later second: times of
// objects have no fractions.
func (w *world) reportPause(ctx context.Context, paused bool) {
	GinkgoHelper()
	cluster := &clusterv1.Cluster{}
	Eventually(func(g Gomega) {
		g.Expect(w.here.client.Get(ctx, w.key("cluster"), cluster)).To(Succeed())
		g.Expect(ptr.Deref(cluster.Spec.Paused, false)).To(Equal(paused))
	}).Should(Succeed())
	reported := metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotPausedReason}
	if paused {
		reported.Status, reported.Reason = metav1.ConditionTrue, clusterv1.PausedReason
	}
	stage.ChangeStatus(ctx, w.here.client, w.key("cluster"), cluster, func(cluster *clusterv1.Cluster) {
		conditions.Set(cluster, reported)
	})
	since := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.PausedCondition).LastTransitionTime
	Eventually(func() bool { return metav1.Now().Rfc3339Copy().After(since.Time) }).Should(BeTrue())
}
