package hoststore

import (
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// assumeCache holds what this process knows about hosts and the cache does not show yet.
//
//	Choose picks a host               -> the host is assumed for the machine
//	the API server confirms the claim -> the claim is kept, so that Holdings returns it
//	the cache shows the claim, or a version that is newer than the confirmed claim -> the assumption ends
//	the API server answers a conflict -> the assumption ends, and the version that was read counts as outdated
//	the cache shows another version   -> no version of the host is outdated
//
// The lock of the store guards all methods.
type assumeCache struct {
	claims   map[Key]assumption
	outdated map[Key]string
}

// assumption is a claim that is being written.
type assumption struct {
	machine Key

	// written is the host as the API server confirmed the claim. Nil until then.
	written *bmov1alpha1.BareMetalHost
}

func newAssumeCache() assumeCache {
	return assumeCache{claims: map[Key]assumption{}, outdated: map[Key]string{}}
}

// candidate returns a host with what the process knows about it, as the machine may choose it.
func (a *assumeCache) candidate(current *bmov1alpha1.BareMetalHost, machine Key) host.Candidate {
	key := client.ObjectKeyFromObject(current)
	claim, assumed := a.claims[key]
	outdated := current.ResourceVersion != "" && a.outdated[key] == current.ResourceVersion
	return host.Candidate{Host: current, Assumed: assumed && claim.machine != machine || outdated}
}

// assume keeps a host for a machine. A claim of the same machine that was written stays known.
func (a *assumeCache) assume(key, machine Key) {
	a.claims[key] = assumption{machine: machine, written: a.claims[key].written}
}

// of returns the host that is assumed for a machine. The number of assumptions is the number of claims under way.
func (a *assumeCache) of(machine Key) (key Key, claim assumption, found bool) {
	for key, claim := range a.claims {
		if claim.machine == machine {
			return key, claim, true
		}
	}
	return Key{}, assumption{}, false
}

// confirm keeps a claim that the API server confirmed.
func (a *assumeCache) confirm(stored *bmov1alpha1.BareMetalHost) {
	key := client.ObjectKeyFromObject(stored)
	claim, assumed := a.claims[key]
	if assumed && host.ConsumedBy(stored, claim.machine.Namespace, claim.machine.Name) {
		claim.written = stored
		a.claims[key] = claim
	}
}

// refuse marks the version that a refused write was made from, and says whether the write was a claim. A refused write
// on a host that was claimed before says nothing about the claim: only the confirmed copy is outdated.
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

// observe compares a host from the cache with what is assumed. It says whether something ended that kept other machines
// from the host.
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

// isShown says whether a host from the cache shows how its assumption ended.
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

// forget drops a host that was deleted.
func (a *assumeCache) forget(key Key) {
	delete(a.claims, key)
	delete(a.outdated, key)
}
