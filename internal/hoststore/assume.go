package hoststore

import (
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// assumeCache holds the facts about hosts that this process knows before the cache shows them.
//
//	event                                               effect
//	Choose picks a host                                 the host is assumed for the machine
//	the API server confirms the claim                   Holdings returns the confirmed copy
//	the cache shows the claim or a newer version        the assumption ends
//	the API server returns a conflict                   the assumption ends; the version that was read is outdated
//	the API server refuses the claim                    the assumption ends; the host refuses this machine for a while
//	the cache shows another version                     no version of the host is outdated; it refuses no machine
//
// The lock of the store guards all methods.
type assumeCache struct {
	clock    clock.PassiveClock
	claims   map[Key]assumption
	outdated map[Key]string
	// refusals holds the refused claims by host and machine: the cause may be the spec of the machine.
	refusals map[Key]map[Key]refusal
}

// The time in which a refused machine does not claim the host again. It doubles with each refusal of the same version.
const (
	firstRefusal = time.Second
	lastRefusal  = 5 * time.Minute
)

// refusal is a claim that the API server refused.
type refusal struct {
	// version is the resource version of the host.
	version string

	// cause is the error.
	cause string

	// pause is the time until the next claim, and until is its end.
	pause time.Duration
	until time.Time
}

// assumption is a claim that is being written.
type assumption struct {
	machine Key

	// written is the host in the response to the claim. Nil before the response.
	written *bmov1alpha1.BareMetalHost
}

func newAssumeCache() assumeCache {
	return assumeCache{
		clock: clock.RealClock{}, claims: map[Key]assumption{}, outdated: map[Key]string{},
		refusals: map[Key]map[Key]refusal{},
	}
}

// candidate returns a host as a candidate for a machine.
func (a *assumeCache) candidate(current *bmov1alpha1.BareMetalHost, machine Key) host.Candidate {
	key := client.ObjectKeyFromObject(current)
	claim, assumed := a.claims[key]
	outdated := current.ResourceVersion != "" && a.outdated[key] == current.ResourceVersion
	candidate := host.Candidate{Host: current, Assumed: assumed && claim.machine != machine || outdated}
	if last, refused := a.refusals[key][machine]; refused && a.clock.Now().Before(last.until) {
		candidate.Refused = last.cause
	}
	return candidate
}

// retryAfter returns the time until a machine may claim a host again that refused it. Zero means that none does.
func (a *assumeCache) retryAfter(machine Key) time.Duration {
	var soonest time.Duration
	for _, refused := range a.refusals {
		after := refused[machine].until.Sub(a.clock.Now())
		if after > 0 && (soonest == 0 || after < soonest) {
			soonest = after
		}
	}
	return soonest
}

// pardon drops the refusals of a machine.
func (a *assumeCache) pardon(machine Key) {
	for key, refused := range a.refusals {
		if delete(refused, machine); len(refused) == 0 {
			delete(a.refusals, key)
		}
	}
}

// assume assumes a host for a machine. It keeps a claim of the machine that was already written.
func (a *assumeCache) assume(key, machine Key) {
	a.claims[key] = assumption{machine: machine, written: a.claims[key].written}
}

// of returns the host that is assumed for a machine.
func (a *assumeCache) of(machine Key) (key Key, claim assumption, found bool) {
	for key, claim := range a.claims {
		if claim.machine == machine {
			return key, claim, true
		}
	}
	return Key{}, assumption{}, false
}

// confirm stores the copy of a claim that the API server returned.
func (a *assumeCache) confirm(stored *bmov1alpha1.BareMetalHost) {
	key := client.ObjectKeyFromObject(stored)
	claim, assumed := a.claims[key]
	if assumed && host.ConsumedBy(stored, claim.machine.Namespace, claim.machine.Name) {
		claim.written = stored
		a.claims[key] = claim
		delete(a.refusals, key)
	}
}

// outdate marks the version of a rejected write as outdated. It returns true if the write was a claim. If the machine
// had claimed the host before, outdate drops only the confirmed copy.
func (a *assumeCache) outdate(current, desired *bmov1alpha1.BareMetalHost) (wasClaim bool) {
	key := client.ObjectKeyFromObject(current)
	a.outdated[key] = current.ResourceVersion
	claim, assumed := a.claims[key]
	if !assumed {
		return false
	}
	namespace, name := claim.machine.Namespace, claim.machine.Name
	if host.ConsumedBy(current, namespace, name) {
		claim.written = nil
		a.claims[key] = claim
		return false
	}
	return host.ConsumedBy(desired, namespace, name)
}

// refuse pauses the claims of a machine on a host after the API server refused one. It returns true if the write was a
// claim.
func (a *assumeCache) refuse(current, desired *bmov1alpha1.BareMetalHost, cause error) (wasClaim bool) {
	key := client.ObjectKeyFromObject(current)
	claim, assumed := a.claims[key]
	if !assumed || host.ConsumedBy(current, claim.machine.Namespace, claim.machine.Name) ||
		!host.ConsumedBy(desired, claim.machine.Namespace, claim.machine.Name) {
		return false
	}
	pause := firstRefusal
	if last, again := a.refusals[key][claim.machine]; again && last.version == current.ResourceVersion {
		pause = min(2*last.pause, lastRefusal)
	}
	if a.refusals[key] == nil {
		a.refusals[key] = map[Key]refusal{}
	}
	a.refusals[key][claim.machine] = refusal{
		version: current.ResourceVersion, cause: cause.Error(), pause: pause, until: a.clock.Now().Add(pause),
	}
	return true
}

// observe compares a host from the cache with its assumption. It returns true if an assumption, an outdated version or
// a refusal ended, so that other machines may claim the host.
func (a *assumeCache) observe(current *bmov1alpha1.BareMetalHost) (ended bool) {
	key := client.ObjectKeyFromObject(current)
	if a.isShown(key, current) {
		delete(a.claims, key)
		ended = true
	}
	if version, outdated := a.outdated[key]; outdated && version != current.ResourceVersion {
		delete(a.outdated, key)
		ended = true
	}
	for machine, last := range a.refusals[key] {
		if last.version != current.ResourceVersion {
			delete(a.refusals[key], machine)
			ended = true
		}
	}
	if len(a.refusals[key]) == 0 {
		delete(a.refusals, key)
	}
	return ended
}

// isShown returns true if a host from the cache shows the claim, or a version after it.
func (a *assumeCache) isShown(key Key, current *bmov1alpha1.BareMetalHost) bool {
	claim, assumed := a.claims[key]
	if !assumed || host.ConsumedBy(current, claim.machine.Namespace, claim.machine.Name) {
		return assumed
	}
	if claim.written == nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(current.ResourceVersion, claim.written.ResourceVersion)
	return err == nil && order > 0
}

// forget drops a deleted host.
func (a *assumeCache) forget(key Key) {
	delete(a.claims, key)
	delete(a.outdated, key)
	delete(a.refusals, key)
}
