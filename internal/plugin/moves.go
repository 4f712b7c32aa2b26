package plugin

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	secretutil "sigs.k8s.io/cluster-api/util/secret"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// takes returns true if clusterctl moves an object and deletes it in the source. A Secret without owners moves with the
// Cluster of its name, such as c-ca. Takes returns false for ClusterClasses and ClusterResourceSets without owners,
// because Clusters of other namespaces may use them.
func (s *scope) takes(kind schema.GroupKind, object *metav1.PartialObjectMetadata) bool {
	forced, _ := s.labelled(kind, object)
	switch {
	case kind == clusterKind(), kind == secretKind() && s.hasClusterOf(object):
		return true
	case object.Namespace == "", !forced && len(object.OwnerReferences) == 0:
		return false
	default:
		moves, _ := s.follow(kind, object, maxDepth)
		return moves
	}
}

// hasClusterOf returns true for a Secret without owners that has the name of a Secret of an existing Cluster: a user
// has created it, for example as the CA.
func (s *scope) hasClusterOf(secret *metav1.PartialObjectMetadata) bool {
	name, _, err := secretutil.ParseSecretName(secret.Name)
	return err == nil && len(secret.OwnerReferences) == 0 && s.all(clusterKind())[name] != nil
}

// follow returns whether clusterctl moves an object, and whether the objects that it owns move with it. clusterctl
// copies an object after all of its owners. The first row that matches counts.
//
//	object                                                    moves  its objects move
//	is a Cluster                                              yes    yes
//	has an owner of a kind that clusterctl does not discover  no     no
//	has an owner that does not move                           no     no
//	has label move-hierarchy, or an owner whose objects move  yes    yes
//	has an owner that does not exist                          yes    yes: an administrator decides
//	has label move                                            yes    no
//	any other                                                 no     no
//
// An object also has the labels of its CRD. In a cycle of owners, no object moves.
func (s *scope) follow(kind schema.GroupKind, object *metav1.PartialObjectMetadata, depth int) (moves, leads bool) {
	if kind == clusterKind() {
		return true, true
	}
	moves, leads = s.labelled(kind, object)
	leads = leads || isHierarchy(kind)
	for _, owner := range object.OwnerReferences {
		kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
		_, discovered := s.objects[kind]
		ownerMoves := discovered || kind == secretKind()
		ownerLeads := ownerMoves
		if found := s.all(kind)[owner.Name]; found != nil && found.UID == owner.UID {
			ownerMoves, ownerLeads = false, false
			if depth > 0 {
				ownerMoves, ownerLeads = s.follow(kind, found, depth-1)
			}
		}
		if !ownerMoves {
			return false, false
		}
		leads = leads || ownerLeads
	}
	return moves || leads, leads
}

// isHierarchy returns true for the kinds besides Cluster whose objects clusterctl moves without a label.
func isHierarchy(kind schema.GroupKind) bool {
	return kind == schema.GroupKind{Group: clusterv1.GroupVersion.Group, Kind: clusterv1.ClusterClassKind} ||
		kind == schema.GroupKind{Group: addonsv1.GroupVersion.Group, Kind: "ClusterResourceSet"}
}

// labelled returns whether an object or its CRD has the label move or move-hierarchy, and whether it has the latter.
func (s *scope) labelled(kind schema.GroupKind, object *metav1.PartialObjectMetadata) (moves, leads bool) {
	sources := []map[string]string{object.Labels}
	for _, definition := range s.definitions {
		if definition.Kind == kind {
			sources = append(sources, definition.Labels)
		}
	}
	for _, labels := range sources {
		_, whole := labels[infrav1.MoveLabel]
		_, hierarchy := labels[infrav1.MoveHierarchyLabel]
		moves, leads = moves || whole || hierarchy, leads || hierarchy
	}
	return moves, leads
}

// ownedOnlyBy returns true if an object has one of these owners, and no other owner that exists. An owner of a kind
// that the scope lacks may exist.
func (s *scope) ownedOnlyBy(object metav1.Object, owners map[types.UID]bool) bool {
	owned := false
	for _, owner := range object.GetOwnerReferences() {
		if owners[owner.UID] {
			owned = true
			continue
		}
		kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
		_, isRead := s.objects[kind]
		found := s.all(kind)[owner.Name]
		if !isRead && kind != secretKind() || found != nil && found.UID == owner.UID {
			return false
		}
	}
	return owned
}

// maxDepth limits chains of owners. The longest chain is Cluster, MachineDeployment, MachineSet, Machine, data, Secret.
const maxDepth = 16

// depthsOf returns the number of owners above each object. It ends in a cycle of owners.
func depthsOf(s *scope) map[types.UID]int {
	owners, depths := map[types.UID][]metav1.OwnerReference{}, map[types.UID]int{}
	for _, kind := range append(s.kinds(), secretKind()) {
		for _, object := range s.belongingsOf(kind) {
			owners[object.UID] = object.OwnerReferences
		}
	}
	for range maxDepth {
		for uid, references := range owners {
			for _, owner := range references {
				if _, known := owners[owner.UID]; known {
					depths[uid] = max(depths[uid], min(depths[owner.UID]+1, maxDepth))
				}
			}
		}
	}
	return depths
}

// all returns the objects of a kind.
func (s *scope) all(kind schema.GroupKind) belongings {
	if kind == secretKind() {
		return s.secrets
	}
	return s.objects[kind]
}

// belongingsOf returns the objects of a kind. It returns only Secrets that clusterctl moves.
func (s *scope) belongingsOf(kind schema.GroupKind) belongings {
	if kind != secretKind() {
		return s.objects[kind]
	}
	moving := belongings{}
	for name, secret := range s.secrets {
		if s.takes(kind, secret) {
			moving[name] = secret
		}
	}
	return moving
}
