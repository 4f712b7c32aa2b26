package plugin

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

func setupFence(set *pflag.FlagSet) runner {
	c := &recovery{}
	return setupSource(set, c, "PivotFence", c.fence)
}

func setupTakeover(set *pflag.FlagSet) runner {
	c := &recovery{}
	return setupSource(set, c, "PivotTakeover", c.takeOver)
}

// seeBoth reads the namespace on both sides. The target is nil if it is not named. It returns an error if the target
// does not answer, because the target may still manage hosts.
func (c *recovery) seeBoth(ctx context.Context) (here, there *sight, err error) {
	if here, err = c.source.look(ctx, c.where.namespace); err != nil || c.target == nil {
		return here, nil, err
	}
	there, err = c.target.lookLeniently(ctx, c.where.namespace)
	return here, there, err
}

// fence pauses the Clusters of the source that another management cluster manages.
func (c *recovery) fence(ctx context.Context) error {
	var fenced []*clusterv1.Cluster
	confirmed, err := c.confirm(ctx, func() (intended intent, refusals []pivot.Obstacle, err error) {
		here, there, err := c.seeBoth(ctx)
		if err != nil {
			return intended, nil, err
		}
		fenced, refusals = fencing(here, there)
		intended.objects = clusterNames(fenced)
		intended.question = fmt.Sprintf("Another management cluster manages %s. They are paused in the source.",
			strings.Join(intended.objects, ", "))
		return intended, refusals, nil
	})
	if !confirmed || err != nil {
		return err
	}
	for _, cluster := range fenced {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q},"spec":{"paused":true}}`, cluster.UID)
		err := c.act(func() error { return mergePatch(ctx, c.source.client, cluster.DeepCopy(), patch) },
			"Paused Cluster %s in the source", cluster.Name)
		if err != nil {
			return err
		}
	}
	c.done.Done = true
	return nil
}

// fencing returns the Clusters of a namespace to pause. There is nil if the other side is not named. The
// first row that matches counts for each Cluster.
//
//	Cluster    its Metal3Cluster  the same Cluster on the other side  paused
//	is paused  any                any                                 no: it is already
//	runs       ManagedElsewhere   any                                 yes
//	runs       any                runs, with a newer epoch            yes
//	runs       any other          any other                           no
//
// If no Cluster is to be paused and one runs, it returns an obstacle.
func fencing(here, there *sight) ([]*clusterv1.Cluster, []pivot.Obstacle) {
	var fenced []*clusterv1.Cluster
	var running []pivot.Obstacle
	for _, cluster := range here.clusters {
		infra := here.infraOf(cluster)
		switch {
		case isPaused(cluster):
		case pivot.IsSuperseded(infra), infra != nil && runsNewer(infra, there):
			fenced = append(fenced, cluster)
		default:
			running = append(running, pivot.About("Cluster", cluster).Blocks(pivot.CodeWrongStage,
				"see pivot status; a pause begins a move, so pause it with kubectl only if you want that",
				"no other management cluster manages Cluster %s, according to IronicEndpointReady and --to-kubeconfig",
				cluster.Name))
		}
	}
	if len(fenced) > 0 {
		return fenced, nil
	}
	return nil, running
}

// infraOf returns the Metal3Cluster of a Cluster. Nil if there is none.
func (s *sight) infraOf(cluster *clusterv1.Cluster) *infrav1.Metal3Cluster {
	for _, infra := range s.infras {
		if s.clusterOf(infra) == cluster {
			return infra
		}
	}
	return nil
}

// runsNewer returns true if the Cluster of a Metal3Cluster runs on the other side with a newer epoch.
func runsNewer(infra *infrav1.Metal3Cluster, there *sight) bool {
	if there == nil {
		return false
	}
	return slices.ContainsFunc(there.infras, func(other *infrav1.Metal3Cluster) bool {
		cluster := there.clusterOf(other)
		return other.Name == infra.Name && cluster != nil && !isPaused(cluster) && pivot.EpochOf(other) > pivot.EpochOf(infra)
	})
}

func clusterNames(clusters []*clusterv1.Cluster) []string {
	names := make([]string, 0, len(clusters))
	for _, cluster := range clusters {
		names = append(names, "Cluster "+cluster.Name)
	}
	return names
}

// takeOver raises the epochs of Metal3Clusters that another management cluster has claimed, and unpauses their
// Clusters. The manager does not probe paused Clusters, so their hosts would stay fenced.
func (c *recovery) takeOver(ctx context.Context) error {
	var claims []claim
	var paused *scope
	confirmed, err := c.confirm(ctx, func() (intended intent, refusals []pivot.Obstacle, err error) {
		if claims, paused, refusals, err = c.planTakeover(ctx); err != nil || len(refusals) > 0 {
			return intended, refusals, err
		}
		intended.objects = unpausedNames(paused)
		for _, each := range claims {
			intended.objects = append(intended.objects, "Metal3Cluster "+each.infra.Name)
		}
		intended.question = fmt.Sprintf("%s: this management cluster unpauses the Clusters, and manages the hosts from now "+
			"on. If the other management cluster runs, BMO acts on each host twice.", strings.Join(intended.objects, ", "))
		return intended, nil, nil
	})
	if !confirmed || err != nil {
		return err
	}
	for _, each := range claims {
		if each.epoch == pivot.EpochOf(each.infra) {
			continue
		}
		patch := fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"annotations":{%q:%q}}}`, each.infra.ResourceVersion,
			infrav1.MoveEpochAnnotation, each.epoch)
		err := c.act(func() error { return mergePatch(ctx, c.source.client, each.infra.DeepCopy(), patch) },
			"Gave Metal3Cluster %s move epoch %s", each.infra.Name, each.epoch)
		if err != nil {
			return err
		}
	}
	if err := c.unpause(ctx, c.source, paused); err != nil {
		return err
	}
	return c.finish(ctx, c.source)
}

