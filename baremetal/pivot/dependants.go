package pivot

import (
	"cmp"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Dependants are the hosts of one namespace that an Ironic serves.
type Dependants struct {
	Namespace string
	Hosts     int
}

// DependantsOf returns the sorted namespaces whose hosts the Ironic of a clusterID serves, from all hosts and
// Metal3Clusters of one management cluster. BMO has one Ironic for all its namespaces.
//
//	host                                                    is served
//	without spec.bmc.address, or being deleted by a move    no: BMO does not register it with Ironic
//	in a namespace with an endpoint of this clusterID       yes
//	in a namespace with endpoints of other clusterIDs only  no
//	in a namespace without an endpoint                      yes, unless other clusterIDs exist: see servedBy
func DependantsOf(clusterID string, hosts []*bmov1alpha1.BareMetalHost, infras []*infrav1.Metal3Cluster) []Dependants {
	endpoints, single := map[string]map[string]bool{}, true
	for _, infra := range infras {
		if infra.Spec.Ironic == nil {
			continue
		}
		if endpoints[infra.Namespace] == nil {
			endpoints[infra.Namespace] = map[string]bool{}
		}
		endpoints[infra.Namespace][infra.Spec.Ironic.ClusterID] = true
		single = single && infra.Spec.Ironic.ClusterID == clusterID
	}
	counts := map[string]int{}
	for _, host := range hosts {
		own := endpoints[host.Namespace]
		if host.Spec.BMC.Address != "" && !infrav1.IsLeaving(host) && (own[clusterID] || len(own) == 0 && single) {
			counts[host.Namespace]++
		}
	}
	found := make([]Dependants, 0, len(counts))
	for namespace, count := range counts {
		found = append(found, Dependants{Namespace: namespace, Hosts: count})
	}
	slices.SortFunc(found, func(a, b Dependants) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return found
}

// StillServed returns an obstacle for a namespace whose hosts depend on the Ironic that a handover scales down.
func StillServed(clusterID string, dependants Dependants) Obstacle {
	return AboutNamed("Namespace", "", dependants.Namespace).Blocks(CodeIronicStillNeeded,
		"move the namespace before the handover",
		"namespace %s of the management cluster has %d hosts that depend on the Ironic of clusterID %s",
		dependants.Namespace, dependants.Hosts, clusterID)
}
