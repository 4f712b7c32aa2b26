package host

import (
	"fmt"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// deleted is the message for a claimed host that is being deleted.
const deleted = "is being deleted: delete the Machine to replace it"

// Progress returns the outcome of provisioning for a claimed host.
func Progress(host *bmov1alpha1.BareMetalHost) outcome.Outcome {
	state := host.Status.Provisioning.State
	if state == bmov1alpha1.StateProvisioned || state == bmov1alpha1.StateExternallyProvisioned {
		return outcome.Done()
	}
	problem := Problem(host)
	if problem == "" && state == bmov1alpha1.StateAvailable && !host.Spec.Online && IsImaged(host) {
		problem = fmt.Sprintf("spec.online of BareMetalHost %s is false, so it is not provisioned: set it to true", host.Name)
	}
	if !host.DeletionTimestamp.IsZero() {
		problem = fmt.Sprintf("BareMetalHost %s %s", host.Name, deleted)
	}
	if problem != "" {
		return outcome.Waiting(infrav1.HostErrorReason, problem)
	}
	return outcome.Waiting(infrav1.HostProvisioningReason,
		fmt.Sprintf("Waiting for BareMetalHost %s to be provisioned (state: %s)", host.Name, stateName(host)))
}

// Running returns the message for a provisioned host, and whether BMO or the API reports a problem. The system on the
// host may run despite the problem.
func Running(host *bmov1alpha1.BareMetalHost) (message string, troubled bool) {
	message = fmt.Sprintf("BareMetalHost %s is provisioned", host.Name)
	if !host.DeletionTimestamp.IsZero() {
		return message + "; it " + deleted, true
	}
	if trouble := trouble(host); trouble != "" {
		return message + "; it " + trouble, true
	}
	return message, false
}

// Arrived returns true for a host that a move created and that BMO has not reconciled yet. Its status is in an
// annotation.
func Arrived(host *bmov1alpha1.BareMetalHost) bool {
	return host.Status.LastUpdated.IsZero() && host.Status.Provisioning.State == bmov1alpha1.StateNone &&
		host.Annotations[bmov1alpha1.StatusAnnotation] != ""
}

// Problem returns the error of the host, or the reason why BMO does not reconcile it. Empty means no known problem.
func Problem(host *bmov1alpha1.BareMetalHost) string {
	if trouble := trouble(host); trouble != "" {
		return fmt.Sprintf("BareMetalHost %s %s", host.Name, trouble)
	}
	return ""
}

// DeletionProblem returns why BMO does not end the deletion of the host, like Problem. BMO ignores the deletion of a
// paused host, so the pause comes before an error, and the pause of the provider counts too.
func DeletionProblem(host *bmov1alpha1.BareMetalHost) string {
	switch withheld := Withheld(host); {
	case withheld != "":
		return fmt.Sprintf("BareMetalHost %s %s", host.Name, withheld)
	case pausedByProvider(host):
		return fmt.Sprintf("BareMetalHost %s is paused: see its annotation %s", host.Name, infrav1.PauseReasonAnnotation)
	default:
		return Problem(host)
	}
}

// trouble returns the predicate of Problem.
func trouble(host *bmov1alpha1.BareMetalHost) string {
	if message := host.Status.ErrorMessage; message != "" {
		kind := "error"
		if host.Status.ErrorType != "" {
			kind = string(host.Status.ErrorType)
		}
		return fmt.Sprintf("reports %s: %s", kind, oneLine(message))
	}
	return Withheld(host)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Addresses returns the addresses that the inspection of a host found: each IP once as InternalIP, in the order of the
// interfaces, then the host name.
func Addresses(host *bmov1alpha1.BareMetalHost) []clusterv1.MachineAddress {
	details := host.Status.HardwareDetails
	if details == nil {
		return nil
	}
	var addresses []clusterv1.MachineAddress
	seen := map[string]bool{}
	for _, nic := range details.NIC {
		if nic.IP == "" || seen[nic.IP] {
			continue
		}
		seen[nic.IP] = true
		addresses = append(addresses, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: nic.IP})
	}
	if details.Hostname != "" {
		addresses = append(addresses,
			clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: details.Hostname},
			clusterv1.MachineAddress{Type: clusterv1.MachineInternalDNS, Address: details.Hostname})
	}
	return addresses
}

// ProviderID returns the provider ID of a machine on a host. It contains no UIDs, because a move changes them.
func ProviderID(namespace, host, machine string) string {
	return infrav1.ProviderIDPrefix + namespace + "/" + host + "/" + machine
}

// ParseProviderID splits a provider ID. It returns false for other formats.
func ParseProviderID(providerID string) (namespace, host, machine string, ok bool) {
	rest, isOurs := strings.CutPrefix(providerID, infrav1.ProviderIDPrefix)
	if !isOurs {
		return "", "", "", false
	}
	parts := strings.Split(rest, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return "", "", "", false
	}
	return parts[0], parts[1], parts[2], true
}
