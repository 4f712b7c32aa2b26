package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// dependence has the facts that decide whether BMO in the target depends on an Ironic of the source.
type dependence struct {
	// target and source are the BMOs that manage the hosts of the namespace.
	target, source []operator

	// vips are the Metal3Clusters of the target, in all namespaces, by their Ironic endpoints.
	vips map[string][]*infrav1.Metal3Cluster

	// workloads run Ironic in the source.
	workloads []workload
}

// obstacles returns why Ironic prevents switching the source off. DemotionObstacles judges the holder of a VIP of the
// target. For each BMO of the target, the first row that matches counts.
//
//	BMO of the target uses      Ironic runs in the source  BMO of the source uses     obstacle
//	no Deployment was found     any                        any                        OperatorMissing
//	an unknown Ironic           any                        any                        IronicUnknown
//	a VIP of the target         any                        any                        none
//	an Ironic of its cluster    any                        any                        none
//	any other URL               yes                        any                        IronicStillNeeded
//	any other URL               not seen                   another URL                none
//	any other URL               not seen                   anything else              IronicUnknown: an Ironic need not
//	                                                                                  be a workload of the source
func (d dependence) obstacles() []obstacle {
	if len(d.target) == 0 {
		return at(targetSide, []pivot.Obstacle{pivot.AboutNothing().Blocks(pivot.CodeOperatorMissing,
			"find out which Ironic BMO uses there", "BMO was not found: no Deployment that watches the namespace has the "+
				"label %s=%s", operatorLabel, operatorValue)})
	}
	var found []obstacle
	for _, each := range d.target {
		about := pivot.About("Deployment", each)
		switch {
		case each.uses.unknown != "":
			found = append(found, at(targetSide, []pivot.Obstacle{about.Blocks(pivot.CodeIronicUnknown,
				"find out whether it runs in the source", "the Ironic that Deployment %s of BMO uses is %s", each, each.uses)})...)
		case len(d.vips[each.uses.endpoint]) > 0, each.uses.own:
		case len(d.workloads) > 0:
			for _, runs := range d.workloads {
				about := pivot.AboutNamed(runs.kind, runs.key.Namespace, runs.key.Name)
				found = append(found, at(sourceSide, []pivot.Obstacle{about.Blocks(pivot.CodeIronicStillNeeded,
					"give BMO of the target an Ironic outside of the source, and wait until it has registered the hosts",
					"%s runs Ironic in the source, and BMO of the target (Deployment %s) uses %s", runs, each, each.uses)})...)
			}
		case !d.elsewhere(each.uses.endpoint):
			found = append(found, at(targetSide, []pivot.Obstacle{about.Blocks(pivot.CodeIronicUnknown,
				"switch the source off only if that Ironic runs on no machine of the source",
				"it is unknown whether the source runs the Ironic %s that BMO of the target (Deployment %s) uses",
				each.uses, each)})...)
		}
	}
	return found
}

// elsewhere returns true if the BMOs of the source are known to use other URLs.
func (d dependence) elsewhere(endpoint string) bool {
	other := func(each operator) bool {
		return each.uses.unknown == "" && !each.uses.own && each.uses.endpoint != endpoint
	}
	return len(d.source) > 0 && !slices.ContainsFunc(d.source, func(each operator) bool { return !other(each) })
}

// dependsOnSource returns why the source may not be switched off yet.
func (c *recovery) dependsOnSource(ctx context.Context) ([]obstacle, error) {
	seen, err := c.target.look(ctx, c.where.namespace)
	if err != nil {
		return nil, err
	}
	facts, arrived, err := c.observeIronics(ctx, seen)
	if err != nil {
		return nil, err
	}
	// BMO uses one Ironic for the hosts of all namespaces.
	everywhere, err := c.target.readHosts(ctx, metav1.NamespaceAll)
	if err != nil {
		return nil, c.target.blind(err)
	}
	because := slices.Concat(c.done.Refusals, at(targetSide, arrived.deadOperators()), facts.obstacles())
	because = append(because, at(targetSide, arrived.handoverObstacles(facts.vips, everywhere))...)
	because = append(because, at(targetSide, seen.awaitingIronic())...)
	because = append(because, at(sourceSide, c.staying)...)
	for _, look := range []func(context.Context) ([]pivot.Obstacle, error){c.clustersLeft, c.hostsLeft} {
		found, err := look(ctx)
		if err != nil {
			return nil, c.source.blind(err)
		}
		because = append(because, at(sourceSide, found)...)
	}
	running, err := c.nodesOfTarget(ctx)
	if err != nil {
		return nil, err
	}
	return append(because, at(sourceSide, running)...), nil
}

