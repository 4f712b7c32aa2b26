package host

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// Release describes the release of a host by its machine.
type Release struct {
	// Machine is the name of the Metal3Machine, Namespace the namespace of the machine and its host.
	Machine, Namespace string

	// CleaningMode is the automatedCleaningMode of the machine. Empty keeps the mode of the host.
	CleaningMode string

	// FastTrack leaves hosts powered on between cleaning and the next deployment.
	FastTrack bool

	// Reserve reserves the host for the next machine of this owner: "cp-<control plane>" or "md-<MachineDeployment>".
	// Empty means that any machine may claim it.
	Reserve string

	// Secrets are the names of the Secrets that the machine may have set on the host. PlanRelease uses them only for a
	// host without a record of its claim, such as a host that CAPM3 claimed.
	Secrets []string

	// Cluster becomes the consumer of a reserved host. Ignored if Reserve is empty.
	Cluster string

	// Held is the reason why the host must stay paused, with the remedy. Empty means that the release may end a pause by
	// the provider.
	Held string
}

// ReleaseStep is the next step of a release.
type ReleaseStep struct {
	// Write is the host to write. Nil means no write.
	Write *bmov1alpha1.BareMetalHost

	// Outcome is done once Write is stored and the host has no consumer.
	Outcome outcome.Outcome
}

// PlanRelease returns the next step of the release of a host. The caller must call it after every change of the host.
//
//	host                                        step
//	does not exist, or has another consumer     done
//	is held                                     wait, without a write
//	has fields that the machine set             remove them, set cleaning mode and power, then wait
//	not settled yet                             wait, and report the error of the host
//	settled                                     remove the consumerRef: done. Restore the recorded values, or keep
//	                                            them for the sweep if the host is not deprovisioned
//
// The host gets the automatedCleaningMode of the machine together with the removal of the image or deploy step: the
// mode may have changed while the machine was not reconciled. Later steps keep the mode of the host, so that a user can
// disable a cleaning that fails.
//
// While BMO deprovisions the host, spec.online is:
//
//	disablePowerOff   fast track   cleaned   online
//	yes               any          any       true
//	no                yes          yes       true
//	no                yes          no        false
//	no                no           any       false
//
// The last step restores spec.online, with two exceptions. A host with disablePowerOff stays on. A host that was not
// cleaned stays off: the old system is still on its disk and would join as a Node again. No step changes the power of a
// host that got no image, see keepsPower.
func PlanRelease(host *bmov1alpha1.BareMetalHost, release Release) ReleaseStep {
	if host == nil || !ConsumedBy(host, release.Namespace, release.Machine) {
		return ReleaseStep{}
	}
	if release.Held != "" {
		return ReleaseStep{Outcome: outcome.Waiting(infrav1.HostHeldReason, release.Held)}
	}
	deprovisioning := deprovisioning(host, release)
	if !sameProvision(host, deprovisioning) {
		return ReleaseStep{Write: deprovisioning, Outcome: waitForDeprovisioning(deprovisioning)}
	}
	if !settled(host) {
		return ReleaseStep{Outcome: waitForDeprovisioning(host)}
	}
	return ReleaseStep{Write: released(host, release)}
}

func deprovisioning(host *bmov1alpha1.BareMetalHost, release Release) *bmov1alpha1.BareMetalHost {
	desired := host.DeepCopy()
	before, known := originalOf(host)
	if known {
		restoreData(desired, before)
	} else {
		removeData(desired, release)
	}
	if IsImaged(host) {
		setCleaningMode(desired, release.CleaningMode)
	}
	desired.Spec.Image = nil
	desired.Spec.CustomDeploy = nil
	if !known || !keepsPower(host, before, release.FastTrack) {
		desired.Spec.Online = onlineWhileDeprovisioning(desired, release.FastTrack)
	}
	if pausedByProvider(desired) {
		// BMO ignores a paused host, so the release would wait forever.
		delete(desired.Annotations, bmov1alpha1.PausedAnnotation)
	}
	return desired
}

