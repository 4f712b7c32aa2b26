package hostsim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Results of the inspection of every host.
const (
	inspectedCPUs      = 8
	inspectedMemoryMiB = 16384
	inspectedDiskBytes = 500 << 30
)

// Delays are the durations of each operation. Zero means none.
type Delays struct {
	Register    time.Duration
	Inspect     time.Duration
	Prepare     time.Duration
	Provision   time.Duration
	Deprovision time.Duration
	Power       time.Duration
}

// change changes a host at a time.
type change func(host *bmov1alpha1.BareMetalHost, now metav1.Time)

// step is the next step of a host. Either meta or status is set. Both are nil if there is none.
type step struct {
	// after is the delay since this became the next step.
	after time.Duration

	// meta changes finalizers or annotations.
	meta change

	// status changes the status.
	status change
}

func (s step) isIdle() bool { return s.meta == nil && s.status == nil }

// next returns the next step of a host, from observed facts only.
func next(host *bmov1alpha1.BareMetalHost, delays Delays) (step, error) {
	if _, paused := host.Annotations[bmov1alpha1.PausedAnnotation]; paused {
		return step{}, nil
	}
	if encoded, moved := host.Annotations[bmov1alpha1.StatusAnnotation]; moved {
		return restore(host, encoded)
	}
	deleting := !host.DeletionTimestamp.IsZero()
	if !deleting && !controllerutil.ContainsFinalizer(host, bmov1alpha1.BareMetalHostFinalizer) {
		return step{meta: func(host *bmov1alpha1.BareMetalHost, _ metav1.Time) {
			controllerutil.AddFinalizer(host, bmov1alpha1.BareMetalHostFinalizer)
		}}, nil
	}
	if deleting {
		return nextOfDeletion(host, delays), nil
	}
	if _, detached := host.Annotations[bmov1alpha1.DetachedAnnotation]; detached && isStable(host) {
		return setOperationalStatus(host, bmov1alpha1.OperationalStatusDetached), nil
	}
	if host.Status.OperationalStatus == bmov1alpha1.OperationalStatusDetached {
		// The annotation was removed.
		return setOperationalStatus(host, bmov1alpha1.OperationalStatusOK), nil
	}
	return nextOfState(host, delays), nil
}

// restore restores the status from the annotation that the provider wrote before a move. As in BMO, an existing status
// has precedence, and the annotation is removed.
func restore(host *bmov1alpha1.BareMetalHost, encoded string) (step, error) {
	if host.Status.LastUpdated.IsZero() {
		var status bmov1alpha1.BareMetalHostStatus
		if err := json.Unmarshal([]byte(encoded), &status); err != nil {
			return step{}, fmt.Errorf("parsing the annotation %s: %w", bmov1alpha1.StatusAnnotation, err)
		}
		return step{status: func(host *bmov1alpha1.BareMetalHost, _ metav1.Time) {
			// The annotation has no hardware details. BMO restores them from HardwareData.
			status.HardwareDetails = inspected(host)
			host.Status = status
		}}, nil
	}
	return step{meta: func(host *bmov1alpha1.BareMetalHost, _ metav1.Time) {
		delete(host.Annotations, bmov1alpha1.StatusAnnotation)
	}}, nil
}

func nextOfDeletion(host *bmov1alpha1.BareMetalHost, delays Delays) step {
	switch host.Status.Provisioning.State {
	case bmov1alpha1.StateProvisioning, bmov1alpha1.StateProvisioned:
		return enter(bmov1alpha1.StateDeprovisioning)
	case bmov1alpha1.StateDeprovisioning:
		return step{after: delays.Deprovision, status: func(host *bmov1alpha1.BareMetalHost, now metav1.Time) {
			finishDeprovisioning(host, now)
			host.Status.Provisioning.State = bmov1alpha1.StatePoweringOffBeforeDelete
		}}
	case bmov1alpha1.StateNone, bmov1alpha1.StateUnmanaged, bmov1alpha1.StateRegistering:
		return step{status: func(host *bmov1alpha1.BareMetalHost, _ metav1.Time) {
			host.Status.Provisioning.State = bmov1alpha1.StateDeleting
		}}
	case bmov1alpha1.StatePoweringOffBeforeDelete:
		return step{status: func(host *bmov1alpha1.BareMetalHost, _ metav1.Time) {
			host.Status.PoweredOn = false
			host.Status.Provisioning.State = bmov1alpha1.StateDeleting
		}}
	case bmov1alpha1.StateDeleting:
		if !controllerutil.ContainsFinalizer(host, bmov1alpha1.BareMetalHostFinalizer) {
			return step{}
		}
		return step{meta: func(host *bmov1alpha1.BareMetalHost, _ metav1.Time) {
			controllerutil.RemoveFinalizer(host, bmov1alpha1.BareMetalHostFinalizer)
		}}
	default:
		return step{status: func(host *bmov1alpha1.BareMetalHost, _ metav1.Time) {
			host.Status.Provisioning.State = bmov1alpha1.StatePoweringOffBeforeDelete
		}}
	}
}

