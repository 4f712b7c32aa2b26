package hoststore

import (
	"cmp"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// pool holds the hosts without a machine as the cache showed them, by namespace. The lock of the store guards all
// methods.
type pool map[string]*ring

// ring holds the hosts of one namespace in the order in which host.Choose prefers them. Each machine begins at its own
// place, so most machines look at host.Near hosts, however many hosts there are.
type ring struct {
	spots []spot

	// reserved counts the hosts by the value of their node-reuse label.
	reserved map[string]int
}

// spot is where a host is on the ring.
type spot struct {
	order uint64
	host  *bmov1alpha1.BareMetalHost
}

// find returns the position of a host on the ring, or where to insert it.
func (r *ring) find(name string) (at int, found bool) {
	return slices.BinarySearchFunc(r.spots, spot{order: host.Order(name)}, func(current, wanted spot) int {
		return cmp.Or(cmp.Compare(current.order, wanted.order), cmp.Compare(current.host.Name, name))
	})
}

// keep notes a host that the cache shows.
func (p pool) keep(current *bmov1alpha1.BareMetalHost) {
	p.remove(current)
	if !host.InPool(current) {
		return
	}
	here := p[current.Namespace]
	if here == nil {
		here = &ring{reserved: map[string]int{}}
		p[current.Namespace] = here
	}
	at, _ := here.find(current.Name)
	here.spots = slices.Insert(here.spots, at, spot{host.Order(current.Name), current})
	if owner := current.Labels[infrav1.NodeReuseLabel]; owner != "" {
		here.reserved[owner]++
	}
}

// remove drops a host that has a machine or was deleted.
func (p pool) remove(gone *bmov1alpha1.BareMetalHost) {
	here := p[gone.Namespace]
	if here == nil {
		return
	}
	at, found := here.find(gone.Name)
	if !found {
		return
	}
	if owner := here.spots[at].host.Labels[infrav1.NodeReuseLabel]; owner != "" {
		if here.reserved[owner]--; here.reserved[owner] == 0 {
			delete(here.reserved, owner)
		}
	}
	here.spots = slices.Delete(here.spots, at, at+1)
	if len(here.spots) == 0 {
		delete(p, gone.Namespace)
	}
}

// hosts returns the hosts that a machine must choose from: at most host.Near of them, unless a host is reserved for its
// owner, and none if no host passes.
func (p pool) hosts(wanted host.Wanted, candidate func(*bmov1alpha1.BareMetalHost) host.Candidate,
) []*bmov1alpha1.BareMetalHost {
	here := p[wanted.Namespace]
	if here == nil {
		return nil
	}
	if wanted.Owner != "" && here.reserved[wanted.Owner] > 0 {
		all := make([]*bmov1alpha1.BareMetalHost, 0, len(here.spots))
		for _, current := range here.spots {
			all = append(all, current.host)
		}
		return all
	}
	return here.next(wanted, candidate)
}

// next returns the next hosts after the place of a machine that pass. Hosts of the wanted failure domain come before
// others.
func (r *ring) next(wanted host.Wanted, candidate func(*bmov1alpha1.BareMetalHost) host.Candidate,
) []*bmov1alpha1.BareMetalHost {
	begin, _ := r.find(wanted.Machine)
	var here, elsewhere []*bmov1alpha1.BareMetalHost
	for i := 0; i < len(r.spots) && len(here) < host.Near; i++ {
		current := r.spots[(begin+i)%len(r.spots)].host
		into := &here
		if wanted.FailureDomain != "" && current.Labels[infrav1.FailureDomainLabel] != wanted.FailureDomain {
			into = &elsewhere
		}
		if len(*into) < host.Near && host.Check(candidate(current), wanted) == "" {
			*into = append(*into, current)
		}
	}
	if len(here) > 0 {
		return here
	}
	return elsewhere
}