// keepsPower returns true for an available host without an image that still has the recorded power. It returns false
// with fast track for a host that is not cleaned: the host may be on because a user disabled its cleaning during the
// release.
func keepsPower(host *bmov1alpha1.BareMetalHost, before original, fastTrack bool) bool {
	return !IsImaged(host) && host.Spec.Online == before.Online && available(Candidate{Host: host}, Wanted{}) == "" &&
		(!fastTrack || cleaned(host))
}

func onlineWhileDeprovisioning(host *bmov1alpha1.BareMetalHost, fastTrack bool) bool {
	if host.Spec.DisablePowerOff {
		return true
	}
	return fastTrack && cleaned(host)
}

// cleaned returns true if BMO wipes the host after the removal of its image.
func cleaned(host *bmov1alpha1.BareMetalHost) bool {
	return host.Spec.AutomatedCleaningMode != bmov1alpha1.CleaningModeDisabled &&
		host.Status.Provisioning.State != bmov1alpha1.StateExternallyProvisioned
}

func sameProvision(a, b *bmov1alpha1.BareMetalHost) bool {
	return !IsImaged(a) &&
		a.Spec.Online == b.Spec.Online &&
		pausedByProvider(a) == pausedByProvider(b) &&
		sameReference(a.Spec.UserData, b.Spec.UserData) &&
		sameReference(a.Spec.MetaData, b.Spec.MetaData) &&
		sameReference(a.Spec.NetworkData, b.Spec.NetworkData)
}

func sameReference(a, b *corev1.SecretReference) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// settled returns true if BMO has deprovisioned the host, and for a host that is deprovisioned with the annotation
// move-while-busy: a move would wait for its machine, and no machine claims the host before it is available. It returns
// false for unknown states, so that no machine claims a host that is still in use. A moved host is not settled until
// BMO has restored its status: its Node may still run, with the addresses that the Metal3Machine releases.
func settled(host *bmov1alpha1.BareMetalHost) bool {
	switch host.Status.Provisioning.State {
	case bmov1alpha1.StateNone:
		_, arrived := host.Annotations[bmov1alpha1.StatusAnnotation]
		return !arrived
	case bmov1alpha1.StateUnmanaged, bmov1alpha1.StateRegistering, bmov1alpha1.StateMatchProfile,
		bmov1alpha1.StateInspecting, bmov1alpha1.StateReady, bmov1alpha1.StateAvailable:
		return true
	case bmov1alpha1.StateDeprovisioning:
		_, moves := host.Annotations[infrav1.MoveWhileBusyAnnotation]
		return moves
	case bmov1alpha1.StateExternallyProvisioned:
		return !host.Status.PoweredOn || host.Spec.DisablePowerOff
	default:
		return false
	}
}

// deprovisioned returns true for a settled host on which BMO no longer acts by its cleaning mode. BMO also applies a
// change of the mode and of the power while it deprovisions, registers or inspects a host: the disk of the released
// machine could be wiped or kept against its mode, and its system started again.
func deprovisioned(host *bmov1alpha1.BareMetalHost) bool {
	switch host.Status.Provisioning.State {
	case bmov1alpha1.StateRegistering, bmov1alpha1.StateMatchProfile, bmov1alpha1.StateInspecting,
		bmov1alpha1.StateDeprovisioning:
		return false
	case bmov1alpha1.StateNone:
		// BMO will register a host that lost its status.
		return settled(host) && !slices.Contains(host.Finalizers, bmov1alpha1.BareMetalHostFinalizer)
	default:
		return settled(host)
	}
}

func waitForDeprovisioning(host *bmov1alpha1.BareMetalHost) outcome.Outcome {
	if problem := Problem(host); problem != "" {
		if host.Status.ErrorMessage != "" && host.DeletionTimestamp.IsZero() {
			problem += fmt.Sprintf(". If the hardware is gone, delete BareMetalHost %s: its disks are then not wiped", host.Name)
		}
		return outcome.Waiting(infrav1.HostErrorReason, problem)
	}
	return outcome.Waiting(infrav1.HostDeprovisioningReason,
		fmt.Sprintf("Waiting for BareMetalHost %s to be deprovisioned (state: %s)", host.Name, stateName(host)))
}