func nextOfState(host *bmov1alpha1.BareMetalHost, delays Delays) step {
	failed := host.Status.OperationalStatus == bmov1alpha1.OperationalStatusError
	switch host.Status.Provisioning.State {
	case bmov1alpha1.StateProvisioning, bmov1alpha1.StateProvisioned:
		// A host with an error can be released.
		return nextOfImage(host, failed, delays)
	case bmov1alpha1.StateDeprovisioning:
		return step{after: delays.Deprovision, status: finishDeprovisioning}
	}
	if failed {
		return step{}
	}
	switch host.Status.Provisioning.State {
	case bmov1alpha1.StateNone, bmov1alpha1.StateUnmanaged:
		return nextOfNew(host)
	case bmov1alpha1.StateRegistering, bmov1alpha1.StateMatchProfile:
		return nextOfRegistration(host, delays)
	case bmov1alpha1.StateInspecting:
		return step{after: delays.Inspect, status: func(host *bmov1alpha1.BareMetalHost, now metav1.Time) {
			host.Status.HardwareDetails = inspected(host)
			finish(host, bmov1alpha1.StatePreparing, now)
		}}
	case bmov1alpha1.StatePreparing:
		return step{after: delays.Prepare, status: func(host *bmov1alpha1.BareMetalHost, now metav1.Time) {
			finish(host, bmov1alpha1.StateAvailable, now)
		}}
	case bmov1alpha1.StateAvailable, bmov1alpha1.StateReady:
		return nextOfAvailable(host, delays)
	case bmov1alpha1.StateExternallyProvisioned:
		if !host.Spec.ExternallyProvisioned {
			return enter(bmov1alpha1.StatePreparing)
		}
		return nextOfPower(host, delays)
	default:
		return step{}
	}
}

// nextOfNew registers a host with the address of a BMC.
func nextOfNew(host *bmov1alpha1.BareMetalHost) step {
	switch {
	case host.HasBMCDetails():
		return step{status: func(host *bmov1alpha1.BareMetalHost, now metav1.Time) {
			enterAt(host, bmov1alpha1.StateRegistering, now)
			host.Status.OperationalStatus = ""
		}}
	case host.Status.Provisioning.State == bmov1alpha1.StateUnmanaged:
		return step{}
	default:
		return step{status: func(host *bmov1alpha1.BareMetalHost, now metav1.Time) {
			enterAt(host, bmov1alpha1.StateUnmanaged, now)
			host.Status.OperationalStatus = bmov1alpha1.OperationalStatusDiscovered
		}}
	}
}

// nextOfRegistration first gives the host an operational status, in a separate write.
func nextOfRegistration(host *bmov1alpha1.BareMetalHost, delays Delays) step {
	if host.Status.OperationalStatus == "" {
		return setOperationalStatus(host, bmov1alpha1.OperationalStatusOK)
	}
	target := bmov1alpha1.StateInspecting
	switch {
	case host.Spec.ExternallyProvisioned:
		target = bmov1alpha1.StateExternallyProvisioned
	case host.InspectionDisabled():
		target = bmov1alpha1.StatePreparing
	}
	return step{after: delays.Register, status: func(host *bmov1alpha1.BareMetalHost, now metav1.Time) {
		host.Status.Provisioning.ID = string(host.UID)
		finish(host, target, now)
	}}
}

func nextOfAvailable(host *bmov1alpha1.BareMetalHost, delays Delays) step {
	switch {
	case host.Spec.ExternallyProvisioned:
		return enter(bmov1alpha1.StateExternallyProvisioned)
	case host.NeedsProvisioning():
		return enter(bmov1alpha1.StateProvisioning)
	default:
		return nextOfPower(host, delays)
	}
}

// nextOfImage returns the next step of a host with an image.
func nextOfImage(host *bmov1alpha1.BareMetalHost, failed bool, delays Delays) step {
	provisioning := host.Status.Provisioning.State == bmov1alpha1.StateProvisioning
	switch {
	case !isRequested(host), !provisioning && !isDeployed(host):
		return enter(bmov1alpha1.StateDeprovisioning)
	case failed:
		return step{}
	case provisioning:
		return step{after: delays.Provision, status: finishProvisioning}
	default:
		return nextOfPower(host, delays)
	}
}

// nextOfPower sets the power to spec.online, and to off while a reboot annotation is set.
func nextOfPower(host *bmov1alpha1.BareMetalHost, delays Delays) step {
	reboots := rebootAnnotations(host)
	_, once := host.Annotations[bmov1alpha1.RebootAnnotationPrefix]
	want := host.Spec.Online && len(reboots) == 0
	switch {
	case host.Status.PoweredOn != want:
		return step{after: delays.Power, status: func(host *bmov1alpha1.BareMetalHost, _ metav1.Time) {
			host.Status.PoweredOn = want
		}}
	case once && !host.Status.PoweredOn:
		// BMO removes a request without a name after powering off. The owner of a request with a name removes it.
		return step{meta: func(host *bmov1alpha1.BareMetalHost, _ metav1.Time) {
			delete(host.Annotations, bmov1alpha1.RebootAnnotationPrefix)
		}}
	default:
		return step{}
	}
}