// nodesOfTarget returns obstacles for the Clusters of the target that run on nodes of the source, as after a move back.
func (c *recovery) nodesOfTarget(ctx context.Context) ([]pivot.Obstacle, error) {
	var nodes corev1.NodeList
	if err := c.source.client.List(ctx, &nodes); err != nil {
		return nil, c.source.blind(fmt.Errorf("listing Nodes: %w", err))
	}
	ours := map[string]bool{}
	for i := range nodes.Items {
		ours[nodes.Items[i].Spec.ProviderID] = true
	}
	var machines clusterv1.MachineList
	if err := c.target.client.List(ctx, &machines); err != nil {
		return nil, c.target.blind(fmt.Errorf("listing Machines: %w", err))
	}
	counts := map[string]int{}
	for i := range machines.Items {
		if each := &machines.Items[i]; each.Spec.ProviderID != "" && ours[each.Spec.ProviderID] {
			counts[each.Namespace+"/"+each.Spec.ClusterName]++
		}
	}
	var found []pivot.Obstacle
	for _, key := range sortedKeys(counts) {
		namespace, name, _ := strings.Cut(key, "/")
		found = append(found, pivot.AboutNamed(clusterv1.ClusterKind, namespace, name).Blocks(pivot.CodeInTarget,
			"keep its machines on", "%s of the source run Cluster %s, which the target manages", number(counts[key], "node"),
			key))
	}
	return found, nil
}

// awaitingIronic returns obstacles for hosts that wait for the Ironic endpoint of another namespace.
func (s *sight) awaitingIronic() []pivot.Obstacle {
	counts := map[string]int{}
	for _, host := range s.hosts {
		if clusterID := pivot.AwaitsIronic(host, s.around); clusterID != "" {
			counts[clusterID]++
		}
	}
	var found []pivot.Obstacle
	for _, clusterID := range sortedKeys(counts) {
		found = append(found, pivot.AboutNamed("Namespace", "", s.namespace).Blocks(pivot.CodeEndpointNotReady,
			"move the namespace whose Metal3Cluster has it in spec.ironic.clusterID",
			"%s wait paused for the Ironic endpoint of clusterID %s", number(counts[clusterID], "BareMetalHost"), clusterID))
	}
	return found
}

// observeIronics reads the BMOs of both sides, and the workloads of the source that run Ironic.
func (c *recovery) observeIronics(ctx context.Context, seen *sight) (dependence, *scope, error) {
	facts := dependence{vips: map[string][]*infrav1.Metal3Cluster{}}
	arrived, left := &scope{sight: seen}, &scope{sight: &sight{namespace: c.where.namespace}}
	if err := c.target.readOperators(ctx, arrived); err != nil {
		return facts, nil, c.target.blind(err)
	}
	err := c.source.readOperators(ctx, left)
	if err == nil {
		facts.workloads, err = c.source.ironicWorkloads(ctx)
	}
	if err != nil {
		return facts, nil, c.source.blind(err)
	}
	facts.target, facts.source = arrived.operators, left.operators
	for _, infra := range arrived.everywhere {
		for _, endpoint := range endpointsOf(infra) {
			facts.vips[endpoint] = append(facts.vips[endpoint], infra)
		}
	}
	return facts, arrived, nil
}