func released(host *bmov1alpha1.BareMetalHost, release Release) *bmov1alpha1.BareMetalHost {
	before, known := originalOf(host)
	desired := withoutClaimMetadata(host)
	if content, exists := host.Annotations[infrav1.ReleaseAnnotation]; exists &&
		(release.Reserve != "" || !deprovisioned(host)) {
		metav1.SetMetaDataAnnotation(&desired.ObjectMeta, infrav1.ReleaseAnnotation, content)
	}
	if release.Reserve != "" {
		metav1.SetMetaDataLabel(&desired.ObjectMeta, infrav1.NodeReuseLabel, release.Reserve)
		desired.Spec.ConsumerRef = &corev1.ObjectReference{
			APIVersion: clusterv1.GroupVersion.String(),
			Kind:       clusterv1.ClusterKind,
			Namespace:  release.Namespace,
			Name:       release.Cluster,
		}
		return desired
	}
	desired.Spec.ConsumerRef = nil
	if known && deprovisioned(host) {
		restore(desired, before)
	}
	return desired
}

// restore restores the recorded values. It leaves a host off that was not cleaned.
func restore(host *bmov1alpha1.BareMetalHost, before original) {
	if cleaned(host) && !host.Spec.DisablePowerOff {
		host.Spec.Online = before.Online
	}
	host.Spec.AutomatedCleaningMode = ptr.Deref(before.CleaningMode, host.Spec.AutomatedCleaningMode)
	if before.ClusterLabel != "" {
		metav1.SetMetaDataLabel(&host.ObjectMeta, clusterv1.ClusterNameLabel, before.ClusterLabel)
	}
	restoreData(host, before)
}

func restoreData(host *bmov1alpha1.BareMetalHost, before original) {
	host.Spec.UserData = before.UserData
	host.Spec.MetaData = before.MetaData
	host.Spec.NetworkData = before.NetworkData
}

// removeData removes the Secrets that the machine set on a host without a record of its claim.
//
//	Secret                  host                          set by
//	user data               has an image or deploy step   the machine: CAPM3 sets it with the image
//	in release.Secrets      any                           the machine
//	any other               any                           the administrator of the host: removeData keeps it
func removeData(host *bmov1alpha1.BareMetalHost, release Release) {
	ofMachine := func(reference *corev1.SecretReference) bool {
		return reference != nil && slices.Contains(release.Secrets, reference.Name) &&
			(reference.Namespace == "" || reference.Namespace == host.Namespace)
	}
	spec := &host.Spec
	if spec.Image != nil || spec.CustomDeploy != nil || ofMachine(spec.UserData) {
		spec.UserData = nil
	}
	if ofMachine(spec.MetaData) {
		spec.MetaData = nil
	}
	if ofMachine(spec.NetworkData) {
		spec.NetworkData = nil
	}
}

// withoutClaimMetadata returns the host without the labels, annotations and ownerReferences that this provider or CAPM3
// sets on a claimed host.
func withoutClaimMetadata(host *bmov1alpha1.BareMetalHost) *bmov1alpha1.BareMetalHost {
	clean := host.DeepCopy()
	delete(clean.Labels, clusterv1.ClusterNameLabel)
	delete(clean.Labels, infrav1.NodeReuseLabel)
	delete(clean.Annotations, infrav1.ReleaseAnnotation)
	delete(clean.Annotations, infrav1.BlockMoveAnnotation)
	if pausedByProvider(clean) {
		delete(clean.Annotations, bmov1alpha1.PausedAnnotation)
	}
	maps.DeleteFunc(clean.Annotations, func(key, _ string) bool {
		return strings.HasPrefix(key, infrav1.RemediationRebootPrefix)
	})
	clean.OwnerReferences = withoutMachineOwners(clean.OwnerReferences)
	return clean
}

// pausedByProvider returns true if this provider or CAPM3 has paused the host.
func pausedByProvider(host *bmov1alpha1.BareMetalHost) bool {
	return host.Annotations[bmov1alpha1.PausedAnnotation] == infrav1.HostPausedByProvider
}
