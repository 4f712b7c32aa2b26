package host

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Choice is the result of Choose.
type Choice struct {
	// Host is the chosen host. Nil means that no host can be claimed now.
	Host *bmov1alpha1.BareMetalHost

	// Reused is true if the host was reserved for the owner of the machine.
	Reused bool

	// Refused is true if a host fails only because the API server refused the last claim of the machine.
	Refused bool

	// RetryAfter is the time until the machine may claim a host again. Zero means unknown. Choose does not set it.
	RetryAfter time.Duration

	// Awaited are the busy hosts that are reserved for the owner, if the machine waits for one of them.
	Awaited []*bmov1alpha1.BareMetalHost

	// Message explains why there is no host.
	Message string
}

// Near is the number of hosts, after the position of a machine on the ring, that the machine chooses from. A larger
// number spreads the machines better: 1000 machines choose 500 of 1000 hosts with 1, 610 with 8, 632 with all.
const Near = 8

// rank orders the hosts that pass. The lower rank wins.
type rank struct {
	notReserved, otherDomain bool
	distance                 uint64
}

func (r rank) before(other rank) bool {
	if r.notReserved != other.notReserved {
		return !r.notReserved
	}
	if r.otherDomain != other.otherDomain {
		return !r.otherDomain
	}
	return r.distance < other.distance
}

type ranked struct {
	Candidate
	rank
}

// Choose returns the host that the machine should claim. The order of the candidates has no effect.
//
//	reserved hosts    machines ahead       free hosts     choice
//	one available     any                  any            the reserved host
//	some still busy   fewer than are busy  any            none: wait for a reserved host, it has the data of a node
//	some still busy   as many as are busy  one passes     the free host
//	some still busy   any                  none passes    none: wait for a reserved host
//	all in error      any                  one passes     the free host
//	none              any                  one passes     the free host
//	none              any                  none passes    none: the message counts the reasons
//
// A machine whose user named a host waits for that host, also if it does not exist.
func Choose(candidates []Candidate, wanted Wanted) Choice {
	if wanted.Named != "" {
		return chooseNamed(candidates, wanted)
	}
	best, busy, failing := survey(candidates, wanted)
	switch {
	case best.Host != nil && ReservedFor(best.Host, wanted):
		return Choice{Host: best.Host, Reused: true}
	case best.Host != nil && wanted.Ahead >= len(busy):
		return Choice{Host: best.Host}
	case len(busy) > 0:
		first := slices.MinFunc(busy, func(a, b *bmov1alpha1.BareMetalHost) int { return strings.Compare(a.Name, b.Name) })
		return Choice{Awaited: busy, Message: fmt.Sprintf(
			"Waiting for BareMetalHost %s, which is reserved for %s by node reuse and is %s",
			first.Name, wanted.Owner, stateName(first))}
	default:
		return Choice{Message: failing.Summary(wanted), Refused: failing.Counts[Refused] > 0}
	}
}

// survey returns the best host that passes, the busy hosts that are reserved for the owner, and the hosts that fail.
func survey(candidates []Candidate, wanted Wanted) (
	best Candidate, busy []*bmov1alpha1.BareMetalHost, failing Failing,
) {
	var near []ranked
	failing.Counts, failing.First = map[Reason]int{}, map[Reason]*bmov1alpha1.BareMetalHost{}
	for _, candidate := range candidates {
		reason := Check(candidate, wanted)
		if reason == "" {
			near = nearest(near, ranked{candidate, rankOf(candidate, wanted)})
			continue
		}
		failing.add(candidate, reason)
		if reason == NotAvailable && ReservedFor(candidate.Host, wanted) {
			busy = append(busy, candidate.Host)
		}
	}
	return preferred(near, wanted.Machine), busy, failing
}

// Awaits returns true if a machine waits for a busy host that is reserved for its owner.
func Awaits(wanted Wanted, busy *bmov1alpha1.BareMetalHost) bool {
	return (wanted.Named == "" || wanted.Named == busy.Name) && ReservedFor(busy, wanted) &&
		Check(Candidate{Host: busy}, wanted) == NotAvailable
}

// nearest inserts a host by rank and keeps the first Near hosts.
func nearest(near []ranked, next ranked) []ranked {
	at := slices.IndexFunc(near, func(current ranked) bool { return next.before(current.rank) })
	if at < 0 {
		at = len(near)
	}
	near = slices.Insert(near, at, next)
	return near[:min(len(near), Near)]
}

