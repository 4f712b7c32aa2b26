package host

import (
	"fmt"
	"slices"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Choice is the answer of Choose.
type Choice struct {
	// Host is the chosen host. Nil means that none can be taken now.
	Host *bmov1alpha1.BareMetalHost

	// Reused says that the host was reserved for the owner of the machine.
	Reused bool

	// Named says that the machine waits for the host that it names.
	Named bool

	// Awaited is how many busy hosts are reserved for the owner of the machine, when the machine waits for one of them.
	Awaited int

	// Message explains the choice: why this host, or how many hosts fail for which reason.
	Message string
}

// rank orders the hosts that pass the chain. The smaller one wins.
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

// Choose returns the host that the machine should claim. The order of the candidates does not matter.
//
//	reserved hosts    machines ahead       free hosts     choice
//	one available     any                  any            the reserved one
//	some still busy   fewer than are busy  any            none: wait for a reserved one, it has the data of a node
//	some still busy   as many as are busy  one passes     the free one
//	some still busy   any                  none passes    none: wait for a reserved one
//	all in error      any                  one passes     the free one
//	none              any                  one passes     the free one
//	none              any                  none passes    none: the message counts the reasons
//
// A host that the machine names goes before all of them, unless another owner or the selector excludes it. The machine
// waits for it while it is not available.
func Choose(candidates []Candidate, wanted Wanted) Choice {
	if named, found := findNamed(candidates, wanted); found {
		return chooseNamed(named, wanted)
	}
	var best, busy Candidate
	var bestRank rank
	counts, awaited := map[Reason]int{}, 0
	for _, candidate := range candidates {
		reason := Check(candidate, wanted)
		if reason != "" {
			counts[reason]++
			if reason == NotAvailable && ReservedFor(candidate.Host, wanted) {
				awaited++
				busy = firstByName(busy, candidate)
			}
			continue
		}
		candidateRank := rankOf(candidate, wanted)
		if best.Host == nil || candidateRank.before(bestRank) {
			best, bestRank = candidate, candidateRank
		}
	}
	switch {
	case best.Host != nil && !bestRank.notReserved:
		return Choice{Host: best.Host, Reused: true, Message: fmt.Sprintf(
			"Host %s was reserved for %s by node reuse", best.Host.Name, wanted.Owner)}
	case best.Host != nil && wanted.Ahead >= awaited:
		return Choice{Host: best.Host, Message: explain(best, wanted)}
	case busy.Host != nil:
		return Choice{Awaited: awaited, Message: fmt.Sprintf(
			"Waiting for host %s, which is reserved for %s by node reuse and is %s",
			busy.Host.Name, wanted.Owner, stateName(busy.Host))}
	default:
		return Choice{Message: Summary(counts, wanted)}
	}
}

// findNamed returns the host that the machine names, if it may be claimed for good.
func findNamed(candidates []Candidate, wanted Wanted) (Candidate, bool) {
	for _, candidate := range candidates {
		if candidate.Host.Name == wanted.Named {
			return candidate, run(ownership(), candidate, wanted) == ""
		}
	}
	return Candidate{}, false
}

func chooseNamed(named Candidate, wanted Wanted) Choice {
	if reason := run(condition(), named, wanted); reason != "" {
		return Choice{Named: true, Message: fmt.Sprintf(
			"Waiting for BareMetalHost %s, which is %s. Remove annotation %s of Metal3Machine %s to choose another.",
			named.Host.Name, reason, infrav1.HostAnnotation, wanted.Machine)}
	}
	return Choice{Host: named.Host, Reused: ReservedFor(named.Host, wanted), Message: explain(named, wanted)}
}

// Summary tells how many hosts fail for which reason, the most frequent reason first.
func Summary(counts map[Reason]int, wanted Wanted) string {
	total := 0
	reasons := make([]Reason, 0, len(counts))
	for reason, count := range counts {
		total += count
		reasons = append(reasons, reason)
	}
	if total == 0 {
		return fmt.Sprintf("No host in namespace %s: create BareMetalHosts there", wanted.Namespace)
	}
	slices.SortFunc(reasons, func(a, b Reason) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(string(a), string(b))
	})
	parts := make([]string, 0, len(reasons))
	for _, reason := range reasons {
		parts = append(parts, fmt.Sprintf("%d %s", counts[reason], describe(reason, wanted)))
	}
	noun := "hosts"
	if total == 1 {
		noun = "host"
	}
	return fmt.Sprintf("%d %s: %s", total, noun, strings.Join(parts, ", "))
}

