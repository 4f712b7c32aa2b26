package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/spf13/pflag"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// unpausing is the command unpause.
type unpausing struct {
	recovery
	clusters, hosts []string
	allHosts        bool
}

func setupUnpause(set *pflag.FlagSet) runner {
	c := &unpausing{}
	set.StringSliceVar(&c.clusters, "cluster", nil, "name of a Cluster; default: all paused Clusters of the namespace")
	set.StringSliceVar(&c.hosts, "host", nil, "name of a BareMetalHost to unpause instead of Clusters")
	set.BoolVar(&c.allHosts, "all-hosts", false,
		"unpause all hosts of the namespace that the provider has paused, instead of Clusters")
	c.add(set)
	return c.runner("PivotUnpause", c.openSource, func(ctx context.Context) error {
		isOfHosts := len(c.hosts) > 0 || c.allHosts
		switch {
		case len(c.clusters) > 0 && isOfHosts, len(c.hosts) > 0 && c.allHosts:
			return errors.New("--cluster, --host and --all-hosts exclude one another: use one of them")
		case isOfHosts:
			return c.unpauseHosts(ctx)
		default:
			return c.unpauseClusters(ctx)
		}
	})
}

// unpauseClusters unpauses Clusters in the source, with their ClusterClasses.
func (c *unpausing) unpauseClusters(ctx context.Context) error {
	var resumed *scope
	confirmed, err := c.confirm(ctx, func() (intended intent, refusals []pivot.Obstacle, err error) {
		if resumed, refusals, err = c.judgeClusters(ctx); err != nil {
			return intended, nil, err
		}
		intended.objects = unpausedNames(resumed)
		intended.question = fmt.Sprintf("%s of namespace %s are unpaused. If clusterctl is moving them, BMO and Cluster API "+
			"act on them in the middle of the move.", pivot.Enumerate(intended.objects), resumed.namespace)
		return intended, refusals, nil
	})
	if !confirmed || err != nil {
		return err
	}
	if err := c.unpause(ctx, c.source, resumed); err != nil {
		return err
	}
	return c.finish(ctx, c.source, c.clusters...)
}

// judgeClusters reads both sides, and returns the Clusters to unpause, or obstacles.
func (c *unpausing) judgeClusters(ctx context.Context) (*scope, []pivot.Obstacle, error) {
	var err error
	if c.left, err = c.source.survey(ctx, c.where.namespace); err != nil {
		return nil, nil, err
	}
	_, departed, err := c.source.departed(ctx, c.where.namespace)
	if err != nil {
		return nil, nil, err
	}
	var there *sight
	if c.target != nil {
		if there, err = c.target.lookLeniently(ctx, c.where.namespace); err != nil {
			return nil, nil, err
		}
	}
	chosen, refusals := unpausable(c.left, there, departed, c.clusters)
	resumed := *c.left
	resumed.sight = &sight{namespace: c.left.namespace, clusters: chosen}
	if len(c.clusters) > 0 {
		resumed.pausedClasses = nil
	}
	return &resumed, refusals, nil
}

func unpausedNames(resumed *scope) []string {
	var names []string
	for _, key := range resumed.pausedClasses {
		names = append(names, "ClusterClass "+className(key, resumed.namespace))
	}
	for _, cluster := range resumed.clusters {
		names = append(names, "Cluster "+cluster.Name)
	}
	return names
}

// heldByOthers returns the paused hosts that wait for other Clusters than the named ones. No names mean all Clusters.
// The first row that matches counts.
//
//	paused host                                          held by others
//	serves another Cluster                               yes
//	would run if the named Clusters were the only ones   yes
//	any other                                            no
func heldByOthers(seen *sight, names []string) []string {
	if len(names) == 0 {
		return nil
	}
	others := func(other pivot.Neighbour) bool { return !other.Elsewhere && !slices.Contains(names, other.Name) }
	alone := slices.DeleteFunc(slices.Clone(seen.around), others)
	runs := func(host *bmov1alpha1.BareMetalHost, around []pivot.Neighbour) bool {
		return pivot.GoalOf(host, around) == pivot.PhaseRunning
	}
	var held []string
	for _, host := range seen.hosts {
		cluster := pivot.ClusterOf(host)
		isOther := cluster != "" && !slices.Contains(names, cluster)
		isHeld := isOther || !runs(host, seen.around) && runs(host, alone)
		if isHeld && arrives(viewOf(host, seen.around)) {
			held = append(held, host.Name)
		}
	}
	return held
}

