package e2e_test

import (
	"context"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/bmc"
)

// Guests are hosts that no cluster uses, one of each kind that a move must not change. They exist for one move.
// Available hosts are among the hosts of the lab.
const (
	// late is being provisioned when the move begins.
	late = "late"
	// paused was paused by a user.
	paused = "paused"
	// errored runs a system, and the user name of its BMC was lost.
	errored = "errored"
	// locked never had the right password of its BMC, and BMO retries.
	locked = "locked"
	// detached runs a system, and was detached from Ironic.
	detached = "detached"
	// tuned is available with BIOS settings of a user.
	tuned = "tuned"
)

const (
	// maintenance is the pause of a user.
	maintenance = "maintenance"

	// userName is the key of the user name of a BMC in a Secret, and lostName a key that no controller reads.
	userName, lostName = "username", "lost-username"

	// marked is a label of a user, which objects that BMO creates do not have.
	marked = "user.example/marked"
)

func guests() []string { return []string{late, paused, errored, locked, detached, tuned} }

// chosenSettings are the BIOS settings of the guest tuned.
func chosenSettings() bmov1alpha1.DesiredSettingsMap {
	return bmov1alpha1.DesiredSettingsMap{"ProcVirtualization": intstr.FromString("Disabled")}
}

func named(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: lab.Namespace, Name: name}
}

// inviteGuests creates the machines and the hosts of all guests, and does not wait.
func (e *endpoint) inviteGuests(ctx context.Context) {
	GinkgoHelper()
	for _, name := range guests() {
		Expect(bed.lab.AddHost(ctx, bed.lab.Management(), name, func(object client.Object) {
			switch object := object.(type) {
			case *bmov1alpha1.BareMetalHost:
				object.Spec.ExternallyProvisioned = name == errored || name == detached
			case *corev1.Secret:
				if _, isBMC := object.Data[userName]; isBMC && name == locked {
					object.Data["password"] = []byte("wrong")
				}
			}
		})).To(Succeed())
	}
}

// seatGuests waits until all guests are registered, and changes each to its kind. Only late does not differ from
// other hosts.
func (e *endpoint) seatGuests(ctx context.Context) {
	GinkgoHelper()
	e.untilGuest(ctx, late, inState(bmov1alpha1.StateAvailable), isWell(), isOn())
	e.untilGuest(ctx, paused, inState(bmov1alpha1.StateAvailable), isWell(), isOn())
	e.untilGuest(ctx, errored, inState(bmov1alpha1.StateExternallyProvisioned), isWell(), isOn())
	e.untilGuest(ctx, detached, inState(bmov1alpha1.StateExternallyProvisioned), isWell(), isOn())
	e.changeGuest(ctx, paused, func(host *bmov1alpha1.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&host.ObjectMeta, bmov1alpha1.PausedAnnotation, maintenance)
	})
	e.changeGuest(ctx, detached, func(host *bmov1alpha1.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&host.ObjectMeta, bmov1alpha1.DetachedAnnotation, "")
	})
	e.renameCredential(ctx, userName, lostName)
	setFirmware(ctx, e.Client, tuned, chosenSettings())
	e.untilGuest(ctx, errored, hasFailed(bmov1alpha1.RegistrationError))
	e.untilGuest(ctx, locked, hasFailed(bmov1alpha1.RegistrationError), inState(bmov1alpha1.StateRegistering))
	e.untilGuest(ctx, detached, HaveField("Status.OperationalStatus", bmov1alpha1.OperationalStatusDetached))
	Eventually(func() map[string]any { return bed.lab.BMC().BIOS(tuned) }, patiently()...).
		Should(HaveKeyWithValue("ProcVirtualization", "Disabled"))
	e.untilGuest(ctx, tuned, inState(bmov1alpha1.StateAvailable), isWell(), isOn())
	for _, object := range dependents() {
		stage.Change(ctx, e.Client, named(tuned), object, func(object client.Object) {
			object.SetLabels(labels.Merge(object.GetLabels(), labels.Set{marked: ""}))
		})
	}
}

