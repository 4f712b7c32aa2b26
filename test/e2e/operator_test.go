package e2e_test

import (
	"context"
	"slices"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/bmc"
)

const (
	// single is a host without a cluster.
	single = "single"

	// external is an externally provisioned host.
	external = "external"

	// bmcUser is the user of every BMC of the lab.
	bmcUser = "operator"
)

// A host without a cluster tests the behaviour of BMO and Ironic that the provider depends on.
var _ = Describe("A host without a cluster", Ordered, func() {
	w := &world{}

	BeforeAll(func() {
		w.Client = bed.proxy.GetClient()
		DeferCleanup(func(ctx context.Context) { w.dismiss(ctx, single, external) }, NodeTimeout(storyLimit))
	})

	It("is inspected and gets its image once although BMO is killed in every state", func(ctx context.Context) {
		began := time.Now()
		Expect(bed.lab.AddHost(ctx, bed.lab.Management(), single)).To(Succeed())
		for _, state := range []bmov1alpha1.ProvisioningState{bmov1alpha1.StateRegistering, bmov1alpha1.StateInspecting} {
			w.untilSingle(ctx, inState(state))
			killBMO(ctx)
		}
		w.untilSingle(ctx, inState(bmov1alpha1.StateAvailable), isWell(), isOn())
		Expect(inserted(began, single)).To(Equal(1), "its agent boots once to inspect it")

		finish, err := bed.lab.BMC().HoldImage(lab.NodeImage)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(finish)
		provisioning := time.Now()
		w.changeSingle(ctx, func(host *bmov1alpha1.BareMetalHost) {
			format := "raw"
			host.Spec.Image = &bmov1alpha1.Image{
				URL: bmc.ImageURL(lab.NodeImage), Checksum: bmc.ChecksumURL(lab.NodeImage),
				ChecksumType: bmov1alpha1.SHA256, DiskFormat: &format,
			}
		})
		w.untilSingle(ctx, inState(bmov1alpha1.StateProvisioning))
		killBMO(ctx)
		Eventually(func() int { return bed.lab.BMC().Held(lab.NodeImage) }, patiently()...).Should(Equal(1), "an agent waits")
		killBMO(ctx)
		finish()
		w.untilSingle(ctx, inState(bmov1alpha1.StateProvisioned), isWell(), isOn())
		Expect(inserted(provisioning, single)).To(And(BeNumerically(">", 0), BeNumerically("<", 3)),
			"its agent boots for cleaning and for writing the image")
		provisioned := time.Now()
		killBMO(ctx)
		w.untilReconciled(ctx)
		w.untilSingle(ctx, inState(bmov1alpha1.StateProvisioned), isWell(), isOn())
		Expect(changesOf(provisioned, single)).To(BeEmpty())
	}, NodeTimeout(storyLimit))

	It("is adopted by an empty Ironic although its BMC is busy and then slow", func(ctx context.Context) {
		fail := func(fault bmc.Fault) {
			GinkgoHelper()
			Expect(bed.lab.BMC().SetFault(single, fault)).To(Succeed())
		}
		DeferCleanup(fail, bmc.Fault{})
		adoptedBy := w.host(ctx, Default, single).Status.Provisioning.ID
		replaced := time.Now()
		fail(bmc.Fault{Busy: true})
		_, err := bed.lab.Management().Kubectl(ctx, "rollout", "restart", "--namespace", lab.IronicNamespace,
			"deployment/"+lab.IronicDeployment)
		Expect(err).NotTo(HaveOccurred())
		w.untilSingle(ctx, hasFailed(bmov1alpha1.RegistrationError), inState(bmov1alpha1.StateProvisioned))
		fail(bmc.Fault{Delay: time.Second})
		w.untilSingle(ctx, isWell(), isOn(), inState(bmov1alpha1.StateProvisioned),
			HaveField("Status.Provisioning.ID", Not(Equal(adoptedBy))))
		fail(bmc.Fault{})
		Expect(changesOf(replaced, single)).To(BeEmpty())
	}, NodeTimeout(storyLimit))

	It("keeps running when the password of its BMC changes, and its power follows the new one", func(ctx context.Context) {
		const password = "a-new-password"
		changed := time.Now()
		Expect(bed.lab.BMC().SetCredentials(single, bmcUser, password)).To(Succeed())
		w.changeSecret(ctx, single+"-bmc", func(credentials *corev1.Secret) {
			credentials.Data["password"] = []byte(password)
		})
		w.untilSingle(ctx, inState(bmov1alpha1.StateProvisioned), isWell(), isOn(), w.triedCredentials(ctx))
		Expect(changesOf(changed, single)).To(BeEmpty())

		for _, online := range []bool{false, true} {
			w.changeSingle(ctx, func(host *bmov1alpha1.BareMetalHost) { host.Spec.Online = online })
			w.untilSingle(ctx, inState(bmov1alpha1.StateProvisioned), isWell(), HaveField("Status.PoweredOn", online))
			Expect(bed.lab.Machine(single).Powered()).To(Equal(online))
		}
	}, NodeTimeout(storyLimit))

	It("is wiped once although BMO is killed meanwhile", func(ctx context.Context) {
		released := time.Now()
		w.changeSingle(ctx, func(host *bmov1alpha1.BareMetalHost) { host.Spec.Image = nil })
		w.untilSingle(ctx, inState(bmov1alpha1.StateDeprovisioning))
		killBMO(ctx)
		w.untilSingle(ctx, inState(bmov1alpha1.StateAvailable), isWell(), isOn())
		Expect(inserted(released, single)).To(Equal(1), "its agent boots once to clean it")
		Expect(bed.lab.Machine(single).Installed()).To(BeEmpty(), "the disk")
		available := time.Now()
		killBMO(ctx)
		w.untilReconciled(ctx)
		w.untilSingle(ctx, inState(bmov1alpha1.StateAvailable), isWell(), isOn())
		Expect(changesOf(available, single)).To(BeEmpty())
	}, NodeTimeout(storyLimit))

	It("gets other BIOS settings although BMO is killed while it prepares the host", func(ctx context.Context) {
		asked := time.Now()
		// BMO repeats the settings until it has read them, once a minute.
		setFirmware(ctx, w, single, bmov1alpha1.DesiredSettingsMap{
			"ProcVirtualization": intstr.FromString("Disabled"), "BootDelaySeconds": intstr.FromInt32(5),
		})
		w.untilSingle(ctx, inState(bmov1alpha1.StatePreparing))
		killBMO(ctx)
		Eventually(func() []bmc.Operation { return changesOf(asked, single) }, patiently()...).
			Should(ContainElement(HaveField("Resource", "pending bios")))
		killBMO(ctx)
		w.untilSingle(ctx, inState(bmov1alpha1.StateAvailable), isWell(), isOn())
		Expect(bed.lab.BMC().BIOS(single)).To(Equal(map[string]any{
			"ProcVirtualization": "Disabled", "BootDelaySeconds": 5.0,
		}))
		Eventually(func(g Gomega) {
			var settings bmov1alpha1.HostFirmwareSettings
			g.Expect(w.Get(ctx, named(single), &settings)).To(Succeed())
			g.Expect(settings.Status.Settings).To(Equal(bmov1alpha1.SettingsMap{
				"ProcVirtualization": "Disabled", "BootDelaySeconds": "5",
			}))
			g.Expect(isTrue(settings.Status.Conditions, string(bmov1alpha1.FirmwareSettingsChangeDetected))).To(BeFalse())
		}, patiently()...).Should(Succeed())
	}, NodeTimeout(storyLimit))

	It("is powered off and deleted although BMO is killed meanwhile", func(ctx context.Context) {
		holdFinalizer(ctx, single)
		// A slow BMC keeps the host in the state until BMO is killed.
		Expect(bed.lab.BMC().SetFault(single, bmc.Fault{Delay: 2 * time.Second})).To(Succeed())
		Expect(w.Delete(ctx, w.host(ctx, Default, single))).To(Succeed())
		w.untilSingle(ctx, inState(bmov1alpha1.StatePoweringOffBeforeDelete))
		killBMO(ctx)
		Expect(bed.lab.BMC().SetFault(single, bmc.Fault{})).To(Succeed())
		w.untilSingle(ctx, inState(bmov1alpha1.StateDeleting))
		killBMO(ctx)
		w.untilSingle(ctx, inState(bmov1alpha1.StateDeleting))
		stage.EndHold(ctx, bed.lab.Management().Client)
		w.dismiss(ctx, single)
		Expect(bed.lab.Machine(single).Powered()).To(BeFalse())
	}, NodeTimeout(storyLimit))

	It("changes only its power when it is externally provisioned", func(ctx context.Context) {
		Expect(bed.lab.AddHost(ctx, bed.lab.Management(), external, func(object client.Object) {
			if host, is := object.(*bmov1alpha1.BareMetalHost); is {
				host.Spec.ExternallyProvisioned = true
			}
		})).To(Succeed())
		added := time.Now()
		w.untilHost(ctx, external, inState(bmov1alpha1.StateExternallyProvisioned), isWell(), isOn())
		killBMO(ctx)
		w.changeHost(ctx, external, func(host *bmov1alpha1.BareMetalHost) { host.Spec.Online = false })
		w.untilHost(ctx, external, inState(bmov1alpha1.StateExternallyProvisioned), isWell(),
			HaveField("Status.PoweredOn", false))
		Expect(changesOf(added, external)).To(And(Not(BeEmpty()), HaveEach(HaveField("Resource",
			BeElementOf("reset", "boot", "eject")))))
	}, NodeTimeout(storyLimit))
})

