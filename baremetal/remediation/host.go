package remediation

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// hardMode makes BMO power the host off without the operating system, which does not respond.
const hardMode = `{"mode":"hard"}`

// longestKey is the longest name in the key of an annotation.
const longestKey = 63

// PowerOffKey returns the annotation by which a remediation keeps a host powered off. It contains the name of the
// remediation, which a move keeps, or a hash at the end of a name that is too long.
func PowerOffKey(name string) string {
	group, prefix, _ := strings.Cut(infrav1.RemediationRebootPrefix, "/")
	key := prefix + name
	if len(key) > longestKey {
		const digits = 8
		sum := sha256.Sum256([]byte(name))
		key = key[:longestKey-digits-1] + "-" + hex.EncodeToString(sum[:])[:digits]
	}
	return group + "/" + key
}

// HasPowerOffRequest returns true for a host that a remediation keeps powered off. CAPM3 writes the UID of the
// Metal3Remediation to the annotation, which a move changes, so every such annotation counts.
func HasPowerOffRequest(host *bmov1alpha1.BareMetalHost) bool {
	for key := range host.Annotations {
		if strings.HasPrefix(key, infrav1.RemediationRebootPrefix) {
			return true
		}
	}
	return false
}

// RanBefore returns true for a host that was provisioned before a time. BMO ignores a request to reboot a host in
// another state, or removes it. A host that was provisioned later boots its system for the first time.
func RanBefore(host *bmov1alpha1.BareMetalHost, at *metav1.Time) bool {
	switch host.Status.Provisioning.State {
	case bmov1alpha1.StateExternallyProvisioned:
		return true
	case bmov1alpha1.StateProvisioned:
		return !at.Before(&host.Status.OperationHistory.Provision.End)
	default:
		return false
	}
}

// PowerOff returns the host with the request to power it off and keep it off.
func PowerOff(host *bmov1alpha1.BareMetalHost, name string) *bmov1alpha1.BareMetalHost {
	return annotated(host, PowerOffKey(name), hardMode)
}

// PowerOn returns the host without any request of a remediation to keep it powered off.
func PowerOn(host *bmov1alpha1.BareMetalHost) *bmov1alpha1.BareMetalHost {
	desired := host.DeepCopy()
	maps.DeleteFunc(desired.Annotations, func(key, _ string) bool {
		return strings.HasPrefix(key, infrav1.RemediationRebootPrefix)
	})
	return desired
}

// WithoutOrphans returns the host without requests to keep it powered off whose remediation does not exist, and whether
// there were any. It takes all remediations of the namespace, and the Machine on the host. Empty means none.
//
//	request                                                  result
//	with the name, or as by CAPM3 the UID, of a remediation  stays
//	with another one, the Machine on the host has a          stays: a move changed the UID, and the remediation removes
//	remediation                                              the request
//	any other                                                is removed: no other controller would power the host on
//
// A host that a move is deleting is not changed.
func WithoutOrphans(
	host *bmov1alpha1.BareMetalHost, remediations []infrav1.Metal3Remediation, machine string,
) (*bmov1alpha1.BareMetalHost, bool) {
	if infrav1.IsLeaving(host) {
		return host, false
	}
	existing := map[string]bool{}
	for i := range remediations {
		request := &remediations[i]
		if machine != "" && MachineOf(request) == machine {
			return host, false
		}
		existing[PowerOffKey(request.Name)], existing[infrav1.RemediationRebootPrefix+string(request.UID)] = true, true
	}
	clean := host.DeepCopy()
	maps.DeleteFunc(clean.Annotations, func(key, _ string) bool {
		return strings.HasPrefix(key, infrav1.RemediationRebootPrefix) && !existing[key]
	})
	return clean, len(clean.Annotations) != len(host.Annotations)
}

// MachineOf returns the name of the Machine that owns a Metal3Remediation or a Metal3Machine. Empty means none.
func MachineOf(object metav1.Object) string {
	for _, owner := range object.GetOwnerReferences() {
		if owner.Kind == "Machine" && strings.HasPrefix(owner.APIVersion, clusterv1.GroupVersion.Group+"/") {
			return owner.Name
		}
	}
	return ""
}

// Restart returns the host with the request to restart it once. BMO removes the request. It is for a host with
// spec.disablePowerOff: BMO restarts such a host instead of powering it off, and again as long as a request to keep it
// off exists.
func Restart(host *bmov1alpha1.BareMetalHost) *bmov1alpha1.BareMetalHost {
	return annotated(host, bmov1alpha1.RebootAnnotationPrefix, hardMode)
}

// Restarting returns true for a host that BMO has not restarted yet.
func Restarting(host *bmov1alpha1.BareMetalHost) bool {
	_, requested := host.Annotations[bmov1alpha1.RebootAnnotationPrefix]
	return requested
}

// Unhealthy returns the host with the annotation of unhealthy hosts, so that no Machine claims it.
func Unhealthy(host *bmov1alpha1.BareMetalHost) *bmov1alpha1.BareMetalHost {
	return annotated(host, infrav1.UnhealthyAnnotation, infrav1.UnhealthyNode)
}

// Healthy returns the host without the annotation of Unhealthy. It keeps another value of the annotation.
func Healthy(host *bmov1alpha1.BareMetalHost) *bmov1alpha1.BareMetalHost {
	desired := host.DeepCopy()
	if desired.Annotations[infrav1.UnhealthyAnnotation] == infrav1.UnhealthyNode {
		delete(desired.Annotations, infrav1.UnhealthyAnnotation)
	}
	return desired
}

func annotated(host *bmov1alpha1.BareMetalHost, key, value string) *bmov1alpha1.BareMetalHost {
	desired := host.DeepCopy()
	metav1.SetMetaDataAnnotation(&desired.ObjectMeta, key, value)
	return desired
}