// provisionLate starts to provision a guest. The operation lasts until finish is called.
func (e *endpoint) provisionLate(ctx context.Context) (finish func()) {
	GinkgoHelper()
	finish, err := bed.lab.BMC().HoldImage(lab.NodeImage)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(finish)
	e.changeGuest(ctx, late, func(host *bmov1alpha1.BareMetalHost) {
		format := "raw"
		host.Spec.Image = &bmov1alpha1.Image{
			URL: bmc.ImageURL(lab.NodeImage), Checksum: bmc.ChecksumURL(lab.NodeImage),
			ChecksumType: bmov1alpha1.SHA256, DiskFormat: &format,
		}
	})
	e.untilGuest(ctx, late, inState(bmov1alpha1.StateProvisioning))
	return finish
}

// untilWaitingForLate waits until a move waits only for that guest: all hosts of the lab are paused.
func (e *endpoint) untilWaitingForLate(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var infra infrav1.Metal3Cluster
		g.Expect(e.Get(ctx, named(endpointCluster), &infra)).To(Succeed())
		g.Expect(infra.Status.Conditions).To(stage.HaveCondition(infrav1.ReadyForMoveCondition,
			stage.IsFalseBecause(infrav1.WaitingForHostsReason, "host late is provisioning")))
		g.Expect(e.hosts(ctx, g)).To(HaveEach(isPausedBy(infrav1.HostPausedByProvider)))
	}, patiently()...).Should(Succeed())
}

// expectGuestsKept waits until all guests have the same state in the other cluster. The host with the pause of a user
// is still paused, so its status is still in its annotation.
func (e *endpoint) expectGuestsKept(ctx context.Context) {
	GinkgoHelper()
	e.untilGuest(ctx, late, inState(bmov1alpha1.StateProvisioned), isWell(), isOn(), isNotPaused())
	e.untilGuest(ctx, paused, isPausedBy(maintenance), inState(bmov1alpha1.StateNone),
		HaveField("Annotations", HaveKey(bmov1alpha1.StatusAnnotation)))
	e.untilGuest(ctx, errored, inState(bmov1alpha1.StateExternallyProvisioned), isNotPaused(),
		hasFailed(bmov1alpha1.RegistrationError))
	e.untilGuest(ctx, locked, inState(bmov1alpha1.StateRegistering), isNotPaused(), hasFailed(bmov1alpha1.RegistrationError))
	e.untilGuest(ctx, detached, inState(bmov1alpha1.StateExternallyProvisioned), isNotPaused(),
		HaveField("Status.OperationalStatus", bmov1alpha1.OperationalStatusDetached))
	e.untilGuest(ctx, tuned, inState(bmov1alpha1.StateAvailable), isWell(), isOn(), isNotPaused())
	settings := &bmov1alpha1.HostFirmwareSettings{}
	Expect(e.Get(ctx, named(tuned), settings)).To(Succeed())
	Expect(settings.Spec.Settings).To(Equal(chosenSettings()))
	for _, object := range dependents() {
		Expect(e.Get(ctx, named(tuned), object)).To(Succeed())
		Expect(object.GetLabels()).To(HaveKeyWithValue(marked, ""), "%T was created anew", object)
	}
}

// dependents returns an empty object of each kind of which BMO creates one for each host.
func dependents() []client.Object {
	return []client.Object{
		&bmov1alpha1.HostFirmwareSettings{}, &bmov1alpha1.HostFirmwareComponents{}, &bmov1alpha1.HardwareData{},
	}
}

// thawGuests ends the changes of users on guests, which are then healthy. That changes no machine.
func (e *endpoint) thawGuests(ctx context.Context) {
	GinkgoHelper()
	for name, annotation := range map[string]string{
		paused: bmov1alpha1.PausedAnnotation, detached: bmov1alpha1.DetachedAnnotation,
	} {
		e.changeGuest(ctx, name, func(host *bmov1alpha1.BareMetalHost) { delete(host.Annotations, annotation) })
	}
	e.renameCredential(ctx, lostName, userName)
	e.untilGuest(ctx, paused, inState(bmov1alpha1.StateAvailable), isWell(), isOn(),
		HaveField("Annotations", Not(HaveKey(bmov1alpha1.StatusAnnotation))))
	e.untilGuest(ctx, errored, inState(bmov1alpha1.StateExternallyProvisioned), isWell(), isOn())
	e.untilGuest(ctx, detached, inState(bmov1alpha1.StateExternallyProvisioned), isWell(), isOn())
}