// holdFinalizer keeps a host in the state deleting until stage.EndHold: BMO cannot remove its finalizer.
func holdFinalizer(ctx context.Context, name string) {
	GinkgoHelper()
	management := bed.lab.Management()
	DeferCleanup(stage.EndHold, management.Client)
	stage.Hold(ctx, management.Client, stage.Rejected{
		Operation: admissionv1.Update, Resource: bmov1alpha1.GroupVersion.WithResource("baremetalhosts"),
		Unless: "object.metadata.name != '" + name + "' || has(object.metadata.finalizers)",
	}, func() error {
		host := &bmov1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: lab.Namespace, Name: name}}
		remove := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		return management.Client.Patch(ctx, host, remove, client.DryRunAll)
	}, patiently()...)
}

// killBMO kills BMO with SIGKILL, and waits until its Deployment has restarted it.
func killBMO(ctx context.Context) {
	GinkgoHelper()
	management := bed.lab.Management()
	var before, after corev1.PodList
	Expect(management.Client.List(ctx, &before, client.InNamespace(lab.OperatorNamespace))).To(Succeed())
	Expect(before.Items).NotTo(BeEmpty())
	_, err := management.Kubectl(ctx, "delete", "pods", "--all", "--namespace", lab.OperatorNamespace,
		"--grace-period=0", "--force", "--wait=false")
	Expect(err).NotTo(HaveOccurred())
	Eventually(func(g Gomega) {
		g.Expect(management.Client.List(ctx, &after, client.InNamespace(lab.OperatorNamespace))).To(Succeed())
		g.Expect(after.Items).To(HaveLen(1))
		for _, killed := range before.Items {
			g.Expect(after.Items[0].UID).NotTo(Equal(killed.UID))
		}
		g.Expect(after.Items[0].Status.Conditions).To(ContainElement(And(HaveField("Type", corev1.PodReady),
			HaveField("Status", corev1.ConditionTrue))))
	}, patiently()...).Should(Succeed())
}