// tellHeld prints which hosts stay paused because of other Clusters.
func (c *recovery) tellHeld(held []string) error {
	if len(held) == 0 {
		return nil
	}
	return c.progress.say("Other Clusters keep %s paused: %s", number(len(held), "host"), pivot.Enumerate(held))
}

// unpausable returns the paused Clusters of a side that may run there, or why not. Only are the names of those that the
// user wants; none means all. There is nil if the other side is not named. The first row that matches counts for each.
//
//	Cluster    its objects here                      the other side             runs
//	runs       any                                   any                        already
//	is paused  another management cluster manages,   any                        refused: take over
//	           and takeover has not raised the epoch
//	is paused  any                                   has it, and it runs        refused: it is managed there
//	is paused  any                                   has it, paused             refused: resume or abort the move
//	is paused  one is missing of the inventory       has none, or is not known  refused: BMO would wipe hosts
//	is paused  a host that left with it is gone      has none, or is not known  refused: BMO would wipe hosts
//	is paused  all are here                          has none, or is not known  yes
func unpausable(here *scope, there *sight, departed pivot.Departure, only []string) (
	chosen []*clusterv1.Cluster, refusals []pivot.Obstacle,
) {
	named := func(cluster *clusterv1.Cluster) bool { return len(only) == 0 || slices.Contains(only, cluster.Name) }
	for _, name := range only {
		if !slices.ContainsFunc(here.clusters, func(cluster *clusterv1.Cluster) bool { return cluster.Name == name }) {
			refusals = append(refusals, pivot.AboutNamed("Cluster", here.namespace, name).Blocks(pivot.CodeClusterMissing,
				"name another one", "Cluster %s does not exist", name))
		}
	}
	for _, cluster := range here.clusters {
		if !isPaused(cluster) || !named(cluster) {
			continue
		}
		chosen = append(chosen, cluster)
		refusals = append(refusals, unpauseRefusals(here, there, departed, cluster)...)
	}
	return chosen, refusals
}

func unpauseRefusals(here *scope, there *sight, departed pivot.Departure, cluster *clusterv1.Cluster) []pivot.Obstacle {
	blocks := func(code pivot.Code, remedy, format string, values ...any) []pivot.Obstacle {
		return []pivot.Obstacle{pivot.About("Cluster", cluster).Blocks(code, remedy, format, values...)}
	}
	infra := here.infraOf(cluster)
	isThere := func(other *infrav1.Metal3Cluster) bool { return other.Name == infra.Name && !infrav1.IsLeaving(other) }
	switch {
	case pivot.IsSuperseded(infra) && !tookOver(infra):
		return blocks(pivot.CodeSuperseded, "if that one is gone for good, use pivot takeover",
			"another management cluster manages Cluster %s", cluster.Name)
	case infra != nil && there != nil && runsThere(infra, there):
		return blocks(pivot.CodeInTarget, "remove the leftovers here with pivot clean",
			"Cluster %s runs in the other cluster, which manages it", cluster.Name)
	case infra != nil && there != nil && slices.ContainsFunc(there.infras, isThere):
		return blocks(pivot.CodeWrongStage, "complete the move with pivot resume, or abort it with pivot abort",
			"a move of Cluster %s was interrupted, and a copy is in the other cluster", cluster.Name)
	default:
		return incomplete(here, departed, cluster)
	}
}

// incomplete returns an obstacle if a Cluster lacks objects that the record of a move has.
func incomplete(here *scope, departed pivot.Departure, cluster *clusterv1.Cluster) []pivot.Obstacle {
	gone := goneSince(here, departed, cluster)
	if len(gone) == 0 {
		return nil
	}
	return []pivot.Obstacle{pivot.About("Cluster", cluster).Blocks(pivot.CodeMoveUnclear,
		"complete the move with pivot resume; if this is the target, and the source is gone for good, restore the missing "+
			"objects from a backup", "a move of Cluster %s was interrupted, and %s is not here: Cluster API would replace "+
			"Machines, BMO would wipe their hosts, and machines would get the addresses of others", cluster.Name,
		pivot.Enumerate(gone))}
}