// planTakeover reads both sides, and returns the Metal3Clusters that take over and their paused Clusters, or obstacles.
func (c *recovery) planTakeover(ctx context.Context) ([]claim, *scope, []pivot.Obstacle, error) {
	here, there, err := c.seeBoth(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	claims, refusals := takeover(here, there)
	if len(refusals) > 0 {
		return nil, nil, refusals, nil
	}
	paused, refusals, err := c.pausedOf(ctx, claims)
	return claims, paused, refusals, err
}

// pausedOf returns the paused Clusters of the claims, or why they must stay paused.
func (c *recovery) pausedOf(ctx context.Context, claims []claim) (*scope, []pivot.Obstacle, error) {
	here, err := c.source.survey(ctx, c.where.namespace)
	if err != nil {
		return nil, nil, err
	}
	_, departed, err := c.source.departed(ctx, c.where.namespace)
	if err != nil {
		return nil, nil, err
	}
	paused := &scope{sight: &sight{namespace: here.namespace}}
	var refusals []pivot.Obstacle
	for _, each := range claims {
		if cluster := here.clusterOf(each.infra); cluster != nil && isPaused(cluster) {
			paused.clusters = append(paused.clusters, cluster)
			refusals = append(refusals, incomplete(here, departed, cluster)...)
		}
	}
	return paused, refusals, nil
}

// claim is the epoch with which a Metal3Cluster takes over.
type claim struct {
	infra *infrav1.Metal3Cluster
	epoch pivot.Epoch
}

// takeover returns the Metal3Clusters that take over, with their new epochs. There is nil if the other side
// is not named. The first row that matches counts for each Metal3Cluster.
//
//	Metal3Cluster                         its Cluster on the other side  takes over
//	any reason but ManagedElsewhere       any                            no: it is not claimed by another
//	ManagedElsewhere                      runs                           refused: BMO would act on each host twice
//	ManagedElsewhere, without an epoch    any                            refused: the next epoch is not known
//	ManagedElsewhere                      any other, or not known        yes, with the next epoch after the recorded one,
//	                                                                     or its own if that is newer: see tookOver
//
// If none takes over, it returns an obstacle.
func takeover(here, there *sight) ([]claim, []pivot.Obstacle) {
	var claims []claim
	var refusals []pivot.Obstacle
	for _, infra := range here.infras {
		if !pivot.IsSuperseded(infra) {
			continue
		}
		recorded, known := recordedEpoch(infra)
		switch {
		case there != nil && runsThere(infra, there):
			refusals = append(refusals, pivot.About("Metal3Cluster", infra).Blocks(pivot.CodeInTarget,
				"pause the Cluster there with pivot fence, or move it from there",
				"the Cluster of Metal3Cluster %s runs in the other cluster, so BMO would act on each host twice", infra.Name))
		case !known:
			refusals = append(refusals, pivot.About("Metal3Cluster", infra).Blocks(pivot.CodeMoveUnclear,
				"read it from ConfigMap metal3-management-cluster in namespace kube-system of the workload cluster",
				"IronicEndpointReady of Metal3Cluster %s does not name the epoch that the other management cluster has",
				infra.Name))
		default:
			claims = append(claims, claim{infra, max(recorded+epochStep, pivot.EpochOf(infra))})
		}
	}
	if len(claims)+len(refusals) == 0 {
		return nil, []pivot.Obstacle{pivot.AboutNamed("Namespace", "", here.namespace).Blocks(pivot.CodeWrongStage,
			"see pivot status", "no Metal3Cluster is managed by another management cluster (reason ManagedElsewhere)")}
	}
	if len(refusals) > 0 {
		return nil, refusals
	}
	return claims, nil
}

// epochStep is the difference between the epochs of a running Cluster before and after a move.
const epochStep = 2

var epochInMessage = regexp.MustCompile(`move epoch (\d+)`)

// recordedEpoch returns the epoch of the other management cluster from the condition.
func recordedEpoch(infra *infrav1.Metal3Cluster) (pivot.Epoch, bool) {
	condition := meta.FindStatusCondition(infra.Status.Conditions, infrav1.IronicEndpointReadyCondition)
	if condition == nil {
		return 0, false
	}
	found := epochInMessage.FindStringSubmatch(condition.Message)
	if found == nil {
		return 0, false
	}
	epoch, err := strconv.ParseInt(found[1], 10, 64)
	return pivot.Epoch(epoch), err == nil
}

// tookOver returns true if takeover has raised the epoch of a Metal3Cluster. While its Cluster is paused, the condition
// still names the other management cluster. A pause raises the epoch by one only.
func tookOver(infra *infrav1.Metal3Cluster) bool {
	recorded, known := recordedEpoch(infra)
	return known && pivot.EpochOf(infra) >= recorded+epochStep
}

// runsThere returns true if the Cluster of a Metal3Cluster runs on the other side.
func runsThere(infra *infrav1.Metal3Cluster, there *sight) bool {
	return slices.ContainsFunc(there.infras, func(other *infrav1.Metal3Cluster) bool {
		cluster := there.clusterOf(other)
		return other.Name == infra.Name && cluster != nil && !isPaused(cluster)
	})
}