func (w *world) untilSingle(ctx context.Context, want ...types.GomegaMatcher) {
	GinkgoHelper()
	w.untilHost(ctx, single, want...)
}

func (w *world) untilHost(ctx context.Context, name string, want ...types.GomegaMatcher) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(w.host(ctx, g, name)).To(And(want...))
	}, patiently()[0], often).Should(Succeed())
}

func (w *world) changeSingle(ctx context.Context, change func(*bmov1alpha1.BareMetalHost)) {
	GinkgoHelper()
	w.changeHost(ctx, single, change)
}

// changeHost changes a host as a user does.
func (w *world) changeHost(ctx context.Context, name string, change func(*bmov1alpha1.BareMetalHost)) {
	GinkgoHelper()
	// The webhooks of a restarted BMO are reachable a moment after its pod is ready.
	Eventually(func(g Gomega) {
		host := w.host(ctx, g, name)
		before := host.DeepCopy()
		change(host)
		g.Expect(w.Patch(ctx, host, client.MergeFrom(before))).To(Succeed())
	}, patiently()...).Should(Succeed())
}

// setFirmware requests BIOS settings of a host, which BMO must have read before.
func setFirmware(ctx context.Context, at client.Client, name string, wanted bmov1alpha1.DesiredSettingsMap) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		settings := &bmov1alpha1.HostFirmwareSettings{}
		g.Expect(at.Get(ctx, named(name), settings)).To(Succeed())
		for attribute := range wanted {
			g.Expect(settings.Status.Settings).To(HaveKey(attribute))
		}
		before := settings.DeepCopy()
		settings.Spec.Settings = wanted
		g.Expect(at.Patch(ctx, settings, client.MergeFrom(before))).To(Succeed())
	}, patiently()...).Should(Succeed())
}

// triedCredentials matches a host whose current credentials BMO has used successfully.
func (w *world) triedCredentials(ctx context.Context) types.GomegaMatcher {
	GinkgoHelper()
	secret := &corev1.Secret{}
	Expect(w.Get(ctx, named(single+"-bmc"), secret)).To(Succeed())
	return HaveField("Status.GoodCredentials.Version", secret.ResourceVersion)
}

// changesOf returns the requests to change a machine since a time.
func changesOf(since time.Time, machine string) []bmc.Operation {
	return slices.DeleteFunc(changes(since), func(operation bmc.Operation) bool { return operation.Machine != machine })
}

// inserted returns how often a medium was inserted into a machine since a time.
func inserted(since time.Time, machine string) int {
	count := 0
	for _, operation := range changesOf(since, machine) {
		if operation.Resource == "insert" {
			count++
		}
	}
	return count
}

// dismiss deletes hosts in any state, and waits until they are deleted.
func (w *world) dismiss(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		host := &bmov1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: lab.Namespace, Name: name}}
		Expect(client.IgnoreNotFound(w.Delete(ctx, host))).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(apierrors.IsNotFound(w.Get(ctx, named(name), host))).To(BeTrue(), "host %s still exists", name)
		}, patiently()...).Should(Succeed())
		addresses := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: lab.Namespace, Name: name + "-network"}}
		Expect(client.IgnoreNotFound(w.Delete(ctx, addresses))).To(Succeed())
	}
}
