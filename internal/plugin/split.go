package plugin

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// contradictions returns why the epochs of both sides allow no course. Running is true if a Cluster of the source runs
// in the target. The first row that matches counts.
//
//	Clusters that both sides have                        contradiction
//	some moved, and others stayed, see divided           each side manages some of them
//	none runs in the target, one has a newer epoch       the target managed it last
//	one runs in the target, and none moved or has a      no move has brought it there
//	newer epoch, or some stayed
//	any others                                           none
func contradictions(source, target *scope, running bool) []pivot.Obstacle {
	newer := newerIn(source, target)
	stayed, moved := divided(source, target)
	switch {
	case len(stayed) > 0 && len(moved) > 0:
		return []pivot.Obstacle{pivot.AboutNamed("Cluster", source.namespace, stayed[0]).Blocks(pivot.CodeMoveUnclear,
			fmt.Sprintf("remove the leftovers of Cluster %s in the source with pivot clean; then move Cluster %s with pivot "+
				"run, or remove its copy in the target with pivot abort", pivot.Enumerate(moved), pivot.Enumerate(stayed)),
			"the target manages Cluster %s, and the source manages Cluster %s, or managed it last", pivot.Enumerate(moved),
			pivot.Enumerate(stayed))}
	case newer != "" && !running:
		return []pivot.Obstacle{pivot.AboutNamed("Metal3Cluster", source.namespace, newer).Blocks(
			pivot.CodeMoveUnclear, "the target managed it last, so unpause the Cluster there with pivot unpause",
			"Metal3Cluster %s of the target has a newer move epoch than that of the source, and its Cluster is paused",
			newer)}
	case running && (newer == "" && len(moved) == 0 || len(stayed) > 0):
		return []pivot.Obstacle{pivot.AboutNothing().Blocks(pivot.CodeMoveUnclear,
			"find out which cluster manages the hosts, and pause the Cluster in the other one",
			"a Cluster of the source runs in the target, and its Metal3Cluster has no newer move epoch there")}
	default:
		return nil
	}
}

// newerIn returns the name of a Metal3Cluster that isNewer in the target. Empty if there is none.
func newerIn(source, target *scope) string {
	for _, there := range target.infras {
		for _, infra := range source.infras {
			if infra.Name == there.Name && isNewer(source, target, infra, there) {
				return there.Name
			}
		}
	}
	return ""
}

// isNewer returns true if the target managed a Metal3Cluster last. An epoch grows when the Cluster is paused and when
// it is unpaused. With the same epoch on both sides, the workload cluster records the side that manages it: see
// pivot.StandingOf. A pause after that does not count. The first row that matches counts.
//
//	source                 target                  newer in the target
//	claimed by the target  runs, is not claimed    yes
//	runs, is not claimed   claimed by the source   no
//	any                    any                     if the epoch is higher
func isNewer(source, target *scope, infra, there *infrav1.Metal3Cluster) bool {
	switch {
	case isClaimedBy(target, infra) && target.managesCluster(there):
		return true
	case isClaimedBy(source, there) && source.managesCluster(infra):
		return false
	default:
		return pivot.EpochOf(there) > pivot.EpochOf(infra)
	}
}

// isClaimedBy returns true if the management cluster of the other side has claimed the cluster of a Metal3Cluster. An
// earlier release has not recorded which management cluster did.
func isClaimedBy(other *scope, infra *infrav1.Metal3Cluster) bool {
	claim := pivot.ClaimElsewhere(infra)
	return pivot.IsSuperseded(infra) && !tookOver(infra) && (claim == nil || claim.Manager == string(other.identity))
}

// managesCluster returns true if the Cluster of a Metal3Cluster runs, and no other management cluster has claimed it.
func (s *scope) managesCluster(infra *infrav1.Metal3Cluster) bool {
	cluster := s.clusterOf(infra)
	return cluster != nil && !isPaused(cluster) && !pivot.IsSuperseded(infra)
}