func describe(reason Reason, wanted Wanted) string {
	switch {
	case reason == NotMatching && wanted.Selector != nil:
		return string(reason) + " " + wanted.Selector.String()
	case reason == OtherFailureDomain:
		return string(reason) + " " + wanted.FailureDomain
	default:
		return string(reason)
	}
}

func explain(chosen Candidate, wanted Wanted) string {
	name := chosen.Host.Name
	switch {
	case wanted.FailureDomain == "":
		return fmt.Sprintf("Host %s is available", name)
	case inWantedDomain(chosen, wanted):
		return fmt.Sprintf("Host %s is available in failure domain %s", name, wanted.FailureDomain)
	default:
		return fmt.Sprintf("Host %s is available; no host of failure domain %s is", name, wanted.FailureDomain)
	}
}

func rankOf(candidate Candidate, wanted Wanted) rank {
	return rank{
		notReserved: !ReservedFor(candidate.Host, wanted),
		otherDomain: wanted.FailureDomain != "" && !inWantedDomain(candidate, wanted),
		distance:    Order(candidate.Host.Name) - Order(wanted.Machine),
	}
}

// Order is the place of a name on a ring. Of equal hosts, a machine takes the first one after its own place. This
// spreads machines over hosts and gives the same answer every time.
func Order(name string) uint64 {
	// FNV-1a, without the allocation of hash/fnv.
	hash := uint64(14695981039346656037)
	for i := range len(name) {
		hash = (hash ^ uint64(name[i])) * 1099511628211
	}
	return mix(hash)
}

// mix spreads the hash: FNV alone keeps names that differ only at their end close together, which would send machines
// with similar names to the same host.
func mix(hash uint64) uint64 {
	hash ^= hash >> 33
	hash *= 0xff51afd7ed558ccd
	hash ^= hash >> 33
	hash *= 0xc4ceb9fe1a85ec53
	return hash ^ hash>>33
}

func firstByName(current, candidate Candidate) Candidate {
	if current.Host == nil || candidate.Host.Name < current.Host.Name {
		return candidate
	}
	return current
}

func stateName(host *bmov1alpha1.BareMetalHost) string {
	if host.Status.Provisioning.State == bmov1alpha1.StateNone {
		return "not registered yet"
	}
	return string(host.Status.Provisioning.State)
}

// Concerns says whether a change of the host can matter to a machine that waits: the host passes, or it is reserved for
// the owner of the machine and its trouble decides whether the machine goes on waiting for it.
func Concerns(candidate Candidate, wanted Wanted) bool {
	return Check(candidate, wanted) == "" || ReservedFor(candidate.Host, wanted)
}

// IsNews says whether a change of a host can alter what a waiting machine answers to the host, or what its condition
// says of the host: the host passes or fails for another reason, or it is reserved for the owner of the machine and is
// in another state.
func IsNews(before, after *bmov1alpha1.BareMetalHost, wanted Wanted) bool {
	reserved := ReservedFor(after, wanted)
	return reserved != ReservedFor(before, wanted) || reserved && stateName(before) != stateName(after) ||
		Check(Candidate{Host: before}, wanted) != Check(Candidate{Host: after}, wanted)
}

// InPool says whether no machine holds the host, so that it is worth looking at.
func InPool(host *bmov1alpha1.BareMetalHost) bool {
	return host.Spec.ConsumerRef == nil || isReservation(host.Spec.ConsumerRef)
}
