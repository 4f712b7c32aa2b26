package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/handover"
)

// yielding is the command yield.
type yielding struct {
	recovery
	clusterID string
	undo      bool
}

func setupYield(set *pflag.FlagSet) runner {
	c := &yielding{}
	set.StringVar(&c.clusterID, "cluster-id", "",
		"spec.ironic.clusterID of the cluster; default: that of the Metal3Cluster in the namespace of --to-kubeconfig")
	set.BoolVar(&c.undo, "undo", false, "let the Ironic take the VIP")
	return setupSource(set, &c.recovery, "PivotYield", c.yield)
}

// yield writes or removes the key of a cluster in ConfigMap ironic-handover.
func (c *yielding) yield(ctx context.Context) error {
	var found notice
	again, err := c.confirmPlan(ctx, func() (planned intent, err error) {
		found, planned, err = c.plan(ctx)
		return planned, err
	}, func() error { return nil })
	if again == nil || err != nil {
		return err
	}
	switch {
	case found.yields != c.undo:
	case c.undo:
		err = c.act(func() error { return handover.New(c.source.client).Tell(ctx, c.clusterID, false) },
			"Removed clusterID %s from ConfigMap %s: the Ironic of this management cluster takes the VIP",
			c.clusterID, noticeKey())
	default:
		err = c.act(func() error { return c.write(ctx, !found.exists) },
			"Wrote clusterID %s into ConfigMap %s: the Ironic of this management cluster does not take the VIP",
			c.clusterID, noticeKey())
	}
	c.done.Done = err == nil
	return err
}

// notice is the observed ConfigMap ironic-handover. Yields is true if it has the key of the cluster.
type notice struct{ exists, yields bool }

func noticeKey() client.ObjectKey {
	return client.ObjectKey{Namespace: handover.Namespace, Name: handover.Name}
}

// plan reads both clusters, and returns the planned work. It adds obstacles.
func (c *yielding) plan(ctx context.Context) (notice, intent, error) {
	here, there, err := c.read(ctx)
	if err != nil {
		return notice{}, intent{}, err
	}
	if c.clusterID, err = chooseClusterID(c.clusterID, there); err != nil {
		return notice{}, intent{}, err
	}
	content := &corev1.ConfigMap{}
	err = c.source.client.Get(ctx, noticeKey(), content)
	if client.IgnoreNotFound(err) != nil {
		return notice{}, intent{}, c.source.blind(fmt.Errorf("reading ConfigMap %s: %w", noticeKey(), err))
	}
	_, yields := content.Data[c.clusterID]
	found := notice{exists: err == nil, yields: yields}
	if yields != c.undo {
		return found, intent{}, nil
	}
	if c.undo && there != nil {
		// The Ironic there may serve the hosts of all namespaces.
		if there.hosts, err = c.target.readHosts(ctx, metav1.NamespaceAll); err != nil {
			return notice{}, intent{}, c.target.blind(err)
		}
	}
	c.done.Refusals = append(c.done.Refusals, yieldObstacles(c.clusterID, c.undo, here, there)...)
	planned := intent{objects: []string{c.clusterID}, question: fmt.Sprintf(
		"The Ironic of this management cluster does not take the VIP of clusterID %s.", c.clusterID)}
	if c.undo {
		planned.question = fmt.Sprintf("The Ironic of this management cluster takes the VIP of clusterID %s as soon as it "+
			"is healthy. The database of the Ironic that has the VIP is lost.", c.clusterID)
	}
	return found, planned, nil
}

// read reads the namespace on both sides. There is nil if the target is not named.
func (c *yielding) read(ctx context.Context) (here, there *sight, err error) {
	here, err = c.source.lookLeniently(ctx, c.where.namespace)
	if lacksKind(err) {
		// A new management cluster has no kinds of the provider yet.
		here, err = &sight{namespace: c.where.namespace}, nil
	}
	if err != nil || c.target == nil {
		return here, nil, err
	}
	there, err = c.target.look(ctx, c.where.namespace)
	return here, there, err
}

// write writes the key. Before Ironic is installed there is neither a namespace nor a ConfigMap.
func (c *yielding) write(ctx context.Context, isNew bool) error {
	if !isNew {
		return handover.New(c.source.client).Tell(ctx, c.clusterID, true)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: handover.Namespace}}
	if err := c.source.client.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %s: %w", namespace.Name, err)
	}
	return c.source.client.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: handover.Namespace, Name: handover.Name},
		Data:       map[string]string{c.clusterID: "true"},
	})
}

// chooseClusterID returns the named clusterID, or that of the Metal3Clusters of the other cluster.
func chooseClusterID(named string, there *sight) (string, error) {
	if named != "" {
		return named, nil
	}
	var found []string
	if there != nil {
		for _, infra := range there.infras {
			if infra.Spec.Ironic != nil && infra.Spec.Ironic.ClusterID != "" {
				found = append(found, infra.Spec.Ironic.ClusterID)
			}
		}
	}
	slices.Sort(found)
	switch found = slices.Compact(found); len(found) {
	case 0:
		return "", errors.New("--cluster-id is empty, and no Metal3Cluster of --to-kubeconfig has spec.ironic.clusterID: " +
			"set it")
	case 1:
		return found[0], nil
	default:
		return "", fmt.Errorf("--cluster-id is empty, and the namespace of --to-kubeconfig has several; use one of: %s",
			strings.Join(found, ", "))
	}
}

// yieldObstacles returns why the key must not be written, or not removed. There is nil if the other cluster is not
// named. The first row that matches counts.
//
//	command  management cluster            cluster of the hosts   obstacle
//	yield    a Cluster of it runs there    any                    the provider removes the key at once
//	yield    any other                     any                    none
//	undo     any                           has busy hosts         the next Ironic lacks the running operation
//	undo     any                           any other, or unknown  none
func yieldObstacles(clusterID string, undo bool, here, there *sight) []obstacle {
	if undo {
		if there == nil {
			return nil
		}
		return at(targetSide, busyAmong(there.hosts, targetSide, nil))
	}
	for _, infra := range here.infras {
		cluster := here.clusterOf(infra)
		if infra.Spec.Ironic != nil && infra.Spec.Ironic.ClusterID == clusterID && cluster != nil && !isPaused(cluster) {
			return at(sourceSide, []pivot.Obstacle{pivot.About("Cluster", cluster).Blocks(pivot.CodeClusterRuns,
				"move it first", "Cluster %s runs in this management cluster, so the provider lets its Ironic take the VIP",
				cluster.Name)})
		}
	}
	return nil
}
