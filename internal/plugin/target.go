package plugin

import (
	"fmt"
	"maps"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// arrival judges the target by the objects that arrive there.
type arrival struct {
	*scope
	from *scope

	// foreign are other objects of the target with the kind and name of an object that arrives: see foreignIn.
	foreign map[located]bool

	// owned and named are users of objects of the target, by the UID of the owner and by the name of the Secret. Users do
	// not arrive.
	owned map[types.UID]string
	named map[string]string
}

func (a arrival) obstacles() []pivot.Obstacle {
	if a.identity == a.from.identity {
		return []pivot.Obstacle{pivot.AboutNothing().Blocks(pivot.CodeSameCluster, "name another one with --to-kubeconfig",
			"it is the same cluster as the source")}
	}
	return slices.Concat(a.managerObstacles, a.operatorObstacles(), a.definitionObstacles(), a.providerObstacles(),
		a.attachmentObstacles(), a.overwritten(), a.abandoned(), a.endpointObstacles())
}

// attachmentObstacles returns the HostNetworkAttachments of the source that the target lacks. clusterctl cannot move
// them: see pivot.MoveLabels.
func (a arrival) attachmentObstacles() []pivot.Obstacle {
	var found []pivot.Obstacle
	kind := bmov1alpha1.GroupVersion.WithKind("HostNetworkAttachment").GroupKind()
	for _, name := range slices.Sorted(maps.Keys(a.from.objects[kind])) {
		if _, exists := a.objects[kind][name]; !exists {
			found = append(found, pivot.AboutNamed(kind.Kind, a.namespace, name).Blocks(pivot.CodeNotInTarget,
				"create it in the target", "HostNetworkAttachment %s does not move, and hosts may reference it", name))
		}
	}
	return found
}

// definitionObstacles compares the kinds of BMO and of this provider, the kind Cluster, and the fields of hosts.
// providerObstacles compares the other providers by version.
func (a arrival) definitionObstacles() []pivot.Obstacle {
	there := map[string]definition{}
	for _, known := range a.definitions {
		there[known.Name] = known
	}
	var found []pivot.Obstacle
	for _, wanted := range a.from.definitions {
		if !wanted.ours() && wanted.Kind != clusterKind() || !wanted.moves() {
			continue
		}
		known, exists := there[wanted.Name]
		about := pivot.AboutNamed("CustomResourceDefinition", "", wanted.Name)
		switch {
		case !exists:
			found = append(found, about.Blocks(pivot.CodeDefinitionMissing,
				"install the component that contains it, in the same version as in the source",
				"CustomResourceDefinition %s is missing", wanted.Name))
		case known.Storage != wanted.Storage:
			found = append(found, about.Blocks(pivot.CodeDefinitionDiffers, "install the component in the same version",
				"CustomResourceDefinition %s stores %s, in the source %s", wanted.Name, known.Storage, wanted.Storage))
		}
	}
	return append(found, a.fieldObstacles...)
}

func clusterKind() schema.GroupKind {
	return schema.GroupKind{Group: clusterv1.GroupVersion.Group, Kind: clusterv1.ClusterKind}
}

// providerObstacles compares the providers as clusterctl does: the target must have each provider of the source, in the
// same version or a newer one.
func (a arrival) providerObstacles() []pivot.Obstacle {
	var found []pivot.Obstacle
	for i := range a.from.providers {
		wanted := &a.from.providers[i]
		least, err := version.ParseSemantic(wanted.Version)
		if err != nil {
			found = append(found, unreadable(wanted, " of the source"))
			continue
		}
		newest, unread := a.newest(wanted)
		switch {
		case len(unread) > 0:
			found = append(found, unread...)
		case newest == nil:
			found = append(found, pivot.About("Provider", wanted).Blocks(pivot.CodeProviderMissing,
				fmt.Sprintf("install %s or newer with clusterctl init", wanted.Version),
				"provider %s is missing", wanted.Name))
		case newest.LessThan(least):
			found = append(found, pivot.About("Provider", wanted).Blocks(pivot.CodeProviderOutdated,
				"upgrade it with clusterctl upgrade",
				"provider %s has version v%s, in the source %s", wanted.Name, newest, wanted.Version))
		}
	}
	return found
}

func unreadable(provider *clusterctlv1.Provider, where string) pivot.Obstacle {
	return pivot.About("Provider", provider).Blocks(pivot.CodeProviderUnreadable, "install a release",
		"Provider %s%s has version %q, which clusterctl cannot read", provider.InstanceName(), where, provider.Version)
}

func (a arrival) newest(wanted *clusterctlv1.Provider) (newest *version.Version, unread []pivot.Obstacle) {
	for i := range a.providers {
		if !a.providers[i].SameAs(*wanted) {
			continue
		}
		found, err := version.ParseSemantic(a.providers[i].Version)
		if err != nil {
			return nil, []pivot.Obstacle{unreadable(&a.providers[i], "")}
		}
		if newest == nil || newest.LessThan(found) {
			newest = found
		}
	}
	return newest, nil
}

// overwritten returns obstacles for objects of the target with another owner and the name of an object that arrives.
// clusterctl would overwrite them.
func (a arrival) overwritten() []pivot.Obstacle {
	var found []pivot.Obstacle
	for _, kind := range a.from.kinds() {
		for _, name := range slices.Sorted(maps.Keys(a.from.objects[kind])) {
			arriving := a.from.objects[kind][name]
			if there, exists := a.objects[kind][name]; exists {
				found = append(found, a.overwrites(kind, belongsTo(arriving), there)...)
				if !a.foreign[located{kind, name}] {
					found = append(found, halfDeleted(kind.Kind, there)...)
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.from.secrets)) {
		there, exists := a.secrets[name]
		if owner := belongsTo(a.from.secrets[name]); exists && (owner != "" || pivot.Moves(a.from.secrets[name])) {
			found = append(found, a.overwrites(secretKind(), owner, there)...)
		}
	}
	return slices.Concat(found, a.otherHosts(), a.otherEndpoints())
}

// abandoned returns obstacles for leftovers of an earlier move that the source has lost. Controllers would reconcile
// them when clusterctl unpauses the Cluster: a Machine that was deleted since would exist again.
func (a arrival) abandoned() []pivot.Obstacle {
	var found []pivot.Obstacle
	for _, object := range a.onlyHere() {
		if object.kind != secretKind() {
			found = append(found, pivot.AboutNamed(object.kind.Kind, a.namespace, object.name).Blocks(pivot.CodeTargetOnly,
				"remove it with pivot clean --target",
				"%s is in the target only, left by an earlier move, and controllers would reconcile it", object))
		}
	}
	return found
}

// halfDeleted returns the obstacle of an object that is being deleted here, because the deletion would continue after
// the move. It ignores hosts.
func halfDeleted(kind string, there *metav1.PartialObjectMetadata) []pivot.Obstacle {
	if there.DeletionTimestamp.IsZero() || kind == "BareMetalHost" {
		return nil
	}
	return []pivot.Obstacle{pivot.About(kind, there).Blocks(pivot.CodeLeftover, "remove it with pivot clean --target",
		"%s %s is there already, is being deleted, and its deletion would continue after the move", kind, there.Name)}
}

// overwrites returns no obstacle for an object without an owner, or with the same owner, as after an earlier move, if
// nothing else here uses it.
func (a arrival) overwrites(kind schema.GroupKind, owner string, there *metav1.PartialObjectMetadata) []pivot.Obstacle {
	if other := belongsTo(there); other != "" && other != owner {
		return []pivot.Obstacle{pivot.About(kind.Kind, there).Blocks(pivot.CodeWouldOverwrite,
			"rename one of them, or move to a cluster without it",
			"%s %s is there already, belongs to Cluster %s and would be overwritten", kind.Kind, there.Name, other)}
	}
	if user := a.userOf(located{kind, there.Name}, there); user != "" {
		return []pivot.Obstacle{pivot.About(kind.Kind, there).Blocks(pivot.CodeWouldOverwrite,
			"rename one of them, or move to a cluster without it",
			"%s %s is there already, is used by %s and would be overwritten", kind.Kind, there.Name, user)}
	}
	return nil
}

// belongsTo returns the name of the Cluster of an object. Empty if the object names none.
func belongsTo(object metav1.Object) string {
	if name := object.GetLabels()[clusterv1.ClusterNameLabel]; name != "" {
		return name
	}
	for _, owner := range object.GetOwnerReferences() {
		if owner.Kind == clusterv1.ClusterKind {
			return owner.Name
		}
	}
	return ""
}

// otherHosts returns obstacles for hosts with the same name and another BMC, and for leftovers of an earlier move.
func (a arrival) otherHosts() []pivot.Obstacle {
	arriving := map[string]*bmov1alpha1.BareMetalHost{}
	for _, host := range a.from.hosts {
		arriving[host.Name] = host
	}
	var found []pivot.Obstacle
	for _, there := range a.hosts {
		host, same := arriving[there.Name]
		if !same {
			continue
		}
		if !isOtherMachine(host, there) {
			for _, left := range pivot.Leftover(there) {
				left.Remedy = "remove it with pivot clean --target, or it may stay paused after the move"
				found = append(found, left)
			}
		}
		if there.Spec.BMC.Address != host.Spec.BMC.Address {
			found = append(found, pivot.About("BareMetalHost", there).Blocks(pivot.CodeWouldOverwrite, "rename one of them",
				"BareMetalHost %s is there already, has another spec.bmc.address and would be overwritten", there.Name))
		}
	}
	return found
}

// otherEndpoints returns obstacles for Metal3Clusters with the same name and another endpoint.
func (a arrival) otherEndpoints() []pivot.Obstacle {
	arriving := map[string]*infrav1.Metal3Cluster{}
	for _, infra := range a.from.infras {
		arriving[infra.Name] = infra
	}
	var found []pivot.Obstacle
	for _, there := range a.infras {
		infra, same := arriving[there.Name]
		if same && there.Spec.ControlPlaneEndpoint != infra.Spec.ControlPlaneEndpoint {
			found = append(found, aboutInfra(there).Blocks(pivot.CodeWouldOverwrite, "rename one of them",
				"Metal3Cluster %s is there already, has control-plane endpoint %s, in the source %s, and would be overwritten",
				there.Name, there.Spec.ControlPlaneEndpoint.String(), infra.Spec.ControlPlaneEndpoint.String()))
		}
	}
	return found
}

// endpointObstacles judges the endpoint conditions of a Metal3Cluster that an earlier move has left in the target. The
// manager does not update the conditions of a paused one, such as a leftover of an aborted move.
func (a arrival) endpointObstacles() []pivot.Obstacle {
	var found []pivot.Obstacle
	for _, infra := range a.infras {
		cluster := a.clusterOf(infra)
		if !a.arrives(infra.Name) || cluster == nil || ptr.Deref(cluster.Spec.Paused, false) {
			continue
		}
		if endpoint := pivot.EndpointOutcome(infra); !endpoint.IsDone() {
			found = append(found, aboutInfra(infra).Blocks(pivot.CodeEndpointNotReady, "",
				"Ironic endpoint: %s", endpoint.Message))
		}
		found = append(found, conflictObstacles(infra)...)
	}
	return found
}

func (a arrival) arrives(name string) bool {
	return slices.ContainsFunc(a.from.infras, func(infra *infrav1.Metal3Cluster) bool { return infra.Name == name })
}

func (a arrival) notes() []string {
	notes := []string{a.condition()}
	if len(a.from.providers) == 0 {
		notes = append(notes, "clusterctl has installed nothing in the source: versions of providers were not compared")
	}
	left := 0
	for kind, arriving := range a.from.objects {
		for name := range arriving {
			if _, exists := a.objects[kind][name]; exists {
				left++
			}
		}
	}
	if left > 0 {
		notes = append(notes, fmt.Sprintf("%d objects of an earlier move are in the target: clusterctl updates them", left))
	}
	for _, infra := range a.from.infras {
		known := slices.ContainsFunc(a.infras, func(there *infrav1.Metal3Cluster) bool { return there.Name == infra.Name })
		if infra.Spec.Ironic != nil && !known {
			notes = append(notes, fmt.Sprintf("the hosts stay paused after the move until the target reaches "+
				"the Ironic endpoint of Metal3Cluster %s, which pivot preflight cannot check", infra.Name))
		}
	}
	return notes
}
