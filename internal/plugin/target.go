package plugin

import (
	"fmt"
	"maps"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// arrival judges the cluster that is moved to, by what is to arrive there.
type arrival struct {
	*scope
	from *scope
}

func (a arrival) obstacles() []string {
	if a.identity == a.from.identity {
		return []string{"it is the same cluster as the source: name another one with --to-kubeconfig"}
	}
	var found []string
	if a.managerProblem != "" {
		found = append(found, a.managerProblem)
	}
	found = append(found, a.operatorProblems()...)
	found = append(found, a.definitionObstacles()...)
	found = append(found, a.providerObstacles()...)
	found = append(found, a.strangers()...)
	found = append(found, a.abandoned()...)
	return append(found, a.endpointObstacles()...)
}

// definitionObstacles compares the kinds of BMO, of this provider, and the one that clusterctl looks at
// itself. Other providers are compared by the versions that clusterctl has installed.
func (a arrival) definitionObstacles() []string {
	there := map[string]definition{}
	for _, known := range a.definitions {
		there[known.Name] = known
	}
	var found []string
	for _, wanted := range a.from.definitions {
		if !wanted.ours() && wanted.Kind != clusterKind() || !wanted.moves() {
			continue
		}
		known, exists := there[wanted.Name]
		switch {
		case !exists:
			found = append(found, fmt.Sprintf("CustomResourceDefinition %s is missing: install what brings it, "+
				"in the same version as in the source", wanted.Name))
		case known.Storage != wanted.Storage:
			found = append(found, fmt.Sprintf("CustomResourceDefinition %s stores %s, in the source %s: "+
				"install the same version of what brings it", wanted.Name, known.Storage, wanted.Storage))
		}
	}
	return found
}

func clusterKind() schema.GroupKind {
	return schema.GroupKind{Group: clusterv1.GroupVersion.Group, Kind: clusterv1.ClusterKind}
}

// providerObstacles is the comparison that clusterctl makes: each provider of the source has to be in the target, and
// to be at least as new.
func (a arrival) providerObstacles() []string {
	var found []string
	for i := range a.from.providers {
		wanted := &a.from.providers[i]
		least, err := version.ParseSemantic(wanted.Version)
		if err != nil {
			found = append(found, fmt.Sprintf("Provider %s of the source has version %q, which clusterctl cannot read: "+
				"install a release", wanted.InstanceName(), wanted.Version))
			continue
		}
		newest, problem := a.newest(wanted)
		switch {
		case problem != "":
			found = append(found, problem)
		case newest == nil:
			found = append(found, fmt.Sprintf("provider %s is missing: install %s or newer with clusterctl init",
				wanted.Name, wanted.Version))
		case newest.LessThan(least):
			found = append(found, fmt.Sprintf("provider %s has version v%s, in the source %s: "+
				"upgrade it with clusterctl upgrade", wanted.Name, newest, wanted.Version))
		}
	}
	return found
}

func (a arrival) newest(wanted *clusterctlv1.Provider) (newest *version.Version, problem string) {
	for i := range a.providers {
		if !a.providers[i].SameAs(*wanted) {
			continue
		}
		found, err := version.ParseSemantic(a.providers[i].Version)
		if err != nil {
			return nil, fmt.Sprintf("Provider %s has version %q, which clusterctl cannot read: install a release",
				a.providers[i].InstanceName(), a.providers[i].Version)
		}
		if newest == nil || newest.LessThan(found) {
			newest = found
		}
	}
	return newest, ""
}

// strangers names the objects that clusterctl would overwrite although they are something else: it goes by names.
func (a arrival) strangers() []string {
	var found []string
	for _, kind := range a.from.kinds() {
		for _, name := range slices.Sorted(maps.Keys(a.from.objects[kind])) {
			arriving := a.from.objects[kind][name]
			if there, exists := a.objects[kind][name]; exists {
				found = append(found, a.stranger(kind.Kind, belongsTo(arriving), there)...)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.from.secrets)) {
		there, exists := a.secrets[name]
		if owner := belongsTo(a.from.secrets[name]); exists && owner != "" {
			found = append(found, a.stranger("Secret", owner, there)...)
		}
	}
	return append(append(found, a.otherHosts()...), a.otherEndpoints()...)
}

// abandoned names the objects that an earlier move has left in the target, and that are no longer in the source. They
// would come alive when clusterctl unpauses the Cluster: a Machine that was deleted in the meantime would be back.
func (a arrival) abandoned() []string {
	var found []string
	for _, object := range a.onlyHere() {
		if object.kind != secretKind() {
			found = append(found, fmt.Sprintf("%s is in the target only, left by an earlier move, and would come alive: "+
				"remove it as docs/pivot.md says", object))
		}
	}
	return found
}

// stranger is empty for an object that an earlier move has left, or that belongs to nobody.
func (a arrival) stranger(kind, owner string, there *metav1.PartialObjectMetadata) []string {
	other := belongsTo(there)
	if other == "" || other == owner {
		return nil
	}
	return []string{fmt.Sprintf("%s %s is there already, belongs to Cluster %s and would be overwritten: "+
		"rename one of them, or move to a cluster without it", kind, there.Name, other)}
}

// belongsTo is the Cluster that an object says it belongs to. Empty if it does not say.
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

// otherHosts names hosts that are another machine under the same name, and those that an earlier move has left.
func (a arrival) otherHosts() []string {
	arriving := map[string]*bmov1alpha1.BareMetalHost{}
	for _, host := range a.from.hosts {
		arriving[host.Name] = host
	}
	var found []string
	for _, there := range a.hosts {
		host, same := arriving[there.Name]
		if left := pivot.Leftover(there); same && left != "" {
			found = append(found, left)
		}
		if same && there.Spec.BMC.Address != host.Spec.BMC.Address {
			found = append(found, fmt.Sprintf("BareMetalHost %s is there already, has another spec.bmc.address "+
				"and would be overwritten: rename one of them", there.Name))
		}
	}
	return found
}

// otherEndpoints names Metal3Clusters that are another cluster under the same name.
func (a arrival) otherEndpoints() []string {
	arriving := map[string]*infrav1.Metal3Cluster{}
	for _, infra := range a.from.infras {
		arriving[infra.Name] = infra
	}
	var found []string
	for _, there := range a.infras {
		infra, same := arriving[there.Name]
		if same && there.Spec.ControlPlaneEndpoint != infra.Spec.ControlPlaneEndpoint {
			found = append(found, fmt.Sprintf("Metal3Cluster %s is there already, has control-plane endpoint %s, "+
				"in the source %s, and would be overwritten: rename one of them", there.Name,
				there.Spec.ControlPlaneEndpoint.String(), infra.Spec.ControlPlaneEndpoint.String()))
		}
	}
	return found
}

// endpointObstacles judges what the target says of the endpoint, if an earlier move has left a Metal3Cluster there. Of
// one that is paused, as a move that was given up leaves it, nobody says anything.
func (a arrival) endpointObstacles() []string {
	var found []string
	for _, infra := range a.infras {
		cluster := a.clusterOf(infra)
		if !a.arrives(infra.Name) || cluster == nil || ptr.Deref(cluster.Spec.Paused, false) {
			continue
		}
		if endpoint := pivot.EndpointOutcome(infra); !endpoint.IsDone() {
			found = append(found, "Ironic endpoint: "+endpoint.Message)
		}
		found = append(found, rivalObstacles(infra)...)
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
			notes = append(notes, fmt.Sprintf("whether the target reaches the Ironic endpoint of Metal3Cluster %s "+
				"shows after the move: until then the hosts stay paused", infra.Name))
		}
	}
	return notes
}