// divided returns the names of the Clusters that both sides have: those that the target manages have moved, and those
// that the source manages or managed last have stayed. The first row that matches counts for each.
//
//	in the source  in the target  the target                    Cluster
//	paused         paused         has the same epoch of a move  neither: both are copies of one move
//	paused         paused         isNewer                       neither: the target managed it last
//	any            any            is not newer                  stayed
//	runs           paused         isNewer                       stayed: it runs in the source only
//	any            runs           isNewer                       moved
//
// A paused Cluster of the source without its Metal3Cluster has moved if it runs in the target: clusterctl deletes the
// Metal3Cluster before the Cluster.
func divided(source, target *scope) (stayed, moved []string) {
	for _, infra := range source.infras {
		same := func(other *infrav1.Metal3Cluster) bool { return other.Name == infra.Name }
		i := slices.IndexFunc(target.infras, same)
		if i < 0 {
			continue
		}
		here, there := source.clusterOf(infra), target.clusterOf(target.infras[i])
		if here == nil || there == nil {
			continue
		}
		epoch, newer := pivot.EpochOf(infra), isNewer(source, target, infra, target.infras[i])
		isCopy := epoch == pivot.EpochOf(target.infras[i]) && epoch.IsMove()
		switch {
		case isPaused(here) && isPaused(there) && (isCopy || newer):
		case !newer, isPaused(there):
			stayed = append(stayed, here.Name)
		default:
			moved = append(moved, here.Name)
		}
	}
	return stayed, append(moved, movedWithoutInfra(source, target)...)
}

// movedWithoutInfra returns the names of the paused Clusters of the source that have lost their Metal3Cluster and run
// in the target.
func movedWithoutInfra(source, target *scope) []string {
	var names []string
	for _, cluster := range source.clusters {
		runs := func(other *clusterv1.Cluster) bool { return other.Name == cluster.Name && !isPaused(other) }
		isOurs := cluster.Spec.InfrastructureRef.Kind == "Metal3Cluster"
		if isOurs && isPaused(cluster) && source.infraOf(cluster) == nil && slices.ContainsFunc(target.clusters, runs) {
			names = append(names, cluster.Name)
		}
	}
	return names
}

// runningOnly returns the names of the Clusters that run in the source and that the target lacks.
func runningOnly(source, target *scope) []string {
	var names []string
	for _, cluster := range source.clusters {
		same := func(other *clusterv1.Cluster) bool { return other.Name == cluster.Name }
		if !isPaused(cluster) && !slices.ContainsFunc(target.clusters, same) {
			names = append(names, cluster.Name)
		}
	}
	return names
}

// belongingTo returns the UIDs of the objects with the label of one of these Clusters, and of the objects that only
// these own.
func (s *scope) belongingTo(names []string) map[types.UID]bool {
	all, chosen := s.movable(), map[types.UID]bool{}
	isOther := func(owner metav1.OwnerReference) bool { return !chosen[owner.UID] }
	for range maxDepth {
		for _, each := range all {
			name, owners := each.object.Labels[clusterv1.ClusterNameLabel], each.object.OwnerReferences
			if each.kind == clusterKind() {
				name = each.name
			}
			owned := name == "" && len(owners) > 0 && !slices.ContainsFunc(owners, isOther)
			if owned || slices.Contains(names, name) {
				chosen[each.object.UID] = true
			}
		}
	}
	return chosen
}

// of returns the Clusters of these names with the objects that belong to them.
func (s *scope) of(names []string) *scope {
	chosen := s.belongingTo(names)
	keep := func(objects belongings) belongings {
		kept := maps.Clone(objects)
		maps.DeleteFunc(kept, func(_ string, object *metav1.PartialObjectMetadata) bool { return !chosen[object.UID] })
		return kept
	}
	part, seen := *s, *s.sight
	part.sight, part.objects, part.secrets = &seen, map[schema.GroupKind]belongings{}, keep(s.secrets)
	for kind, objects := range s.objects {
		part.objects[kind] = keep(objects)
	}
	seen.clusters, seen.infras = nil, nil
	for _, cluster := range s.clusters {
		if slices.Contains(names, cluster.Name) {
			seen.clusters = append(seen.clusters, cluster)
		}
	}
	for _, infra := range s.infras {
		if slices.Contains(seen.clusters, s.clusterOf(infra)) {
			seen.infras = append(seen.infras, infra)
		}
	}
	return &part
}
