package plugin

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// unblocking is the command unblock.
type unblocking struct {
	recovery
	all bool
}

func setupUnblock(set *pflag.FlagSet) runner {
	c := &unblocking{}
	set.BoolVarP(&c.all, "all-namespaces", "A", false, "remove it in all namespaces")
	c.addSingle(set)
	return c.runner("PivotUnblock", c.openSource, c.unblock)
}

// unblock removes block-move from Metal3Clusters.
func (c *unblocking) unblock(ctx context.Context) error {
	var blocked []*infrav1.Metal3Cluster
	confirmed, err := c.confirm(ctx, func() (intended intent, refusals []pivot.Obstacle, err error) {
		blocked, refusals, err = c.judge(ctx)
		for _, infra := range blocked {
			intended.objects = append(intended.objects, fmt.Sprintf("Metal3Cluster %s/%s", infra.Namespace, infra.Name))
		}
		intended.question = fmt.Sprintf("clusterctl move no longer waits for the hosts of %s.",
			pivot.Enumerate(intended.objects))
		return intended, refusals, err
	})
	if !confirmed || err != nil {
		return err
	}
	for _, infra := range blocked {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q,"annotations":{%q:null}}}`, infra.UID,
			infra.ResourceVersion, infrav1.BlockMoveAnnotation)
		err := c.act(func() error { return mergePatch(ctx, c.source.client, infra.DeepCopy(), patch) },
			"Removed block-move from Metal3Cluster %s/%s", infra.Namespace, infra.Name)
		if err != nil {
			return err
		}
	}
	c.done.Done = true
	return nil
}

// judge reads the Metal3Clusters, and calls unblockable.
func (c *unblocking) judge(ctx context.Context) ([]*infrav1.Metal3Cluster, []pivot.Obstacle, error) {
	namespace := c.where.namespace
	if c.all {
		namespace = ""
	}
	var infras infrav1.Metal3ClusterList
	if err := c.source.client.List(ctx, &infras, client.InNamespace(namespace)); err != nil {
		return nil, nil, c.source.blind(fmt.Errorf("listing Metal3Clusters: %w", err))
	}
	var clusters clusterv1.ClusterList
	if err := c.source.client.List(ctx, &clusters, client.InNamespace(namespace)); err != nil {
		return nil, nil, c.source.blind(fmt.Errorf("listing Clusters: %w", err))
	}
	runs, err := c.isManaged(ctx)
	if err != nil {
		return nil, nil, err
	}
	blocked, refusals := unblockable(infras.Items, clusters.Items, runs)
	return blocked, refusals, nil
}

// isManaged returns true if the manager of this provider runs, or will run: during a rollout no replica may be
// available. A manager of CAPM3 has the same label, but its definition of a Metal3Cluster has no spec.ironic.
func (c *unblocking) isManaged(ctx context.Context) (bool, error) {
	managers, err := c.source.managers(ctx)
	if err != nil || !slices.ContainsFunc(managers, mayRun) {
		return false, err
	}
	var seen scope
	if err := c.source.readDefinitions(ctx, &seen); err != nil {
		return false, c.source.blind(err)
	}
	return slices.ContainsFunc(seen.definitions, func(found definition) bool {
		return found.Kind == infraKind() && found.schema != nil && hasIronic(found)
	}), nil
}

// mayRun returns true for a Deployment that has Pods, or requires some.
func mayRun(deployment appsv1.Deployment) bool {
	return replicas(&deployment) > 0 || deployment.Status.Replicas > 0
}

func hasIronic(found definition) bool {
	_, known := found.schema.Properties["spec"].Properties["ironic"]
	return known
}

// unblockable returns the Metal3Clusters with block-move, or why it must stay. Runs says that the manager of this
// provider runs. The first row that matches counts.
//
//	manager of this provider  Metal3Cluster                       block-move
//	any                       without it, or managed externally   nothing to do
//	runs                      any other                           refused: the manager removes it for each move
//	does not run              its Cluster is paused               refused: clusterctl may wait for its hosts
//	does not run              any other                           is removed
func unblockable(infras []infrav1.Metal3Cluster, clusters []clusterv1.Cluster, runs bool) (
	blocked []*infrav1.Metal3Cluster, refusals []pivot.Obstacle,
) {
	for i := range infras {
		infra := &infras[i]
		if _, has := infra.Annotations[infrav1.BlockMoveAnnotation]; !has || annotations.IsExternallyManaged(infra) {
			continue
		}
		paused := func(cluster clusterv1.Cluster) bool {
			reference := cluster.Spec.InfrastructureRef
			return cluster.Namespace == infra.Namespace && reference.Name == infra.Name && isPaused(&cluster)
		}
		switch about := pivot.About("Metal3Cluster", infra); {
		case runs:
			refusals = append(refusals, about.Blocks(pivot.CodeWrongStage, "scale its Deployment to 0 before",
				"the manager of this provider runs, and removes block-move of Metal3Cluster %s when its hosts are parked",
				infra.Name))
		case slices.ContainsFunc(clusters, paused):
			refusals = append(refusals, about.Blocks(pivot.CodePaused, "unpause it with pivot unpause",
				"the Cluster of Metal3Cluster %s is paused, and clusterctl may wait for its hosts", infra.Name))
		default:
			blocked = append(blocked, infra)
		}
	}
	return blocked, refusals
}
