package plugin

import (
	"slices"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// foreignIn returns the objects of the target that have the kind and name of an object of the source, and are no copies
// of it. The first row that matches counts.
//
//	object of the target                                          foreign
//	belongs to a Cluster that the source lacks, and the object    yes
//	of the source does not
//	is a host with another BMC and another boot MAC address       yes
//	has a foreign owner                                           yes: clusterctl copies an object after its owners
//	any other                                                     no
func foreignIn(source, target *scope) map[located]bool {
	foreign := otherMachines(source, target)
	kinds := append(target.kinds(), secretKind())
	for _, kind := range kinds {
		for name, there := range target.all(kind) {
			if here, exists := source.all(kind)[name]; exists && source.isOther(here, there) {
				foreign[located{kind, name}] = true
			}
		}
	}
	for before := 0; before < len(foreign); {
		before = len(foreign)
		for _, kind := range kinds {
			for name, there := range target.all(kind) {
				if source.has(located{kind, name}) && target.isOwnedBy(there, foreign) {
					foreign[located{kind, name}] = true
				}
			}
		}
	}
	return foreign
}

// isOther returns true if an object of the target belongs to a Cluster that the source lacks, and the object of the
// same name in the source does not.
func (s *scope) isOther(here, there metav1.Object) bool {
	owner := belongsTo(there)
	arrives := func(cluster *clusterv1.Cluster) bool { return cluster.Name == owner }
	return owner != "" && owner != belongsTo(here) && !slices.ContainsFunc(s.clusters, arrives)
}

// isOwnedBy returns true if an object has one of these owners.
func (s *scope) isOwnedBy(object metav1.Object, owners map[located]bool) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		each := located{schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind(), owner.Name}
		found := s.all(each.kind)[each.name]
		return owners[each] && found != nil && found.UID == owner.UID
	})
}

// otherMachines returns the hosts of the target that have the name of a host of the source, and are other machines.
func otherMachines(source, target *scope) map[located]bool {
	here := map[string]*bmov1alpha1.BareMetalHost{}
	for _, host := range source.hosts {
		here[host.Name] = host
	}
	found := map[located]bool{}
	for _, there := range target.hosts {
		if host, exists := here[there.Name]; exists && isOtherMachine(host, there) {
			found[located{hostKindOf(), there.Name}] = true
		}
	}
	return found
}

// isOtherMachine returns true for hosts that share neither the BMC address nor the boot MAC address. Two hosts without
// both addresses may be one machine.
func isOtherMachine(one, other *bmov1alpha1.BareMetalHost) bool {
	return !pivot.IsSameMachine(one, other) && (one.Spec.BMC.Address != other.Spec.BMC.Address ||
		!strings.EqualFold(one.Spec.BootMACAddress, other.Spec.BootMACAddress))
}
