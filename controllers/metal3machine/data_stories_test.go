package metal3machine_test

import (
	"context"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3dataclaim"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/datastore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeData are the stories about machines with a data template. The story renders the data in place of its
// controllers.
func describeData(s *suite) {
	It("claims its host before its data is rendered, and provisions it afterwards", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host")
		w.start()
		w.dataSecrets(ctx, "own-network")
		w.machine(ctx, "machine", withDataTemplate())
		w.associated(ctx, "machine")
		w.eventually(ctx, "machine", infrav1.DataReadyCondition, stage.IsFalseBecause(infrav1.WaitingForDataReason,
			"Waiting for Metal3DataTemplate template to be rendered for Metal3DataClaim machine"))
		Expect(w.getHost(ctx, Default, "host").Spec.Image).To(BeNil(), "a host without its data must not start")

		claim := &infrav1.Metal3DataClaim{}
		Expect(w.client.Get(ctx, w.key("machine"), claim)).To(Succeed())
		Expect(claim.Finalizers).To(ConsistOf(infrav1.MachineFinalizer, infrav1.DataClaimFinalizer))
		Expect(claim.Spec.Template).To(HaveValue(HaveField("Name", "template")))
		Expect(metav1.IsControlledBy(claim, w.getMachine(ctx, Default, "machine"))).To(BeTrue())
		Expect(claim.OwnerReferences).To(HaveExactElements(HaveField("BlockOwnerDeletion", HaveValue(BeFalse()))),
			"blocking the deletion of the machine needs a permission that the manager does not have")
		Expect(claim.Labels).To(HaveKeyWithValue("cluster.x-k8s.io/cluster-name", clusterName))

		w.render(ctx, "machine", false)
		w.eventually(ctx, "machine", infrav1.DataReadyCondition, stage.IsFalseBecause(infrav1.WaitingForDataReason, ""))
		Expect(w.getHost(ctx, Default, "host").Spec.Image).To(BeNil())

		changeStatus(ctx, w, "machine-data", &infrav1.Metal3Data{}, func(data *infrav1.Metal3Data) {
			data.Status.Ready = ptr.To(true)
		})
		w.eventually(ctx, "machine", infrav1.DataReadyCondition, stage.IsTrueBecause(infrav1.DataReadyReason))
		host := w.getHost(ctx, Default, "host")
		Expect(host.Spec.Image).To(HaveField("URL", build.ImageURL))
		Expect(host.Spec.MetaData).To(Equal(w.reference("rendered-meta")))
		Expect(host.Spec.NetworkData).To(Equal(w.reference("own-network")), "the spec takes precedence over rendered data")
		Expect(w.getMachine(ctx, Default, "machine").Status.RenderedData).To(Equal(
			&infrav1.Metal3ObjectRef{Namespace: w.namespace, Name: "machine-data"}))
	})

	It("claims another host if its host is deleted while it waits for its data", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "first", build.Finalizers(bmov1alpha1.BareMetalHostFinalizer))
		w.start()
		w.dataSecrets(ctx, "own-network")
		w.machine(ctx, "machine", withDataTemplate())
		Expect(w.associated(ctx, "machine")).To(Equal("first"))
		w.eventually(ctx, "machine", infrav1.DataReadyCondition, stage.IsFalseBecause(infrav1.WaitingForDataReason, ""))
		waits := func(problem string) {
			GinkgoHelper()
			for _, condition := range []string{infrav1.HostAssociatedCondition, infrav1.ReadyCondition} {
				w.eventually(ctx, "machine", condition, stage.IsFalseBecause(infrav1.HostErrorReason,
					"BareMetalHost first is being deleted. Metal3Machine machine claims a host again after the deletion. "+
						problem+"If the deletion does not end, delete Machine machine to replace it."))
			}
		}
		change(ctx, w, "first", &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&host.ObjectMeta, bmov1alpha1.PausedAnnotation, "")
		})
		Expect(w.client.Delete(ctx, w.getHost(ctx, Default, "first"))).To(Succeed())
		waits("BareMetalHost first is paused: remove its annotation baremetalhost.metal3.io/paused. ")
		change(ctx, w, "first", &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			delete(host.Annotations, bmov1alpha1.PausedAnnotation)
		})
		waits("")
		w.render(ctx, "machine", true)
		w.host(ctx, "second")
		change(ctx, w, "first", &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) { host.Finalizers = nil })
		Expect(w.associated(ctx, "machine")).To(Equal("second"))

		w.eventually(ctx, "machine", infrav1.DataReadyCondition, stage.IsFalseBecause(infrav1.WaitingForDataReason,
			"Waiting for the deletion of Metal3DataClaim machine"))
		Expect(w.getHost(ctx, Default, "second").Spec.Image).To(BeNil(), "the data is that of the first host")
		change(ctx, w, "machine", &infrav1.Metal3DataClaim{}, func(claim *infrav1.Metal3DataClaim) {
			Expect(claim.DeletionTimestamp).NotTo(BeNil())
			Expect(claim.Finalizers).To(ConsistOf(infrav1.DataClaimFinalizer), "only the controller of claims is left")
			claim.Finalizers = nil
		})
		w.eventually(ctx, "machine", infrav1.DataReadyCondition, stage.IsFalseBecause(infrav1.WaitingForDataReason,
			"Waiting for Metal3DataTemplate template to be rendered for Metal3DataClaim machine"))
	})

	It("deletes its Metal3DataClaim after it releases its host", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host")
		w.start()
		w.dataSecrets(ctx, "own-network")
		w.machine(ctx, "machine", withDataTemplate())
		w.associated(ctx, "machine")
		w.eventually(ctx, "machine", infrav1.DataReadyCondition, stage.IsFalseBecause(infrav1.WaitingForDataReason, ""))
		w.remove(ctx, "machine")
		w.gone(ctx, "machine")
		claim := &infrav1.Metal3DataClaim{}
		Expect(w.client.Get(ctx, w.key("machine"), claim)).To(Succeed())
		Expect(claim.DeletionTimestamp).NotTo(BeNil())
		Expect(claim.Finalizers).To(ConsistOf(infrav1.DataClaimFinalizer), "only the controller of claims is left")
	})

	It("does not use the data of a deleted machine with its name", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host")
		predecessor := w.named("machine")
		predecessor.UID = "9e2d1f60-52a6-4a0e-8f0b-4f7f6c0d2a11"
		claim := &infrav1.Metal3DataClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: "machine", Finalizers: []string{infrav1.DataClaimFinalizer},
		}, Spec: infrav1.Metal3DataClaimSpec{Template: &infrav1.Metal3ObjectRef{Name: "template"}}}
		build.OwnedBy(predecessor)(claim)
		w.create(ctx, claim)
		w.render(ctx, "machine", true)
		Expect(w.client.Delete(ctx, claim)).To(Succeed())
		w.start()
		w.dataSecrets(ctx, "own-network")
		w.machine(ctx, "machine", withDataTemplate())
		w.eventually(ctx, "machine", infrav1.DataReadyCondition, stage.IsFalseBecause(infrav1.WaitingForDataReason,
			"Waiting for the deletion of Metal3DataClaim machine"))
		Expect(w.getHost(ctx, Default, "host").Spec.Image).To(BeNil())

		change(ctx, w, "machine", claim, func(claim *infrav1.Metal3DataClaim) { claim.Finalizers = nil })
		Eventually(func(g Gomega) {
			own := &infrav1.Metal3DataClaim{}
			g.Expect(w.client.Get(ctx, w.key("machine"), own)).To(Succeed())
			g.Expect(metav1.IsControlledBy(own, w.getMachine(ctx, g, "machine"))).To(BeTrue())
		}).Should(Succeed())
		w.eventually(ctx, "machine", infrav1.DataReadyCondition, stage.IsFalseBecause(infrav1.WaitingForDataReason,
			"Waiting for Metal3DataTemplate template to be rendered"))
	})

	It("creates another Metal3DataClaim in place of one that is deleted before it is rendered", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host")
		w.start()
		w.dataSecrets(ctx, "own-network")
		w.machine(ctx, "machine", withDataTemplate())
		w.eventually(ctx, "machine", infrav1.DataReadyCondition, stage.IsFalseBecause(infrav1.WaitingForDataReason, ""))
		deleted := &infrav1.Metal3DataClaim{}
		Expect(w.client.Get(ctx, w.key("machine"), deleted)).To(Succeed())
		Expect(w.client.Delete(ctx, deleted)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(w.client.Get(ctx, w.key("machine"), deleted)).To(Succeed())
			g.Expect(deleted.Finalizers).To(ConsistOf(infrav1.DataClaimFinalizer), "only the controller of claims is left")
		}).Should(Succeed())
		w.eventually(ctx, "machine", infrav1.DataReadyCondition, stage.IsFalseBecause(infrav1.WaitingForDataReason,
			"Waiting for the deletion of Metal3DataClaim machine"))

		change(ctx, w, "machine", deleted, func(claim *infrav1.Metal3DataClaim) { claim.Finalizers = nil })
		Eventually(func(g Gomega) {
			claim := &infrav1.Metal3DataClaim{}
			g.Expect(w.client.Get(ctx, w.key("machine"), claim)).To(Succeed())
			g.Expect(claim.UID).NotTo(Equal(deleted.UID))
		}).Should(Succeed())
		w.render(ctx, "machine", true)
		w.eventually(ctx, "machine", infrav1.DataReadyCondition, stage.IsTrue())
	})

	It("keeps the Metal3DataClaim of a host with an image", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host")
		w.start()
		w.dataSecrets(ctx, "own-network")
		w.machine(ctx, "machine", withDataTemplate())
		w.eventually(ctx, "machine", infrav1.DataReadyCondition, stage.IsFalseBecause(infrav1.WaitingForDataReason, ""))
		w.render(ctx, "machine", true)
		w.eventually(ctx, "machine", infrav1.DataReadyCondition, stage.IsTrue())
		claim := &infrav1.Metal3DataClaim{}
		Expect(w.client.Get(ctx, w.key("machine"), claim)).To(Succeed())
		Expect(w.client.Delete(ctx, claim)).To(Succeed())
		changeStatus(ctx, w, "machine-data", &infrav1.Metal3Data{}, func(data *infrav1.Metal3Data) {
			data.Status.Ready = ptr.To(false)
		})
		Consistently(func(g Gomega) {
			g.Expect(w.client.Get(ctx, w.key("machine"), claim)).To(Succeed())
			g.Expect(claim.Finalizers).To(ContainElement(infrav1.MachineFinalizer))
		}).Should(Succeed())
	})

	It("replaces a Metal3DataClaim that lost its owner, after its deletion", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host")
		w.start()
		w.startDataClaims()
		w.create(ctx, &infrav1.Metal3DataTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "template"}})
		w.dataSecrets(ctx, "own-network")
		w.machine(ctx, "machine", withDataTemplate())
		w.eventually(ctx, "machine", infrav1.DataReadyCondition, stage.IsFalseBecause(infrav1.WaitingForDataReason, ""))
		orphan := w.orphanClaim(ctx, "machine")
		w.eventually(ctx, "machine", infrav1.DataReadyCondition, stage.IsFalseBecause(infrav1.WaitingForDataReason,
			"Metal3Machine machine does not control Metal3DataClaim machine. Delete the Metal3DataClaim"))
		Expect(w.client.Delete(ctx, orphan)).To(Succeed())
		Eventually(func(g Gomega) {
			claim := &infrav1.Metal3DataClaim{}
			g.Expect(w.client.Get(ctx, w.key("machine"), claim)).To(Succeed())
			g.Expect(claim.Finalizers).NotTo(BeEmpty())
			g.Expect(metav1.IsControlledBy(claim, w.getMachine(ctx, g, "machine"))).To(BeTrue())
		}).Should(Succeed())
	})

	It("releases a Metal3DataClaim that lost its owner, when it is deleted itself", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host")
		w.start()
		w.dataSecrets(ctx, "own-network")
		w.machine(ctx, "machine", withDataTemplate())
		w.eventually(ctx, "machine", infrav1.DataReadyCondition, stage.IsFalseBecause(infrav1.WaitingForDataReason, ""))
		w.render(ctx, "machine", true)
		w.eventually(ctx, "machine", infrav1.DataReadyCondition, stage.IsTrue())
		claim := w.orphanClaim(ctx, "machine")
		Expect(w.client.Delete(ctx, claim)).To(Succeed())
		Consistently(func(g Gomega) {
			g.Expect(w.client.Get(ctx, w.key("machine"), claim)).To(Succeed())
			g.Expect(claim.Finalizers).To(ContainElement(infrav1.MachineFinalizer), "the host uses the data")
		}).Should(Succeed())
		w.remove(ctx, "machine")
		w.gone(ctx, "machine")
		Expect(w.client.Get(ctx, w.key("machine"), claim)).To(Succeed())
		Expect(claim.Finalizers).To(ConsistOf(infrav1.DataClaimFinalizer), "only the controller of claims is left")
	})

	It("reports the error of its data", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host")
		w.start()
		w.dataSecrets(ctx, "own-network")
		w.machine(ctx, "machine", withDataTemplate())
		w.eventually(ctx, "machine", infrav1.DataReadyCondition, stage.IsFalseBecause(infrav1.WaitingForDataReason, ""))
		changeStatus(ctx, w, "machine", &infrav1.Metal3DataClaim{}, func(claim *infrav1.Metal3DataClaim) {
			claim.Status.ErrorMessage = "no such template"
		})
		w.eventually(ctx, "machine", infrav1.DataReadyCondition,
			stage.IsFalseBecause(infrav1.DataFailedReason, "Metal3DataClaim machine: no such template"))
		w.render(ctx, "machine", false)
		changeStatus(ctx, w, "machine-data", &infrav1.Metal3Data{}, func(data *infrav1.Metal3Data) {
			data.Status.ErrorMessage = "no address is free"
		})
		w.eventually(ctx, "machine", infrav1.DataReadyCondition,
			stage.IsFalseBecause(infrav1.DataFailedReason, "Metal3Data machine-data: no address is free"))
		w.eventually(ctx, "machine", infrav1.ReadyCondition, stage.IsFalseBecause(infrav1.DataFailedReason, ""))
	})
}