func rebootAnnotations(host *bmov1alpha1.BareMetalHost) []string {
	return slices.DeleteFunc(slices.Collect(maps.Keys(host.Annotations)), func(key string) bool {
		return key != bmov1alpha1.RebootAnnotationPrefix && !strings.HasPrefix(key, bmov1alpha1.RebootAnnotationPrefix+"/")
	})
}

// isStable returns true if BMO works on no operation of the host.
func isStable(host *bmov1alpha1.BareMetalHost) bool {
	switch host.Status.Provisioning.State {
	case bmov1alpha1.StateAvailable, bmov1alpha1.StateReady, bmov1alpha1.StateProvisioned,
		bmov1alpha1.StateExternallyProvisioned:
		return true
	default:
		return false
	}
}

func isRequested(host *bmov1alpha1.BareMetalHost) bool {
	return (host.Spec.Image != nil && host.Spec.Image.URL != "") ||
		(host.Spec.CustomDeploy != nil && host.Spec.CustomDeploy.Method != "")
}

func isDeployed(host *bmov1alpha1.BareMetalHost) bool {
	if host.Spec.Image != nil && host.Spec.Image.URL != host.Status.Provisioning.Image.URL {
		return false
	}
	if host.Spec.CustomDeploy == nil {
		return true
	}
	deployed := host.Status.Provisioning.CustomDeploy
	return deployed != nil && deployed.Method == host.Spec.CustomDeploy.Method
}

// enter sets the state of a host, without the error of the previous state.
func enter(state bmov1alpha1.ProvisioningState) step {
	return step{status: func(host *bmov1alpha1.BareMetalHost, now metav1.Time) { enterAt(host, state, now) }}
}

func enterAt(host *bmov1alpha1.BareMetalHost, state bmov1alpha1.ProvisioningState, now metav1.Time) {
	host.Status.Provisioning.State = state
	host.Status.OperationalStatus = bmov1alpha1.OperationalStatusOK
	host.Status.ErrorType, host.Status.ErrorMessage, host.Status.ErrorCount = "", "", 0
	if metric := host.OperationMetricForState(state); metric != nil {
		*metric = bmov1alpha1.OperationMetric{Start: now}
	}
}

// finish ends the work of the current state and enters the next.
func finish(host *bmov1alpha1.BareMetalHost, to bmov1alpha1.ProvisioningState, now metav1.Time) {
	if metric := host.OperationMetricForState(host.Status.Provisioning.State); metric != nil {
		metric.End = now
	}
	enterAt(host, to, now)
}

// finishProvisioning keeps the power that was read last. BMO reads the power in its next reconcile of the host.
func finishProvisioning(host *bmov1alpha1.BareMetalHost, now metav1.Time) {
	if host.Spec.Image != nil {
		host.Status.Provisioning.Image = *host.Spec.Image
	}
	host.Status.Provisioning.CustomDeploy = host.Spec.CustomDeploy
	finish(host, bmov1alpha1.StateProvisioned, now)
}

// finishDeprovisioning keeps the power that was read last, although cleaning has powered the machine off.
func finishDeprovisioning(host *bmov1alpha1.BareMetalHost, now metav1.Time) {
	host.Status.Provisioning.Image = bmov1alpha1.Image{}
	host.Status.Provisioning.CustomDeploy = nil
	finish(host, bmov1alpha1.StateAvailable, now)
}

func setOperationalStatus(host *bmov1alpha1.BareMetalHost, status bmov1alpha1.OperationalStatus) step {
	if host.Status.OperationalStatus == status {
		return step{}
	}
	return step{status: func(host *bmov1alpha1.BareMetalHost, _ metav1.Time) { host.Status.OperationalStatus = status }}
}

func inspected(host *bmov1alpha1.BareMetalHost) *bmov1alpha1.HardwareDetails {
	if host.Status.HardwareDetails != nil {
		return host.Status.HardwareDetails
	}
	return &bmov1alpha1.HardwareDetails{
		CPU:          bmov1alpha1.CPU{Arch: "x86_64", Count: inspectedCPUs},
		RAMMebibytes: inspectedMemoryMiB,
		Hostname:     host.Name,
		NIC:          []bmov1alpha1.NIC{{Name: "eth0", MAC: host.Spec.BootMACAddress, PXE: true}},
		Storage:      []bmov1alpha1.Storage{{Name: "/dev/sda", SizeBytes: inspectedDiskBytes}},
	}
}
