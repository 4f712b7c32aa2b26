package hoststore

import (
	"time"
	"unique"

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
//	the API server refuses the claim                    the assumption ends; machine and host pause
//	the cache shows another version                     no version of the host is outdated; it refuses no machine
//
// The lock of the store guards all methods.
type assumeCache struct {
	clock clock.WithDelayedExecution
	hosts map[Key]facts

	// pauses holds the machines whose claims the API server refused since their last successful claim.
	pauses map[Key]pause
}

// facts is the recorded state of one host. The zero value has no state.
type facts struct {
	// machine is the machine that the host is assumed for. Its name is empty if there is none.
	machine Key

	// written is the host in the response to the claim of the machine. Nil before the response.
	written *bmov1alpha1.BareMetalHost

	// outdated is the version of which a write conflicted.
	outdated string

	// refusals holds the errors of the refused claims of one version by machine: the cause may be the spec of the machine.
	// Machines that a host refuses for the same cause share the text.
	refusals map[Key]unique.Handle[string]

	// refused is the version of the refused claims. No machine claims it before resumes.
	refused string
	resumes time.Time
}

func (f facts) isAssumed() bool { return f.machine.Name != "" }

// isConsumed returns true if a host has the machine that it is assumed for as consumer.
func (f facts) isConsumed(current *bmov1alpha1.BareMetalHost) bool {
	return f.isAssumed() && host.ConsumedBy(current, f.machine.Namespace, f.machine.Name)
}

func newAssumeCache() assumeCache {
	return assumeCache{clock: clock.RealClock{}, hosts: map[Key]facts{}, pauses: map[Key]pause{}}
}

func (a *assumeCache) store(key Key, known facts) {
	if a.hosts[key] = known; !known.isAssumed() && known.outdated == "" && len(known.refusals) == 0 {
		delete(a.hosts, key)
	}
}

func (a *assumeCache) candidate(current *bmov1alpha1.BareMetalHost, machine Key) host.Candidate {
	known := a.hosts[client.ObjectKeyFromObject(current)]
	outdated := current.ResourceVersion != "" && known.outdated == current.ResourceVersion
	var cause string
	if refusal, refused := known.refusals[machine]; refused {
		cause = refusal.Value()
	}
	return host.Candidate{
		Host:    current,
		Assumed: known.isAssumed() && known.machine != machine || outdated || cause == "" && a.isPaused(known),
		Refused: cause,
	}
}

// pardon drops the refusals of a machine.
func (a *assumeCache) pardon(machine Key) {
	delete(a.pauses, machine)
	for key, known := range a.hosts {
		delete(known.refusals, machine)
		a.store(key, known)
	}
}

// assume assumes a host for a machine. It keeps a claim of the machine that was already written.
func (a *assumeCache) assume(key, machine Key) {
	known := a.hosts[key]
	known.machine = machine
	a.store(key, known)
}

// of returns the host that is assumed for a machine.
func (a *assumeCache) of(machine Key) (key Key, known facts, found bool) {
	for key, known := range a.hosts {
		if known.machine == machine {
			return key, known, true
		}
	}
	return Key{}, facts{}, false
}

// end ends the assumption of a host and returns its machine.
func (a *assumeCache) end(key Key) (machine Key) {
	known := a.hosts[key]
	machine = known.machine
	known.machine, known.written = Key{}, nil
	a.store(key, known)
	return machine
}

// confirm stores the copy of a claim that the API server returned.
func (a *assumeCache) confirm(stored *bmov1alpha1.BareMetalHost) {
	key := client.ObjectKeyFromObject(stored)
	if known := a.hosts[key]; known.isConsumed(stored) {
		delete(a.pauses, known.machine)
		known.written, known.refusals = stored, nil
		a.store(key, known)
	}
}

// outdate marks the version of a rejected write as outdated. It returns true if the write was a claim. If the machine
// had claimed the host before, outdate drops only the confirmed copy.
func (a *assumeCache) outdate(current, desired *bmov1alpha1.BareMetalHost) (wasClaim bool) {
	key := client.ObjectKeyFromObject(current)
	known := a.hosts[key]
	known.outdated = current.ResourceVersion
	claimed := known.isConsumed(current)
	if claimed {
		known.written = nil
	}
	a.store(key, known)
	return !claimed && known.isConsumed(desired)
}

// observe compares a host from the cache with its facts. It returns true if an assumption, an outdated
// version or a refusal ended, so that other machines may claim the host.
func (a *assumeCache) observe(current *bmov1alpha1.BareMetalHost) (ended bool) {
	key := client.ObjectKeyFromObject(current)
	known := a.hosts[key]
	if known.isShown(current) {
		known.machine, known.written = Key{}, nil
		ended = true
	}
	if known.outdated != "" && known.outdated != current.ResourceVersion {
		known.outdated = ""
		ended = true
	}
	if len(known.refusals) > 0 && known.refused != current.ResourceVersion {
		known.refusals, known.resumes = nil, time.Time{}
		ended = true
	}
	a.store(key, known)
	return ended
}

// isShown returns true if a host from the cache shows the claim, or a version after it.
func (f facts) isShown(current *bmov1alpha1.BareMetalHost) bool {
	if f.isConsumed(current) {
		return true
	}
	if f.written == nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(current.ResourceVersion, f.written.ResourceVersion)
	return err == nil && order > 0
}
