package plugin

import (
	"context"
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

func setupDiscard(set *pflag.FlagSet) runner {
	c := &keeping{}
	c.addFlags(set)
	return c.runner("PivotDiscard", c.open, c.discardHost)
}

// discardHost removes the object of a host that an earlier move has left, with what it owns, without BMO acting on the
// host.
func (c *keeping) discardHost(ctx context.Context) error {
	seen, err := c.source.look(ctx, c.where.namespace)
	if err != nil {
		return err
	}
	host := &bmov1alpha1.BareMetalHost{}
	key := client.ObjectKey{Namespace: c.where.namespace, Name: c.name}
	if err := c.source.client.Get(ctx, key, host); err != nil {
		return c.source.blind(fmt.Errorf("reading BareMetalHost %s: %w", key, err))
	}
	claimed, err := c.isClaimed(ctx, host)
	if err != nil {
		return err
	}
	if refusals := pivot.DiscardObstacles(host, seen.around, claimed); len(refusals) > 0 {
		return c.refuse(sourceSide, refusals...)
	}
	found, err := c.withBelongings(ctx, host)
	if err != nil {
		return err
	}
	saved, err := c.read(ctx, host.Namespace, found)
	if err != nil {
		return err
	}
	question := fmt.Sprintf("BareMetalHost %s/%s is saved in %s with %s that it owns, and removed. Nothing is done to "+
		"the machine: it keeps its power and its disks, and no BMO manages it.",
		host.Namespace, host.Name, c.backup, number(len(saved)-1, "object"))
	if err := c.ask(question); err != nil {
		return err
	}
	err = c.act(func() error { return writeBackup(c.backup, saved) },
		"Saved %s in %s", number(len(saved), "object"), c.backup)
	if err != nil {
		return err
	}
	owned := append(found[1:], found[0])
	err = c.remove(ctx, c.source, owned)
	c.done.Done = err == nil
	return err
}

// isClaimed returns true if the Metal3Machine that a host names exists.
func (c *keeping) isClaimed(ctx context.Context, host *bmov1alpha1.BareMetalHost) (bool, error) {
	consumer := host.Spec.ConsumerRef
	if consumer == nil || consumer.GroupVersionKind().Group != infrav1.GroupVersion.Group {
		return false, nil
	}
	key := client.ObjectKey{Namespace: host.Namespace, Name: consumer.Name}
	err := c.source.client.Get(ctx, key, &infrav1.Metal3Machine{})
	if client.IgnoreNotFound(err) != nil {
		return false, c.source.blind(fmt.Errorf("reading Metal3Machine %s: %w", key, err))
	}
	return err == nil, nil
}
