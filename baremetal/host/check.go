package host

import (
	"cmp"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// MachineKind is the kind of the consumerRef of a claimed host.
const MachineKind = "Metal3Machine"

// Wanted is what a machine requires of a host.
type Wanted struct {
	// Machine is the name of the Metal3Machine, Namespace the namespace of the machine and its hosts.
	Machine, Namespace string

	// Cluster is the name of the Cluster of the machine.
	Cluster string

	// Selector is the hostSelector. Nil selects everything.
	Selector labels.Selector

	// FailureDomain is the preferred failure domain. Empty means any.
	FailureDomain string

	// Strict excludes hosts of other failure domains.
	Strict bool

	// Owner is the value of the node-reuse label that reserves a host for this machine: "cp-<control plane>" or
	// "md-<MachineDeployment>". Empty means that no reservation fits.
	Owner string

	// Named is the name of the only host that the machine may claim, because a user named it. Empty means any host.
	Named string

	// Ahead is the number of machines of the same owner that wait before this one for a busy reserved host that it awaits.
	Ahead int

	// Refused is true while the machine pauses after a refused claim. Then no host passes, and every host that would pass
	// counts as refused.
	Refused bool
}

// Candidate is a host that a machine may choose.
type Candidate struct {
	Host *bmov1alpha1.BareMetalHost

	// Assumed is true while another machine of this process claims the host, and during the pause after its refused claim.
	Assumed bool

	// Refused is the error of the API server for the last claim of the machine on the host. Empty means none, or that the
	// machine starts over.
	Refused string
}

// Reason is the reason why a machine cannot claim a host. Empty means that the host passes.
type Reason string

// Reasons. A message shows each one after a number of hosts.
const (
	BeingDeleted          Reason = "being deleted"
	Claimed               Reason = "claimed"
	Reserved              Reason = "reserved for another owner"
	NotMatching           Reason = "not matching selector"
	OtherFailureDomain    Reason = "not in failure domain"
	Paused                Reason = "paused"
	Detached              Reason = "detached"
	Unhealthy             Reason = "marked unhealthy"
	InError               Reason = "in error"
	ExternallyProvisioned Reason = "externally provisioned"
	InUse                 Reason = "in use without a consumer"
	NotAvailable          Reason = "not available yet"
	Refused               Reason = "refused by the API server"
)

type check func(Candidate, Wanted) Reason

// ownership returns the checks that do not depend on the state of the host.
func ownership() []check {
	return []check{
		notBeingDeleted,
		notClaimed,
		notReserved,
		matchesSelector,
		inFailureDomain,
	}
}

// condition returns the checks that depend on the state of the host. A host may pass them later.
func condition() []check {
	return []check{
		notPaused,
		notDetached,
		notUnhealthy,
		notInError,
		notExternallyProvisioned,
		notInUse,
		available,
		notRefused,
	}
}

// Check returns the reason why a machine cannot claim a host, empty if it can.
func Check(candidate Candidate, wanted Wanted) Reason {
	if reason := run(ownership(), candidate, wanted); reason != "" {
		return reason
	}
	return run(condition(), candidate, wanted)
}

func run(chain []check, candidate Candidate, wanted Wanted) Reason {
	for _, check := range chain {
		if reason := check(candidate, wanted); reason != "" {
			return reason
		}
	}
	return ""
}

// ConsumedBy returns true if the consumerRef of the host names the Metal3Machine. It ignores the API version, because
// CAPM3 wrote both versions.
func ConsumedBy(host *bmov1alpha1.BareMetalHost, namespace, machine string) bool {
	ref := host.Spec.ConsumerRef
	return isMachineRef(ref) && ref.Name == machine && ref.Namespace == namespace
}

// Consumer returns the name of the Metal3Machine in the consumerRef of the host, and false if there is none.
func Consumer(host *bmov1alpha1.BareMetalHost) (machine string, found bool) {
	ref := host.Spec.ConsumerRef
	if !isMachineRef(ref) || ref.Namespace != host.Namespace {
		return "", false
	}
	return ref.Name, true
}

// NamedByUser returns the name of the host that a user named in the host annotation of a machine, empty if there is
// none. The provider writes the host that it chose to both annotations.
//
//	host annotation  chosen-host annotation  named by the user
//	none             any                     none
//	a host           the same host           none: the provider chose it
//	a host           another host, or none   the host
func NamedByUser(machine metav1.Object) string {
	if name := annotated(machine); name != machine.GetAnnotations()[infrav1.ChosenHostAnnotation] {
		return name
	}
	return ""
}

// Recorded returns the name of the host in the host annotation of a machine. For a provisioned machine that lost the
// annotation, it returns the name in the provider ID. Empty if there is none.
func Recorded(machine *infrav1.Metal3Machine) string {
	return cmp.Or(annotated(machine), Published(machine))
}

// annotated returns the name of the host in the host annotation of a machine, empty if there is none. The namespace of
// the annotation is optional and ignored: a machine claims hosts only in its own namespace.
func annotated(machine metav1.Object) string {
	recorded := machine.GetAnnotations()[infrav1.HostAnnotation]
	if _, name, qualified := strings.Cut(recorded, "/"); qualified {
		return name
	}
	return recorded
}

// Published returns the name of the host in the provider ID of a machine. Empty if there is none, for the provider ID
// of another machine, and for other formats, such as the UID of the host that earlier versions of CAPM3 wrote.
func Published(machine *infrav1.Metal3Machine) string {
	namespace, name, of, ok := ParseProviderID(machine.Spec.ProviderID)
	if !ok || namespace != machine.Namespace || of != machine.Name {
		return ""
	}
	return name
}

func isMachineRef(ref *corev1.ObjectReference) bool {
	return ref != nil && ref.Kind == MachineKind && groupOf(ref) == infrav1.GroupVersion.Group
}

func groupOf(ref *corev1.ObjectReference) string {
	groupVersion, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return ""
	}
	return groupVersion.Group
}

