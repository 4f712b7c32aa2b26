package hoststore

import (
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
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
//	the cache shows another version                     no version of the host is outdated
//
// The lock of the store guards all methods.
type assumeCache struct {
	claims   map[Key]assumption
	outdated map[Key]string
}

// assumption is a claim that is being written.
type assumption struct {
	machine Key

	// written is the host in the response to the claim. Nil before the response.
	written *bmov1alpha1.BareMetalHost
}

func newAssumeCache() assumeCache {
	return assumeCache{claims: map[Key]assumption{}, outdated: map[Key]string{}}
}

// candidate returns a host as a candidate for a machine.
func (a *assumeCache) candidate(current *bmov1alpha1.BareMetalHost, machine Key) host.Candidate {
	key := client.ObjectKeyFromObject(current)
	claim, assumed := a.claims[key]
	outdated := current.ResourceVersion != "" && a.outdated[key] == current.ResourceVersion
	return host.Candidate{Host: current, Assumed: assumed && claim.machine != machine || outdated}
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
	}
}

// refuse marks the version of a rejected write as outdated. It returns true if the write was a claim. If the machine
// had claimed the host before, refuse drops only the confirmed copy.
func (a *assumeCache) refuse(current, desired *bmov1alpha1.BareMetalHost) (wasClaim bool) {
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

// observe compares a host from the cache with its assumption. It returns true if an assumption or an outdated version
// ended, so that other machines may claim the host.
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
}
