package hoststore

import (
	"cmp"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// pool holds the cached hosts without a machine, by namespace. The lock of the store guards all methods.
type pool map[string]*ring

// ring holds the hosts of one namespace in the order in which host.Choose prefers them. Each machine starts at its own
// position, so most machines check host.Near hosts, independent of the number of hosts.
type ring struct {
	entries []entry

	// reserved counts the hosts by the value of their node-reuse label.
	reserved map[string]int
}

type entry struct {
	order uint64
	host  *bmov1alpha1.BareMetalHost
}

// find returns the position of a host on the ring, or the position to insert it at.
func (r *ring) find(name string) (at int, found bool) {
	return slices.BinarySearchFunc(r.entries, entry{order: host.Order(name)}, func(current, wanted entry) int {
		return cmp.Or(cmp.Compare(current.order, wanted.order), cmp.Compare(current.host.Name, name))
	})
}

// update stores the current version of a host. It removes a host that has a machine.
func (p pool) update(current *bmov1alpha1.BareMetalHost) {
	p.remove(current)
	if !host.InPool(current) {
		return
	}
	r := p[current.Namespace]
	if r == nil {
		r = &ring{reserved: map[string]int{}}
		p[current.Namespace] = r
	}
	at, _ := r.find(current.Name)
	r.entries = slices.Insert(r.entries, at, entry{host.Order(current.Name), current})
	if owner := current.Labels[infrav1.NodeReuseLabel]; owner != "" {
		r.reserved[owner]++
	}
}

func (p pool) remove(gone *bmov1alpha1.BareMetalHost) {
	r := p[gone.Namespace]
	if r == nil {
		return
	}
	at, found := r.find(gone.Name)
	if !found {
		return
	}
	if owner := r.entries[at].host.Labels[infrav1.NodeReuseLabel]; owner != "" {
		if r.reserved[owner]--; r.reserved[owner] == 0 {
			delete(r.reserved, owner)
		}
	}
	r.entries = slices.Delete(r.entries, at, at+1)
	if len(r.entries) == 0 {
		delete(p, gone.Namespace)
	}
}

// hosts returns the candidates for a machine: at most host.Near hosts that pass, but all hosts if one is reserved for
// the owner of the machine.
func (p pool) hosts(wanted host.Wanted, candidate func(*bmov1alpha1.BareMetalHost) host.Candidate,
) []*bmov1alpha1.BareMetalHost {
	r := p[wanted.Namespace]
	if r == nil {
		return nil
	}
	if wanted.Owner != "" && r.reserved[wanted.Owner] > 0 {
		all := make([]*bmov1alpha1.BareMetalHost, 0, len(r.entries))
		for _, current := range r.entries {
			all = append(all, current.host)
		}
		return all
	}
	return r.next(wanted, candidate)
}

// next returns the first host.Near hosts that pass, from the position of the machine on. It returns hosts of other
// failure domains only if no host of the wanted one passes.
func (r *ring) next(wanted host.Wanted, candidate func(*bmov1alpha1.BareMetalHost) host.Candidate,
) []*bmov1alpha1.BareMetalHost {
	begin, _ := r.find(wanted.Machine)
	var inDomain, others []*bmov1alpha1.BareMetalHost
	for i := 0; i < len(r.entries) && len(inDomain) < host.Near; i++ {
		current := r.entries[(begin+i)%len(r.entries)].host
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