func notBeingDeleted(candidate Candidate, _ Wanted) Reason {
	if candidate.Host.DeletionTimestamp.IsZero() {
		return ""
	}
	return BeingDeleted
}

func notClaimed(candidate Candidate, wanted Wanted) Reason {
	ref := candidate.Host.Spec.ConsumerRef
	switch {
	case candidate.Assumed:
		return Claimed
	case ref == nil, ReservedFor(candidate.Host, wanted):
		return ""
	case isReservation(ref) && candidate.Host.Labels[infrav1.NodeReuseLabel] != "":
		return Reserved
	default:
		return Claimed
	}
}

func notReserved(candidate Candidate, wanted Wanted) Reason {
	if candidate.Host.Labels[infrav1.NodeReuseLabel] == "" || ReservedFor(candidate.Host, wanted) {
		return ""
	}
	return Reserved
}

func matchesSelector(candidate Candidate, wanted Wanted) Reason {
	if wanted.Selector == nil || wanted.Selector.Matches(labels.Set(candidate.Host.Labels)) {
		return ""
	}
	return NotMatching
}

func inFailureDomain(candidate Candidate, wanted Wanted) Reason {
	if !wanted.Strict || wanted.FailureDomain == "" || inWantedDomain(candidate, wanted) {
		return ""
	}
	return OtherFailureDomain
}

func inWantedDomain(candidate Candidate, wanted Wanted) bool {
	return candidate.Host.Labels[infrav1.FailureDomainLabel] == wanted.FailureDomain
}

func notPaused(candidate Candidate, _ Wanted) Reason {
	if _, paused := candidate.Host.Annotations[bmov1alpha1.PausedAnnotation]; paused {
		return Paused
	}
	return ""
}

func notDetached(candidate Candidate, _ Wanted) Reason {
	_, detached := candidate.Host.Annotations[bmov1alpha1.DetachedAnnotation]
	if detached || candidate.Host.Status.OperationalStatus == bmov1alpha1.OperationalStatusDetached {
		return Detached
	}
	return ""
}

func notUnhealthy(candidate Candidate, _ Wanted) Reason {
	_, unhealthy := candidate.Host.Annotations[infrav1.UnhealthyAnnotation]
	_, deprecated := candidate.Host.Annotations[infrav1.DeprecatedUnhealthyAnnotation]
	if unhealthy || deprecated {
		return Unhealthy
	}
	return ""
}

func notInError(candidate Candidate, _ Wanted) Reason {
	status := candidate.Host.Status
	if status.ErrorMessage != "" || status.OperationalStatus == bmov1alpha1.OperationalStatusError {
		return InError
	}
	return ""
}

func notExternallyProvisioned(candidate Candidate, _ Wanted) Reason {
	if candidate.Host.Spec.ExternallyProvisioned {
		return ExternallyProvisioned
	}
	return ""
}

// notInUse excludes hosts that a user provisioned without a machine. A claim would overwrite the running system.
func notInUse(candidate Candidate, wanted Wanted) Reason {
	spec := candidate.Host.Spec
	if (spec.Image != nil || spec.CustomDeploy != nil) && !ReservedFor(candidate.Host, wanted) {
		return InUse
	}
	return ""
}

func available(candidate Candidate, _ Wanted) Reason {
	switch candidate.Host.Status.Provisioning.State {
	case bmov1alpha1.StateAvailable, bmov1alpha1.StateReady:
		return ""
	default:
		return NotAvailable
	}
}

func notRefused(candidate Candidate, wanted Wanted) Reason {
	if candidate.Refused != "" || wanted.Refused {
		return Refused
	}
	return ""
}
