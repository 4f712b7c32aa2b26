package plugin

import (
	"fmt"
	"maps"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// departure judges the source.
type departure struct{ *scope }

func (s departure) obstacles() []pivot.Obstacle {
	found := slices.Clone(s.managerObstacles)
	if !slices.ContainsFunc(s.around, func(other pivot.Neighbour) bool { return !other.Elsewhere }) {
		found = append(found, s.nothingToMove())
	}
	found = append(found, pivot.Obstacles(s.facts())...)
	found = append(found, s.classObstacles()...)
	for _, name := range s.unlabelled {
		found = append(found, pivot.AboutNamed("CustomResourceDefinition", "", name).Blocks(pivot.CodeMoveLabelMissing,
			fmt.Sprintf("set label %s on it, and %s if its objects have no owner", infrav1.DiscoverLabel, infrav1.MoveLabel),
			"CustomResourceDefinition %s has no label, so clusterctl would leave its objects behind", name))
	}
	for _, infra := range s.infras {
		found = append(found, s.endpointObstacles(infra)...)
	}
	if len(found) > 0 {
		return found
	}
	for _, infra := range s.infras {
		// The manager judges no Metal3Cluster that an external system manages.
		if !annotations.IsExternallyManaged(infra) {
			found = append(found, managerDoubts(infra)...)
		}
	}
	return found
}

func (s departure) nothingToMove() pivot.Obstacle {
	about := pivot.AboutNamed("Namespace", "", s.namespace)
	if len(s.hosts) == 0 {
		return about.Blocks(pivot.CodeNothingToMove, "name another namespace with --namespace",
			"no Cluster has a Metal3Cluster, and there is no host")
	}
	return about.Blocks(pivot.CodeNothingToMove, "move them together with a Cluster",
		"no Cluster has a Metal3Cluster, so the manager does not pause the %d hosts and keep their status", len(s.hosts))
}

// facts returns the facts that all Metal3Clusters of the namespace share.
func (s departure) facts() pivot.MoveFacts {
	facts := pivot.MoveFacts{
		Namespace: s.namespace, Hosts: s.hosts, Around: s.around,
		Clusters: s.clusters, Machines: s.machines, Infras: s.infras,
		PausedClasses: s.localClasses(), Remediations: s.remediations, Naming: slices.Clone(s.naming), Secrets: s.secrets,
		OpenPools: s.openPools,
	}
	for _, infra := range s.infras {
		facts.Naming = append(facts.Naming, infra)
	}
	facts.Others = s.others()
	for kind, objects := range s.objects {
		if ownsMachines(kind) {
			for _, owner := range objects {
				facts.AddOwner(kind.Kind, owner)
			}
		}
	}
	for _, definition := range s.definitions {
		facts.AddDefinition(definition.Name, definition.Labels)
	}
	return facts
}

// ownsMachines returns true for kinds whose objects own Machines.
func ownsMachines(kind schema.GroupKind) bool {
	return kind.Group == controlplanev1.GroupVersion.Group || kind.Group == clusterv1.GroupVersion.Group &&
		slices.Contains([]string{"MachineDeployment", "MachineSet", "MachinePool"}, kind.Kind)
}

// others returns the other objects that could move, by their names in messages.
func (s departure) others() map[string]metav1.Object {
	others := map[string]metav1.Object{}
	for kind, objects := range s.objects {
		switch kind.Kind {
		case "Cluster", "Machine", "BareMetalHost", "Metal3Cluster", "Metal3Machine", "Metal3MachineTemplate",
			"BMCEventSubscription", "HostClaim":
			continue
		}
		for name, object := range objects {
			others[kind.Kind+" "+name] = object
		}
	}
	return others
}

// endpointObstacles returns the obstacles of the endpoint of one Metal3Cluster. They name it if there are several.
func (s departure) endpointObstacles(infra *infrav1.Metal3Cluster) []pivot.Obstacle {
	bare, unknown := pivot.BareNodes(infra)
	found := pivot.EndpointObstacles(pivot.EndpointFacts{
		Infra: aboutInfra(infra), Endpoint: pivot.EndpointOutcome(infra), BareNodes: bare, NodesUnknown: unknown,
	})
	found = append(found, conflictObstacles(infra)...)
	if len(s.infras) > 1 {
		for i := range found {
			found[i].Message = fmt.Sprintf("Metal3Cluster %s: %s", infra.Name, found[i].Message)
		}
	}
	return found
}

// conflictObstacles returns obstacles for conflicting users of the VIP or the virtual router ID of the Ironic endpoint.
// The manager compares the Metal3Clusters of all namespaces that it watches. Until it has done so, the obstacle of an
// endpoint that is not observed yet stands for the conflict.
func conflictObstacles(infra *infrav1.Metal3Cluster) []pivot.Obstacle {
	condition := meta.FindStatusCondition(infra.Status.Conditions, infrav1.IronicEndpointUniqueCondition)
	if infra.Spec.Ironic == nil || condition == nil || condition.Status == metav1.ConditionTrue ||
		condition.Reason == infrav1.NotYetObservedReason {
		return nil
	}
	return []pivot.Obstacle{
		aboutInfra(infra).Blocks(pivot.CodeEndpointTaken, "", "Ironic endpoint: %s", condition.Message),
	}
}

func aboutInfra(infra *infrav1.Metal3Cluster) pivot.Subject {
	return pivot.About("Metal3Cluster", infra)
}

// managerDoubts returns the obstacles that only the manager observes, such as the pods of the nodes. It is called last,
// because ReadyForMove repeats the other obstacles.
func managerDoubts(infra *infrav1.Metal3Cluster) []pivot.Obstacle {
	condition := meta.FindStatusCondition(infra.Status.Conditions, infrav1.ReadyForMoveCondition)
	switch {
	case condition == nil:
		return []pivot.Obstacle{aboutInfra(infra).Blocks(pivot.CodeManagerNotReady, "see its log",
			"the manager has not judged Metal3Cluster %s yet", infra.Name)}
	case condition.Status != metav1.ConditionTrue:
		return []pivot.Obstacle{aboutInfra(infra).Blocks(pivot.CodeManagerNotReady, "",
			"ReadyForMove of Metal3Cluster %s is not true: %s", infra.Name, condition.Message)}
	default:
		return nil
	}
}

func (s departure) notes() []string {
	var notes []string
	for _, host := range s.hosts {
		by, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
		switch {
		case paused && by != infrav1.HostPausedByProvider:
			notes = append(notes, fmt.Sprintf("host %s was paused by a user and stays paused", host.Name))
		case unowned(host):
			notes = append(notes, fmt.Sprintf("host %s runs an image and has no Metal3Machine: it moves unchanged", host.Name))
		case host.Status.ErrorType != "":
			notes = append(notes, fmt.Sprintf("host %s has a %s, and keeps it in the target", host.Name,
				host.Status.ErrorType))
		}
	}
	notes = slices.Concat(notes, s.dependants, s.unowned())
	for _, infra := range s.infras {
		if infra.Status.Ironic == nil {
			continue
		}
		for _, node := range infra.Status.Ironic.Nodes {
			if node.ConfigHash != "" && !ptr.Deref(node.PodsReady, false) {
				notes = append(notes, fmt.Sprintf("the pods of the Ironic endpoint on node %s are not ready: "+
					"check these pods before the handover", node.Name))
			}
		}
	}
	return notes
}

// unowned returns true for a host with an image and without a Metal3Machine.
func unowned(host *bmov1alpha1.BareMetalHost) bool {
	return host.Status.Provisioning.State == bmov1alpha1.StateProvisioned && host.Spec.ConsumerRef == nil
}

// unowned returns notes about objects that do not move. An administrator must decide whether they are required.
func (s departure) unowned() []string {
	var notes []string
	for _, definition := range s.definitions {
		_, labelled := definition.Labels[infrav1.MoveLabel]
		// Attachments that the target lacks are an obstacle.
		if labelled || !definition.ours() || definition.Name == pivot.AttachmentDefinition {
			continue
		}
		objects := s.objects[definition.Kind]
		for _, name := range slices.Sorted(maps.Keys(objects)) {
			if !pivot.Moves(objects[name]) {
				notes = append(notes, fmt.Sprintf("%s %s has no owner, and stays behind: set label %s on it if the target "+
					"requires it", definition.Kind.Kind, name, infrav1.MoveLabel))
			}
		}
	}
	return notes
}
