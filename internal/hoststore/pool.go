package hoststore

import (
	"cmp"
	"maps"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// pool holds the cached hosts without a machine. The lock of the store guards all methods.
type pool struct{ rings map[string]*ring }

// ring holds the hosts of one namespace without a machine.
type ring struct {
	hosts map[string]*bmov1alpha1.BareMetalHost

	// claimable holds the hosts that any machine may claim if it selects them, in the order in which host.Choose prefers
	// them. Each machine starts at its own position, so most machines check host.Near hosts.
	claimable []entry

	// reserved holds the hosts with a node-reuse label by its value and by their names.
	reserved map[string]map[string]*bmov1alpha1.BareMetalHost
}

type entry struct {
	order uint64
	host  *bmov1alpha1.BareMetalHost
}

func newPool() pool { return pool{rings: map[string]*ring{}} }

// update stores the current version of a host. It removes a host that has a machine. It returns true if a machine that
// found no host may find one now.
func (p *pool) update(current *bmov1alpha1.BareMetalHost) (gained bool) {
	if !host.InPool(current) {
		return p.set(current.Namespace, current.Name, nil)
	}
	return p.set(current.Namespace, current.Name, current)
}

// set stores a host. Nil removes it.
func (p *pool) set(namespace, name string, current *bmov1alpha1.BareMetalHost) (gained bool) {
	r := p.rings[namespace]
	if r == nil {
		if current == nil {
			return false
		}
		r = &ring{
			hosts: map[string]*bmov1alpha1.BareMetalHost{}, reserved: map[string]map[string]*bmov1alpha1.BareMetalHost{},
		}
		p.rings[namespace] = r
	}
	before := r.hosts[name]
	r.setReserved(before, current)
	r.setClaimable(before, current)
	if current == nil {
		delete(r.hosts, name)
	} else {
		r.hosts[name] = current
	}
	if len(r.hosts) == 0 {
		delete(p.rings, namespace)
	}
	return isGain(before, current)
}

// isGain returns true if a machine that could not claim the host before may claim it now, and for each change of a
// reservation: its end lets a machine claim another host.
func isGain(before, current *bmov1alpha1.BareMetalHost) bool {
	if reservation(before) != "" || reservation(current) != "" {
		return true
	}
	return isClaimable(current) && (!isClaimable(before) || !maps.Equal(before.Labels, current.Labels))
}

// isClaimable returns false for nil.
func isClaimable(current *bmov1alpha1.BareMetalHost) bool {
	return current != nil && host.Claimable(current)
}

// reservation returns the value of the node-reuse label, empty for nil.
func reservation(current *bmov1alpha1.BareMetalHost) string {
	if current == nil {
		return ""
	}
	return current.Labels[infrav1.NodeReuseLabel]
}

func (r *ring) setReserved(before, current *bmov1alpha1.BareMetalHost) {
	if owner := reservation(before); owner != "" {
		delete(r.reserved[owner], before.Name)
		if len(r.reserved[owner]) == 0 {
			delete(r.reserved, owner)
		}
	}
	if owner := reservation(current); owner != "" {
		if r.reserved[owner] == nil {
			r.reserved[owner] = map[string]*bmov1alpha1.BareMetalHost{}
		}
		r.reserved[owner][current.Name] = current
	}
}

// setClaimable replaces a host in place if it stays claimable. To insert or remove a host moves half of the others in
// memory, which takes two microseconds for 5000 of them, and happens once for each claim and each release.
func (r *ring) setClaimable(before, current *bmov1alpha1.BareMetalHost) {
	switch was, is := isClaimable(before), isClaimable(current); {
	case was && is:
		at, _ := r.find(current.Name)
		r.claimable[at].host = current
	case was:
		at, _ := r.find(before.Name)
		r.claimable = slices.Delete(r.claimable, at, at+1)
	case is:
		at, _ := r.find(current.Name)
		r.claimable = slices.Insert(r.claimable, at, entry{host.Order(current.Name), current})
	}
}

// find returns the position of a claimable host on the ring, or the position to insert it at.
func (r *ring) find(name string) (at int, found bool) {
	return slices.BinarySearchFunc(r.claimable, entry{order: host.Order(name)}, func(current, wanted entry) int {
		return cmp.Or(cmp.Compare(current.order, wanted.order), cmp.Compare(current.host.Name, name))
	})
}

// candidates returns the hosts that a machine may choose from: the hosts that are reserved for its owner, and at most
// host.Near others that pass.
func (p *pool) candidates(wanted host.Wanted, candidate func(*bmov1alpha1.BareMetalHost) host.Candidate,
) []*bmov1alpha1.BareMetalHost {
	r := p.rings[wanted.Namespace]
	if r == nil {
		return nil
	}
	found := r.next(wanted, candidate)
	if wanted.Owner == "" {
		return found
	}
	return slices.AppendSeq(found, maps.Values(r.reserved[wanted.Owner]))
}

// offered returns the first of some hosts that passes and that the machine prefers to any other one. It returns nil if
// there is none.
func (p *pool) offered(names []string, wanted host.Wanted,
	candidate func(*bmov1alpha1.BareMetalHost) host.Candidate,
) *bmov1alpha1.BareMetalHost {
	r := p.rings[wanted.Namespace]
	if r == nil {
		return nil
	}
	for _, name := range names {
		current := r.hosts[name]
		if current == nil || host.Check(candidate(current), wanted) != "" {
			continue
		}
		inDomain := wanted.FailureDomain == "" || current.Labels[infrav1.FailureDomainLabel] == wanted.FailureDomain
		if host.ReservedFor(current, wanted) || inDomain && (wanted.Owner == "" || len(r.reserved[wanted.Owner]) == 0) {
			return current
		}
	}
	return nil
}

// next returns the first host.Near claimable hosts that pass, from the position of the machine on. It returns hosts of
// other failure domains only if no host of the wanted one passes.
func (r *ring) next(wanted host.Wanted, candidate func(*bmov1alpha1.BareMetalHost) host.Candidate,
) []*bmov1alpha1.BareMetalHost {
	begin, _ := r.find(wanted.Machine)
	var inDomain, others []*bmov1alpha1.BareMetalHost
	for i := 0; i < len(r.claimable) && len(inDomain) < host.Near; i++ {
		current := r.claimable[(begin+i)%len(r.claimable)].host
		into := &inDomain
		if wanted.FailureDomain != "" && current.Labels[infrav1.FailureDomainLabel] != wanted.FailureDomain {
			into = &others
		}
		if len(*into) < host.Near && host.Check(candidate(current), wanted) == "" {
			*into = append(*into, current)
		}
	}
	if len(inDomain) > 0 {
		return inDomain
	}
	return others
}
