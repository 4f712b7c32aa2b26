package plugin_test

import (
	"context"
	"path/filepath"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/departure"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// scaleManager sets whether the Deployment of the manager in the source requires a Pod, and whether it has one.
func (c *clusters) scaleManager(ctx context.Context, wants, has bool) {
	GinkgoHelper()
	count := map[bool]int32{true: 1}
	key := client.ObjectKey{Namespace: managerNamespace, Name: "capm3-controller-manager"}
	stage.Change(ctx, c.source.Client, key, &appsv1.Deployment{}, func(manager *appsv1.Deployment) {
		manager.Spec.Replicas = ptr.To(count[wants])
	})
	stage.ChangeStatus(ctx, c.source.Client, key, &appsv1.Deployment{}, func(manager *appsv1.Deployment) {
		manager.Status = appsv1.DeploymentStatus{Replicas: count[has], ReadyReplicas: count[has], AvailableReplicas: count[has]}
	})
}

// stale creates a host that an earlier move has left, with a Secret.
func (c *clusters) stale(ctx context.Context) (world, *bmov1alpha1.BareMetalHost) {
	GinkgoHelper()
	w := settle(ctx, c.source, stage.Namespace(ctx, c.source), epoch("4"), func(infra *infrav1.Metal3Cluster) {
		metav1.SetMetaDataAnnotation(&infra.ObjectMeta, infrav1.ArrivalEpochAnnotation, "3")
	})
	stale := build.Host("stale", build.Available(), build.InNamespace(w.namespace), build.Annotations(map[string]string{
		bmov1alpha1.PausedAnnotation: infrav1.HostPausedByProvider, infrav1.MoveEpochAnnotation: "1",
	}), build.Finalizers(bmov1alpha1.BareMetalHostFinalizer))
	w.create(ctx, stale)
	w.create(ctx, build.ControllerSecret(stale, build.OwnedBy(stale)))
	DeferCleanup(func(ctx context.Context) {
		left := &bmov1alpha1.BareMetalHost{}
		err := w.client.Get(ctx, client.ObjectKeyFromObject(stale), left)
		if left.Finalizers = nil; err == nil {
			err = w.client.Update(ctx, left)
		}
		Expect(client.IgnoreNotFound(err)).To(Succeed())
	})
	return w, stale
}

// describeUnpausing has the stories of pauses that a user ends, because no move ends them.
func describeUnpausing(c *clusters) {
	alone := func(ctx context.Context, w world, arguments string) ran {
		return runOn(ctx, c.source.Kubeconfig, "", w.namespace, arguments)
	}

	It("unpauses a Cluster that no move has paused", func(ctx context.Context) {
		w := settle(ctx, c.source, stage.Namespace(ctx, c.source))
		Expect(alone(ctx, w, "unpause")).To(end(0, "Nothing to do."))
		w.pause(ctx)
		Expect(alone(ctx, w, "unpause --cluster x")).To(end(1, "Cluster x does not exist"))
		Expect(alone(ctx, w, "unpause --yes=false")).To(end(1, "not confirmed", "Cluster cluster of namespace"))
		Expect(alone(ctx, w, "unpause --cluster cluster --dry-run")).To(end(0, "Dry run: Unpaused Cluster cluster"))
		Expect(w.isPaused(ctx)).To(BeTrue())
		told := alone(ctx, w, "unpause -o json")
		Expect(told).To(end(0))
		Expect(told.decode()).To(And(HaveKeyWithValue("kind", "PivotUnpause"), HaveKeyWithValue("done", true)))
		Expect(w.isPaused(ctx)).To(BeFalse())
	})

	It("does not wait for hosts of a Cluster that stays paused", func(ctx context.Context) {
		w := settle(ctx, c.source, stage.Namespace(ctx, c.source))
		other := build.Cluster("other", build.InfrastructureReady())
		other.Spec.Paused = ptr.To(true)
		w.create(ctx, other)
		w.create(ctx, build.Metal3Cluster("other", build.OwnedBy(other)))
		w.create(ctx, build.Host("parked", build.Provisioned(), build.Paused(infrav1.HostPausedByProvider),
			build.Labels(map[string]string{clusterv1.ClusterNameLabel: "other"}), build.InNamespace(w.namespace),
			build.Consumed(build.Metal3Machine("parked", "other", build.InNamespace(w.namespace)))))
		w.pause(ctx)
		Expect(alone(ctx, w, "unpause --cluster cluster --timeout 30s")).To(end(0, "Unpaused Cluster cluster",
			"Resuming: 1 of 1 hosts", "Other Clusters keep 1 host paused: parked", "Done."))
		Expect(w.isPaused(ctx)).To(BeFalse())
		Expect(w.client.Get(ctx, w.key("other"), other)).To(Succeed())
		Expect(other.Spec.Paused).To(HaveValue(BeTrue()))
	})

	It("keeps a Cluster paused that is incomplete, or that the other cluster has", func(ctx context.Context) {
		namespace, source, target := c.halfMoved(ctx)
		Expect(c.run(ctx, namespace, "unpause")).To(end(1, "a copy is in the other cluster", "pivot resume", "pivot abort"))
		departed := pivot.Departure{Infras: map[string]pivot.Epoch{clusterName: 1}}
		departed.Enter([]*bmov1alpha1.BareMetalHost{build.Host("host"), build.Host("spare")})
		Expect(departure.New(source.client).Remember(ctx, namespace, departed)).To(Succeed())
		Expect(alone(ctx, source, "unpause")).To(end(1, "BareMetalHost spare is not here", "BMO would wipe their hosts"))
		Expect(source.isPaused(ctx)).To(BeTrue())

		By("losing the source: the target is complete")
		target.resumed(ctx)
		Expect(runOn(ctx, c.target.Kubeconfig, "", namespace, "unpause")).To(end(0, "Unpaused Cluster cluster", "Done."))
		Expect(c.run(ctx, namespace, "unpause")).To(end(1, "Cluster cluster runs in the other cluster", "pivot clean"))
	})

	It("unpauses hosts whose Cluster or Ironic does not arrive, and no others", func(ctx context.Context) {
		w := world{client: c.source.Client, namespace: stage.Namespace(ctx, c.source)}
		w.leaveNoHosts()
		ours := build.Paused(infrav1.HostPausedByProvider)
		w.create(ctx, build.Host("stuck", build.Available(), ours), build.Host("other", build.Available(), ours),
			build.Host("mine", build.Available(), build.Paused("maintenance")), build.Host("left", build.Available(), ours))
		stage.Change(ctx, w.client, w.key("other"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&host.ObjectMeta, infrav1.IronicClusterIDAnnotation, "elsewhere")
		})
		departed := pivot.Departure{Infras: map[string]pivot.Epoch{clusterName: 1}}
		departed.Enter([]*bmov1alpha1.BareMetalHost{w.host(ctx, "left")})
		w.create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: pivot.DepartureName}, Data: departed.Data()})
		Expect(alone(ctx, w, "unpause --host x")).To(end(1, "BareMetalHost x does not exist"))
		Expect(alone(ctx, w, "unpause --host stuck --all-hosts")).To(end(2, "exclude one another"))
		Expect(alone(ctx, w, "unpause --all-hosts")).To(end(1, "BareMetalHost left moved to another management cluster",
			"`clusterctl metal3 pivot forget --namespace "+w.namespace+" --host left`"))
		Expect(alone(ctx, w, "unpause --host stuck --yes=false")).To(end(1, "not confirmed", "BMO acts on them twice"))
		Expect(alone(ctx, w, "unpause --host stuck,other")).To(end(0, "Unpaused BareMetalHost other",
			"Unpaused BareMetalHost stuck", "Done."))
		for _, name := range []string{"stuck", "other"} {
			Expect(w.host(ctx, name).Annotations).NotTo(Or(HaveKey(bmov1alpha1.PausedAnnotation),
				HaveKey(infrav1.IronicClusterIDAnnotation)))
		}
		for _, name := range []string{"mine", "left"} {
			Expect(w.host(ctx, name).Annotations).To(HaveKey(bmov1alpha1.PausedAnnotation))
		}
		Expect(alone(ctx, w, "unpause --host stuck")).To(end(0, "Nothing to do."))
	})

	It("discards a leftover host, and no other", func(ctx context.Context) {
		w, stale := c.stale(ctx)
		secret := build.ControllerSecret(stale)
		// Hosts may have one account. BMO adds each of them as an owner.
		shared := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "shared"}}
		for _, owner := range []client.Object{stale, w.host(ctx, "host")} {
			Expect(controllerutil.SetOwnerReference(owner, shared, build.Scheme())).To(Succeed())
		}
		w.create(ctx, shared)
		backup := filepath.Join(GinkgoT().TempDir(), "stale.yaml")
		Expect(alone(ctx, w, "discard")).To(end(2, "--host is empty"))
		Expect(alone(ctx, w, "discard --host host")).To(end(1, "BareMetalHost host is not paused, so BMO manages it"))
		Expect(alone(ctx, w, "discard --host stale --yes=false")).To(end(1, "not confirmed", "keeps its power and its disks"))
		Expect(alone(ctx, w, "discard --host stale --dry-run")).To(end(0, "Dry run: Saved 2 objects"))
		Expect(w.host(ctx, "stale").DeletionTimestamp).To(BeNil())
		told := alone(ctx, w, "discard --host stale -o json --backup "+backup)
		Expect(told).To(end(0))
		Expect(told.decode()).To(And(HaveKeyWithValue("kind", "PivotDiscard"), HaveKeyWithValue("done", true)))
		Expect(backup).To(BeARegularFile())
		for _, gone := range []client.Object{stale, secret} {
			err := w.client.Get(ctx, client.ObjectKeyFromObject(gone), gone)
			Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		}
		Expect(w.client.Get(ctx, client.ObjectKeyFromObject(shared), shared)).To(Succeed(), "host has this account too")
	})

	It("lets a host move while it is busy, if its operation continues", func(ctx context.Context) {
		w := settle(ctx, c.source, stage.Namespace(ctx, c.source))
		w.create(ctx, build.Host("cleaning", build.State(bmov1alpha1.StateDeprovisioning)),
			build.Host("writing", build.State(bmov1alpha1.StateProvisioning)))
		Expect(alone(ctx, w, "allow-busy")).To(end(2, "--host is empty"))
		Expect(alone(ctx, w, "allow-busy --host writing")).To(end(1, "BareMetalHost writing is provisioning",
			"pivot preflight --wait"))
		Expect(alone(ctx, w, "allow-busy --host host")).To(end(1, "is not busy"))
		Expect(c.run(ctx, w.namespace, "preflight")).To(end(1, "host cleaning is deprovisioning"))
		Expect(alone(ctx, w, "allow-busy --host cleaning -o yaml")).To(end(0, "kind: PivotAllowBusy"))
		Expect(w.host(ctx, "cleaning").Annotations).To(HaveKey(infrav1.MoveWhileBusyAnnotation))
		told := c.run(ctx, w.namespace, "preflight")
		Expect(told.text).NotTo(ContainSubstring("host cleaning"))
		Expect(alone(ctx, w, "allow-busy --host cleaning")).To(end(0, "Nothing to do."))
		Expect(alone(ctx, w, "allow-busy --host cleaning --undo")).To(end(0, "Let the move wait for BareMetalHost cleaning"))
		Expect(w.host(ctx, "cleaning").Annotations).NotTo(HaveKey(infrav1.MoveWhileBusyAnnotation))
	})

	It("removes block-move for CAPM3, and not while the manager runs", func(ctx context.Context) {
		w := settle(ctx, c.source, stage.Namespace(ctx, c.source))
		Expect(alone(ctx, w, "unblock")).To(end(1, "the manager of this provider runs"))
		DeferCleanup(func(ctx context.Context) { c.scaleManager(ctx, true, true) })
		c.scaleManager(ctx, true, false)
		Expect(alone(ctx, w, "unblock")).To(end(1, "the manager of this provider runs"), "its Pod is replaced")
		c.scaleManager(ctx, false, true)
		Expect(alone(ctx, w, "unblock")).To(end(1, "the manager of this provider runs"), "its Pod is being deleted")
		c.scaleManager(ctx, false, false)
		w.pause(ctx)
		Expect(alone(ctx, w, "unblock")).To(end(1, "clusterctl may wait for its hosts"))
		w.unpause(ctx)
		Expect(alone(ctx, w, "unblock --dry-run")).To(end(0, "Dry run: Removed block-move"))
		Expect(alone(ctx, w, "unblock -o json").decode()).To(And(HaveKeyWithValue("kind", "PivotUnblock"),
			HaveKeyWithValue("done", true)))
		infra := &infrav1.Metal3Cluster{}
		Expect(w.client.Get(ctx, w.key(clusterName), infra)).To(Succeed())
		Expect(infra.Annotations).NotTo(HaveKey(infrav1.BlockMoveAnnotation))
	})

	It("has BMO reconcile firmware objects and BMC subscriptions after a move", func(ctx context.Context) {
		w := settle(ctx, c.source, stage.Namespace(ctx, c.source))
		Expect(alone(ctx, w, "refresh")).To(end(0, "Nothing to do."))
		events := &bmov1alpha1.BMCEventSubscription{ObjectMeta: metav1.ObjectMeta{Name: "events"}}
		events.Spec.HostName = "host"
		firmware := &bmov1alpha1.HostFirmwareSettings{ObjectMeta: metav1.ObjectMeta{Name: "host"}}
		firmware.Spec.Settings, firmware.Status.Settings = bmov1alpha1.DesiredSettingsMap{}, bmov1alpha1.SettingsMap{}
		w.create(ctx, firmware, events)
		restarts := func() string {
			operator := &appsv1.Deployment{}
			Expect(c.source.Client.Get(ctx, operatorKey(), operator)).To(Succeed())
			return operator.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"]
		}

		stage.Change(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&host.ObjectMeta, bmov1alpha1.PausedAnnotation, infrav1.HostPausedByProvider)
		})
		Expect(alone(ctx, w, "refresh")).To(end(1, "BareMetalHost host is", "pivot status --watch"))
		stage.Change(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			delete(host.Annotations, bmov1alpha1.PausedAnnotation)
		})
		Expect(alone(ctx, w, "refresh --yes=false")).To(end(1, "not confirmed",
			"BMO reconciles HostFirmwareSettings host; BMCEventSubscription events. Deployment "+operatorKey().String()+" restarts"))
		Expect(alone(ctx, w, "refresh --dry-run")).To(end(0, "Dry run: Restarted Deployment "+operatorKey().String()))
		Expect(restarts()).To(BeEmpty())
		Expect(alone(ctx, w, "refresh -o json").decode()).To(And(HaveKeyWithValue("kind", "PivotRefresh"),
			HaveKeyWithValue("done", true)))
		restarted := restarts()
		Expect(restarted).NotTo(BeEmpty())
		Expect(w.client.Get(ctx, w.key("events"), events)).To(Succeed())
		Expect(events.Annotations).To(BeEmpty(), "BMO reconciles it when it starts")

		stage.ChangeStatus(ctx, w.client, w.key("host"), firmware, func(firmware *bmov1alpha1.HostFirmwareSettings) {
			firmware.Status.LastUpdated = ptr.To(metav1.Now())
		})
		Expect(alone(ctx, w, "refresh")).To(end(0, "Had BMO reconcile BMCEventSubscription events"))
		Expect(restarts()).To(Equal(restarted))
		Expect(w.client.Get(ctx, w.key("events"), events)).To(Succeed())
		Expect(events.Annotations).To(HaveKey("infrastructure.cluster.x-k8s.io/refreshed-at"))
	})
}

func (w world) pause(ctx context.Context) {
	GinkgoHelper()
	stage.Change(ctx, w.client, w.key(clusterName), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
		cluster.Spec.Paused = ptr.To(true)
	})
}
