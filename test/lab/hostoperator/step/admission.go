package step

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// respectPause comes before everything else: a host that is being moved must not be touched, not even if it is deleted.
func (d *decision) respectPause() *Step {
	if _, paused := d.host.Annotations[bmov1alpha1.PausedAnnotation]; !paused {
		return nil
	}
	return d.rest("the host is paused", Never)
}

func (d *decision) releaseHardware() *Step {
	if !d.isDeleting() || d.seen.Hardware == nil ||
		!controllerutil.ContainsFinalizer(d.seen.Hardware, HardwareFinalizer) {
		return nil
	}
	return d.do(ReleaseHardware)
}

// restoreStatus takes over the status that somebody wrote into an annotation before a move. A status that exists wins.
// An annotation that cannot be read counts as none, and is dropped with the others.
func (d *decision) restoreStatus() *Step {
	encoded := d.host.Annotations[bmov1alpha1.StatusAnnotation]
	if !d.host.Status.LastUpdated.IsZero() || encoded == "" {
		return nil
	}
	var status bmov1alpha1.BareMetalHostStatus
	if err := json.Unmarshal([]byte(encoded), &status); err != nil {
		return nil
	}
	if found := d.recordedHardware(); found != nil {
		status.HardwareDetails = found
	}
	if status.LastUpdated.IsZero() {
		// Without a time the status would be taken for none and be restored for ever.
		status.LastUpdated = &d.seen.Now
	}
	d.host.Status = status
	return d.changed("restoring the status from its annotation")
}

func (d *decision) dropStatusAnnotation() *Step {
	if _, found := d.host.Annotations[bmov1alpha1.StatusAnnotation]; !found {
		return nil
	}
	delete(d.host.Annotations, bmov1alpha1.StatusAnnotation)
	return d.changed("dropping the annotation with the status")
}

// refillHardware brings back what is known of the hardware where an inspection will not find it: from the HardwareData,
// else from an annotation of the user. The annotation goes either way.
func (d *decision) refillHardware() *Step {
	encoded, annotated := d.host.Annotations[bmov1alpha1.HardwareDetailsAnnotation]
	if d.host.Status.HardwareDetails == nil || d.host.InspectionDisabled() {
		found := d.recordedHardware()
		if found == nil && encoded != "" {
			found = &bmov1alpha1.HardwareDetails{}
			decoder := json.NewDecoder(strings.NewReader(encoded))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(found); err != nil {
				return d.rest(fmt.Sprintf("correct or remove the annotation %s: %v",
					bmov1alpha1.HardwareDetailsAnnotation, err), Never)
			}
		}
		if found != nil && !equality.Semantic.DeepEqual(found, d.host.Status.HardwareDetails) {
			d.host.Status.HardwareDetails = found
			return d.changed("taking over the hardware that is known")
		}
	}
	if !annotated {
		return nil
	}
	delete(d.host.Annotations, bmov1alpha1.HardwareDetailsAnnotation)
	return d.changed("dropping the annotation with the hardware")
}

func (d *decision) recordedHardware() *bmov1alpha1.HardwareDetails {
	if d.seen.Hardware == nil {
		return nil
	}
	return d.seen.Hardware.Spec.HardwareDetails.DeepCopy()
}

func (d *decision) addFinalizer() *Step {
	if controllerutil.ContainsFinalizer(d.host, bmov1alpha1.BareMetalHostFinalizer) {
		return nil
	}
	if d.isDeleting() {
		return d.rest("the host goes as soon as others let it", Never)
	}
	controllerutil.AddFinalizer(d.host, bmov1alpha1.BareMetalHostFinalizer)
	return d.changed("adding the finalizer")
}

// begin handles the states in which nobody has told Ironic of the host.
func (d *decision) begin() *Step {
	switch state := d.state(); {
	case state != bmov1alpha1.StateNone && state != bmov1alpha1.StateUnmanaged:
		return nil
	case d.isDeleting():
		return d.enter(bmov1alpha1.StateDeleting)
	case d.host.HasBMCDetails():
		d.clearError()
		return d.enter(bmov1alpha1.StateRegistering)
	case state == bmov1alpha1.StateNone:
		d.host.Status.OperationalStatus = bmov1alpha1.OperationalStatusDiscovered
		return d.enter(bmov1alpha1.StateUnmanaged)
	default:
		return d.rest("the host names no management controller", Never)
	}
}

// checkCredentials makes the Secret the host's, so that its changes wake the operator, and reports what is wrong with
// the credentials. Whoever deletes a host may have deleted its Secret already; then it goes on without.
func (d *decision) checkCredentials() *Step {
	secret := d.seen.Secret
	if secret != nil && !IsClaimed(secret, d.host) && secret.DeletionTimestamp.IsZero() &&
		d.state() != bmov1alpha1.StateDeleting {
		return d.do(ClaimSecret)
	}
	_, problem := d.credentials()
	switch {
	case problem == "" || d.isDeleting():
		return nil
	case secret == nil && d.host.Spec.BMC.CredentialsName != "":
		// No event tells of a Secret that nobody owns yet.
		step := d.reject(problem)
		step.After = d.rules.Retry
		return step
	default:
		return d.reject(problem)
	}
}

// IsClaimed says whether a Secret carries everything that the Secret of a host's management controller carries.
func IsClaimed(secret *corev1.Secret, host *bmov1alpha1.BareMetalHost) bool {
	return metav1.HasLabel(secret.ObjectMeta, SecretLabel) &&
		controllerutil.ContainsFinalizer(secret, SecretFinalizer) &&
		slices.ContainsFunc(secret.OwnerReferences, func(owner metav1.OwnerReference) bool {
			return owner.UID == host.UID
		})
}

// access is how to reach a management controller.
type access struct{ username, password string }

// credentials returns how to reach the management controller, or what keeps from it in words for the user.
func (d *decision) credentials() (access, string) {
	host, secret := d.seen.Host, d.seen.Secret
	name := host.Spec.BMC.CredentialsName
	switch {
	case name == "":
		return access{}, "name the Secret with the BMC credentials in spec.bmc.credentialsName"
	case secret == nil:
		return access{}, fmt.Sprintf("the BMC Secret %s/%s does not exist: create it", host.Namespace, name)
	case host.Spec.BMC.Address == "":
		return access{}, "set the address of the BMC in spec.bmc.address"
	}
	// People encode files that end with a new line.
	found := access{
		username: strings.TrimSpace(string(secret.Data["username"])),
		password: strings.TrimSpace(string(secret.Data["password"])),
	}
	if found.username == "" || found.password == "" {
		return access{}, fmt.Sprintf("the BMC Secret %s/%s needs the keys username and password, and values for both",
			host.Namespace, name)
	}
	return found, ""
}
