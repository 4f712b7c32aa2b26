package hoststore

import (
	"maps"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// pool holds the hosts without a machine as the cache showed them, by namespace and name. The lock of the store guards
// all methods.
type pool map[string]map[string]*bmov1alpha1.BareMetalHost

// keep notes a host that the cache shows.
func (p pool) keep(current *bmov1alpha1.BareMetalHost) {
	if !host.InPool(current) {
		p.remove(current)
		return
	}
	if p[current.Namespace] == nil {
		p[current.Namespace] = map[string]*bmov1alpha1.BareMetalHost{}
	}
	p[current.Namespace][current.Name] = current
}

// remove drops a host that has a machine or was deleted.
func (p pool) remove(gone *bmov1alpha1.BareMetalHost) { delete(p[gone.Namespace], gone.Name) }

// hosts returns the hosts of a namespace in any order.
func (p pool) hosts(namespace string) []*bmov1alpha1.BareMetalHost {
	return slices.Collect(maps.Values(p[namespace]))
}