// dismissGuests deletes all existing guests in any state, and waits until they are deleted.
func (e *endpoint) dismissGuests(ctx context.Context) {
	GinkgoHelper()
	credentials := &corev1.Secret{}
	Expect(client.IgnoreNotFound(e.Get(ctx, named(errored+"-bmc"), credentials))).To(Succeed())
	if _, isLost := credentials.Data[lostName]; isLost {
		e.renameCredential(ctx, lostName, userName)
	}
	for _, name := range guests() {
		host := &bmov1alpha1.BareMetalHost{}
		host.Namespace, host.Name = lab.Namespace, name
		free := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":null}}`))
		Expect(client.IgnoreNotFound(e.Patch(ctx, host, free))).To(Succeed())
		Expect(client.IgnoreNotFound(e.Delete(ctx, host))).To(Succeed())
	}
	Eventually(func(g Gomega) {
		for _, name := range guests() {
			g.Expect(apierrors.IsNotFound(e.Get(ctx, named(name), &bmov1alpha1.BareMetalHost{}))).To(BeTrue(), name)
		}
	}, patiently()...).Should(Succeed())
	for _, name := range guests() {
		addresses := &corev1.Secret{}
		addresses.Namespace, addresses.Name = lab.Namespace, name+"-network"
		Expect(client.IgnoreNotFound(e.Delete(ctx, addresses))).To(Succeed())
	}
}

// changeGuest changes a guest as a user does.
func (e *endpoint) changeGuest(ctx context.Context, name string, change func(*bmov1alpha1.BareMetalHost)) {
	GinkgoHelper()
	stage.Change(ctx, e.Client, named(name), &bmov1alpha1.BareMetalHost{}, change)
}

// renameCredential renames one key of the Secret of the guest that lost its user name, so that a story can restore it
// wherever the Secret is.
func (e *endpoint) renameCredential(ctx context.Context, from, to string) {
	GinkgoHelper()
	stage.Change(ctx, e.Client, named(errored+"-bmc"), &corev1.Secret{}, func(secret *corev1.Secret) {
		secret.Data[to] = secret.Data[from]
		delete(secret.Data, from)
	})
}

// untilGuest waits until a guest matches.
func (e *endpoint) untilGuest(ctx context.Context, name string, want ...types.GomegaMatcher) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		host := &bmov1alpha1.BareMetalHost{}
		g.Expect(e.Get(ctx, named(name), host)).To(Succeed())
		g.Expect(host).To(And(want...))
	}, patiently()...).Should(Succeed(), "host %s", name)
}

func isGuest(host bmov1alpha1.BareMetalHost) bool { return slices.Contains(guests(), host.Name) }

func inState(state bmov1alpha1.ProvisioningState) types.GomegaMatcher {
	return HaveField("Status.Provisioning.State", state)
}

func isWell() types.GomegaMatcher {
	return And(HaveField("Status.OperationalStatus", bmov1alpha1.OperationalStatusOK),
		HaveField("Status.ErrorType", BeEmpty()))
}

func isOn() types.GomegaMatcher { return HaveField("Status.PoweredOn", true) }

func hasFailed(kind bmov1alpha1.ErrorType) types.GomegaMatcher {
	return And(HaveField("Status.OperationalStatus", bmov1alpha1.OperationalStatusError),
		HaveField("Status.ErrorType", kind))
}

func isPausedBy(value string) types.GomegaMatcher {
	return HaveField("Annotations", HaveKeyWithValue(bmov1alpha1.PausedAnnotation, value))
}

func isNotPaused() types.GomegaMatcher {
	return HaveField("Annotations", Not(HaveKey(bmov1alpha1.PausedAnnotation)))
}