func withDataTemplate() build.ObjectOption {
	return stage.With(func(machine *infrav1.Metal3Machine) {
		machine.Spec.DataTemplate = &infrav1.Metal3ObjectRef{Name: "template"}
		machine.Spec.NetworkData = &corev1.SecretReference{Name: "own-network"}
	})
}

// startDataClaims starts a manager with the controller of Metal3DataClaims.
func (w *world) startDataClaims() {
	GinkgoHelper()
	stage.Manager{
		Config: w.config, Namespace: w.namespace,
		Setup: func(ctx context.Context, mgr ctrl.Manager, _ clustercache.ClusterCache) error {
			data := datastore.New(mgr.GetClient(), mgr.GetAPIReader())
			if err := data.Setup(ctx, mgr.GetFieldIndexer(), mgr.GetCache()); err != nil {
				return err
			}
			return (&metal3dataclaim.Reconciler{
				Reporter: flow.Reporter{Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("metal3dataclaim")}, Data: data, Live: mgr.GetAPIReader(),
			}).SetupWithManager(ctx, mgr, controller.Options{SkipNameValidation: ptr.To(true)})
		},
	}.Start()
}

// orphanClaim removes the owners of the Metal3DataClaim of a machine.
func (w *world) orphanClaim(ctx context.Context, machine string) *infrav1.Metal3DataClaim {
	GinkgoHelper()
	claim := &infrav1.Metal3DataClaim{}
	change(ctx, w, machine, claim, func(claim *infrav1.Metal3DataClaim) { claim.OwnerReferences = nil })
	return claim
}

// render renders the data of a machine.
func (w *world) render(ctx context.Context, machine string, ready bool) {
	GinkgoHelper()
	w.dataSecrets(ctx, "rendered-meta", "rendered-network")
	data := &infrav1.Metal3Data{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: machine + "-data"},
		Spec: infrav1.Metal3DataSpec{
			Claim:       &infrav1.Metal3ObjectRef{Name: machine},
			MetaData:    &corev1.SecretReference{Name: "rendered-meta"},
			NetworkData: &corev1.SecretReference{Name: "rendered-network"},
		},
		Status: infrav1.Metal3DataStatus{Ready: &ready},
	}
	w.create(ctx, data)
	changeStatus(ctx, w, machine, &infrav1.Metal3DataClaim{}, func(claim *infrav1.Metal3DataClaim) {
		claim.Status.RenderedData = &infrav1.Metal3ObjectRef{Name: data.Name}
	})
}