// preferred returns the host that a machine prefers among the hosts of the best rank, independent of their distance.
func preferred(near []ranked, machine string) Candidate {
	var best Candidate
	var least uint64
	for _, current := range near {
		if current.notReserved != near[0].notReserved || current.otherDomain != near[0].otherDomain {
			break
		}
		if draw := mix(current.distance ^ Order(machine)); best.Host == nil || draw < least {
			best, least = current.Candidate, draw
		}
	}
	return best
}

// chooseNamed returns the host that a user named, or the reason why the machine waits for it.
func chooseNamed(candidates []Candidate, wanted Wanted) Choice {
	at := slices.IndexFunc(candidates, func(candidate Candidate) bool { return candidate.Host.Name == wanted.Named })
	if at < 0 {
		return Choice{Message: awaitNamed(wanted, "does not exist")}
	}
	named := candidates[at]
	reason := Check(named, wanted)
	if reason == "" {
		return Choice{Host: named.Host, Reused: ReservedFor(named.Host, wanted)}
	}
	state := "is " + string(reason) + remedy(reason, named.Host)
	if reason == Refused && named.Refused != "" {
		state += fmt.Sprintf(" (%s)", named.Refused)
	}
	return Choice{Refused: reason == Refused, Message: awaitNamed(wanted, state)}
}

func awaitNamed(wanted Wanted, state string) string {
	return fmt.Sprintf(
		"Waiting for BareMetalHost %s, which %s. Remove annotation %s of Metal3Machine %s to choose another host.",
		wanted.Named, state, infrav1.HostAnnotation, wanted.Machine)
}

// Failing counts the hosts that a machine cannot claim.
type Failing struct {
	// Counts holds the number of hosts by reason.
	Counts map[Reason]int

	// First holds the host with the first name for each reason that a user can end on the host: InError, Unhealthy,
	// Reserved, Paused and Detached.
	First map[Reason]*bmov1alpha1.BareMetalHost

	// Refused is the first name of the hosts with an error of the API server, Cause that error.
	Refused, Cause string
}

func (f *Failing) add(candidate Candidate, reason Reason) {
	f.Counts[reason]++
	name := candidate.Host.Name
	switch reason {
	case InError, Unhealthy, Reserved, Paused, Detached:
		if first := f.First[reason]; first == nil || name < first.Name {
			f.First[reason] = candidate.Host
		}
	case Refused:
		if candidate.Refused != "" && (f.Refused == "" || name < f.Refused) {
			f.Refused, f.Cause = name, oneLine(candidate.Refused)
		}
	}
}

// Summary returns the number of hosts per reason, the most frequent reason first. It names the hosts in First. It names
// a refused host only if it is the only one: a policy may refuse all hosts, and the message must not depend on the host
// that was tried last.
func (f Failing) Summary(wanted Wanted) string {
	total := 0
	for _, count := range f.Counts {
		total += count
	}
	if total == 0 {
		return fmt.Sprintf("No BareMetalHosts in namespace %s: create them there", wanted.Namespace)
	}
	reasons := slices.SortedFunc(maps.Keys(f.Counts), func(a, b Reason) int {
		return cmp.Or(f.Counts[b]-f.Counts[a], strings.Compare(string(a), string(b)))
	})
	parts := make([]string, 0, len(reasons))
	for _, reason := range reasons {
		parts = append(parts, fmt.Sprintf("%d %s", f.Counts[reason], f.describe(reason, wanted)))
	}
	noun := "hosts"
	if total == 1 {
		noun = "host"
	}
	return fmt.Sprintf("%d %s: %s", total, noun, strings.Join(parts, ", "))
}

func (f Failing) describe(reason Reason, wanted Wanted) string {
	switch first := f.First[reason]; {
	case first != nil && f.Counts[reason] > 1:
		return fmt.Sprintf("%s (%s and %d more%s)", reason, first.Name, f.Counts[reason]-1, remedy(reason, first))
	case first != nil:
		return fmt.Sprintf("%s (%s%s)", reason, first.Name, remedy(reason, first))
	case reason == Refused && f.Cause == "":
		return string(reason)
	case reason == Refused && f.Counts[reason] > 1:
		return fmt.Sprintf("%s (%s)", reason, strings.ReplaceAll(f.Cause, fmt.Sprintf("%q ", f.Refused), ""))
	case reason == Refused:
		return fmt.Sprintf("%s (%s: %s)", reason, f.Refused, f.Cause)
	case reason == NotMatching && wanted.Selector != nil:
		return string(reason) + " " + wanted.Selector.String()
	case reason == OtherFailureDomain:
		return string(reason) + " " + wanted.FailureDomain
	default:
		return string(reason)
	}
}