// handoverObstacles returns the obstacles to a handover of the Ironic endpoints that the hosts of the namespace use:
// all endpoints of the namespace, and the VIP that BMO uses. Of several Metal3Clusters that share a VIP elsewhere, one
// without obstacles is enough. Hosts are those of all namespaces, which BMO manages with the same Ironic.
func (s *scope) handoverObstacles(vips map[string][]*infrav1.Metal3Cluster, hosts []*bmov1alpha1.BareMetalHost,
) []pivot.Obstacle {
	var found []pivot.Obstacle
	for _, infra := range s.infras {
		if infra.Spec.Ironic != nil {
			found = append(found, pivot.DemotionObstacles(s.demotionFacts(infra, hosts))...)
		}
	}
	local := func(infra *infrav1.Metal3Cluster) bool { return infra.Namespace == s.namespace }
	for _, each := range s.operators {
		sharing := vips[each.uses.endpoint]
		if len(sharing) == 0 || slices.ContainsFunc(sharing, local) {
			continue
		}
		var least []pivot.Obstacle
		for i, infra := range sharing {
			if obstacles := pivot.DemotionObstacles(s.demotionFacts(infra, hosts)); i == 0 || len(obstacles) < len(least) {
				least = obstacles
			}
		}
		found = append(found, least...)
	}
	return found
}

// ironicContainer is the name of the container of Ironic in the manifests of this provider, of BMO, and of the Ironic
// Standalone Operator.
const ironicContainer = "ironic"

// workload is an object that runs Ironic.
type workload struct {
	kind string
	key  client.ObjectKey
}

func (w workload) String() string { return w.kind + " " + w.key.String() }

// ironicWorkloads returns the Deployments, StatefulSets and DaemonSets that run Ironic.
func (c *cluster) ironicWorkloads(ctx context.Context) ([]workload, error) {
	var deployments appsv1.DeploymentList
	var sets appsv1.StatefulSetList
	var daemons appsv1.DaemonSetList
	for _, list := range []client.ObjectList{&deployments, &sets, &daemons} {
		if err := c.client.List(ctx, list); err != nil {
			return nil, fmt.Errorf("listing what runs Ironic: %w", err)
		}
	}
	var found []workload
	add := func(kind string, object client.Object, replicas *int32, pod corev1.PodSpec) {
		runs := func(container corev1.Container) bool { return container.Name == ironicContainer }
		if ptr.Deref(replicas, 1) > 0 && slices.ContainsFunc(pod.Containers, runs) {
			found = append(found, workload{kind, client.ObjectKeyFromObject(object)})
		}
	}
	for i := range deployments.Items {
		each := &deployments.Items[i]
		add("Deployment", each, each.Spec.Replicas, each.Spec.Template.Spec)
	}
	for i := range sets.Items {
		each := &sets.Items[i]
		add("StatefulSet", each, each.Spec.Replicas, each.Spec.Template.Spec)
	}
	for i := range daemons.Items {
		each := &daemons.Items[i]
		add("DaemonSet", each, nil, each.Spec.Template.Spec)
	}
	return found, nil
}

// clustersLeft returns obstacles for the namespaces whose Clusters the source still manages.
func (c *recovery) clustersLeft(ctx context.Context) ([]pivot.Obstacle, error) {
	clusters, err := c.source.list(ctx, clusterv1.GroupVersion.WithKind(clusterv1.ClusterKind), "")
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for i := range clusters {
		counts[clusters[i].Namespace]++
	}
	return describeLeft(counts, "Cluster"), nil
}

// hostsLeft returns obstacles for the namespaces whose hosts the source still manages.
func (c *recovery) hostsLeft(ctx context.Context) ([]pivot.Obstacle, error) {
	hosts, err := c.source.list(ctx, bmov1alpha1.GroupVersion.WithKind("BareMetalHost"), "")
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for i := range hosts {
		if !infrav1.IsLeaving(&hosts[i]) {
			counts[hosts[i].Namespace]++
		}
	}
	return describeLeft(counts, "BareMetalHost"), nil
}

func describeLeft(counts map[string]int, kind string) []pivot.Obstacle {
	var left []pivot.Obstacle
	for _, namespace := range sortedKeys(counts) {
		left = append(left, pivot.AboutNamed("Namespace", "", namespace).Blocks(pivot.CodeLeftover,
			"move the namespace, or remove the leftovers with pivot clean",
			"the source still has %s in namespace %s", number(counts[namespace], kind), namespace))
	}
	return left
}