// goneSince returns the objects that the record of a move of a Cluster has and that are missing here: they have not
// arrived, or have left. Hosts that left with other Clusters do not count.
func goneSince(here *scope, departed pivot.Departure, cluster *clusterv1.Cluster) []string {
	var gone []string
	for _, each := range lostSince(here.of([]string{cluster.Name})) {
		gone = append(gone, each.String())
	}
	isHere := func(name string) bool {
		return slices.ContainsFunc(here.hosts, func(host *bmov1alpha1.BareMetalHost) bool { return host.Name == name })
	}
	for _, left := range departed.Hosts {
		if leftWith(left, departed, here.infraOf(cluster)) && !isHere(left.Name) {
			gone = append(gone, "BareMetalHost "+left.Name)
		}
	}
	for _, object := range here.naming {
		machine, is := object.(*infrav1.Metal3Machine)
		if !is || machine.Labels[clusterv1.ClusterNameLabel] != cluster.Name {
			continue
		}
		name := host.Recorded(machine)
		if name != "" && !isHere(name) && !slices.Contains(gone, "BareMetalHost "+name) {
			gone = append(gone, "BareMetalHost "+name)
		}
	}
	return gone
}

// leftWith returns true if a host left with a Metal3Cluster that has not run here since.
func leftWith(left pivot.DepartedHost, departed pivot.Departure, infra *infrav1.Metal3Cluster) bool {
	if infra == nil {
		return len(left.Infras) == 0
	}
	return (len(left.Infras) == 0 || slices.Contains(left.Infras, infra.Name)) && !departed.IsOver(infra)
}

// unpauseHosts unpauses hosts that wait for a Cluster or an Ironic that does not arrive.
func (c *unpausing) unpauseHosts(ctx context.Context) error {
	var chosen []*bmov1alpha1.BareMetalHost
	var around []pivot.Neighbour
	confirmed, err := c.confirm(ctx, func() (intended intent, refusals []pivot.Obstacle, err error) {
		seen, err := c.source.look(ctx, c.where.namespace)
		if err != nil {
			return intended, nil, err
		}
		_, departed, err := c.source.departed(ctx, c.where.namespace)
		if err != nil {
			return intended, nil, err
		}
		chosen, refusals = unpausableHosts(seen, departed, c.hosts)
		around = seen.around
		for _, host := range chosen {
			intended.objects = append(intended.objects, "BareMetalHost "+host.Name)
		}
		intended.question = fmt.Sprintf("%s of namespace %s are unpaused, and BMO manages them with the Ironic that answers "+
			"here. If another management cluster manages them, BMO acts on them twice.",
			pivot.Enumerate(intended.objects), seen.namespace)
		return intended, refusals, nil
	})
	if !confirmed || err != nil {
		return err
	}
	for _, host := range chosen {
		resumed := pivot.Apply(pivot.Resume, host, around)
		err := c.act(func() error {
			return c.source.client.Patch(ctx, resumed, client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{}))
		}, "Unpaused BareMetalHost %s", host.Name)
		if err != nil {
			return err
		}
	}
	c.done.Done = true
	return nil
}

// unpausableHosts returns the hosts to unpause: the named ones, or all that the provider has paused; or why not.
func unpausableHosts(seen *sight, departed pivot.Departure, names []string) (
	chosen []*bmov1alpha1.BareMetalHost, refusals []pivot.Obstacle,
) {
	for _, name := range names {
		if !slices.ContainsFunc(seen.hosts, func(host *bmov1alpha1.BareMetalHost) bool { return host.Name == name }) {
			refusals = append(refusals, pivot.AboutNamed("BareMetalHost", seen.namespace, name).Blocks(pivot.CodeHostLost,
				"name another one", "BareMetalHost %s does not exist", name))
		}
	}
	for _, host := range seen.hosts {
		by, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
		wanted := slices.Contains(names, host.Name) || len(names) == 0 && by == infrav1.HostPausedByProvider
		if !paused || !wanted {
			continue
		}
		chosen = append(chosen, host)
		refusals = append(refusals, pivot.UnpauseObstacles(host, seen.around, departed)...)
	}
	return chosen, refusals
}