// remedy returns the annotation or label that excludes a host from claims, and how to end that. Empty for an error.
func remedy(reason Reason, host *bmov1alpha1.BareMetalHost) string {
	_, current := host.Annotations[infrav1.UnhealthyAnnotation]
	_, detached := host.Annotations[bmov1alpha1.DetachedAnnotation]
	reuse := infrav1.NodeReuseLabel + "=" + host.Labels[infrav1.NodeReuseLabel]
	switch {
	case reason == Reserved && host.Spec.ConsumerRef == nil:
		return fmt.Sprintf(": label %s; to release the host, remove the label", reuse)
	case reason == Reserved:
		return fmt.Sprintf(": label %s; to release the host, remove the label and spec.consumerRef", reuse)
	case reason == Unhealthy && current:
		return fmt.Sprintf(": remove annotation %s after the repair", infrav1.UnhealthyAnnotation)
	case reason == Unhealthy:
		return fmt.Sprintf(": remove annotation %s after the repair", infrav1.DeprecatedUnhealthyAnnotation)
	case reason == Paused && pausedByProvider(host):
		return fmt.Sprintf(": see annotation %s", infrav1.PauseReasonAnnotation)
	case reason == Paused:
		return fmt.Sprintf(": remove annotation %s", bmov1alpha1.PausedAnnotation)
	case reason == Detached && detached:
		return fmt.Sprintf(": remove annotation %s", bmov1alpha1.DetachedAnnotation)
	default:
		return ""
	}
}

func rankOf(candidate Candidate, wanted Wanted) rank {
	return rank{
		notReserved: !ReservedFor(candidate.Host, wanted),
		otherDomain: wanted.FailureDomain != "" && !inWantedDomain(candidate, wanted),
		distance:    Order(candidate.Host.Name) - Order(wanted.Machine),
	}
}

// Order returns the position of a name on a ring. Of equal hosts, a machine chooses one of the first after its own
// position.
func Order(name string) uint64 {
	// FNV-1a, without the allocation of hash/fnv.
	hash := uint64(14695981039346656037)
	for i := range len(name) {
		hash = (hash ^ uint64(name[i])) * 1099511628211
	}
	return mix(hash)
}

// mix spreads the hash. With FNV alone, names that differ only at their end have close positions.
func mix(hash uint64) uint64 {
	hash ^= hash >> 33
	hash *= 0xff51afd7ed558ccd
	hash ^= hash >> 33
	hash *= 0xc4ceb9fe1a85ec53
	return hash ^ hash>>33
}

func stateName(host *bmov1alpha1.BareMetalHost) string {
	if host.Status.Provisioning.State == bmov1alpha1.StateNone {
		return "not registered yet"
	}
	return string(host.Status.Provisioning.State)
}

// Suits returns true if a waiting machine may claim the host now, or if the host is reserved for its owner. A machine
// whose user named a host waits for no other one.
func Suits(candidate Candidate, wanted Wanted) bool {
	if wanted.Named != "" && wanted.Named != candidate.Host.Name {
		return false
	}
	return Check(candidate, wanted) == "" || ReservedFor(candidate.Host, wanted)
}

// AltersChoice returns true if a change of a host can alter the choice or the message of a waiting machine: the result
// of Check differs, or a reserved host is in another state.
func AltersChoice(before, after *bmov1alpha1.BareMetalHost, wanted Wanted) bool {
	reserved := ReservedFor(after, wanted)
	return reserved != ReservedFor(before, wanted) || reserved && stateName(before) != stateName(after) ||
		Check(Candidate{Host: before}, wanted) != Check(Candidate{Host: after}, wanted)
}

// Claimable returns true for a host that any machine may claim that selects it: the host has no consumer and no
// reservation, and passes the checks of its state.
func Claimable(host *bmov1alpha1.BareMetalHost) bool {
	return host.Labels[infrav1.NodeReuseLabel] == "" && Check(Candidate{Host: host}, Wanted{}) == ""
}

// InPool returns true for a host without a machine.
func InPool(host *bmov1alpha1.BareMetalHost) bool {
	return host.Spec.ConsumerRef == nil || isReservation(host.Spec.ConsumerRef)
}
