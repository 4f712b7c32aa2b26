package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

func setupDiscard(set *pflag.FlagSet) runner {
	c := &keeping{}
	c.addFlags(set)
	return c.runner("PivotDiscard", c.open, c.discardHost)
}

// discardHost removes a leftover host with the objects that it owns. BMO does not act on the host.
func (c *keeping) discardHost(ctx context.Context) error {
	var found []removal
	var saved []*unstructured.Unstructured
	confirmed, err := c.confirm(ctx, func() (intended intent, refusals []pivot.Obstacle, err error) {
		if found, refusals, err = c.discardable(ctx); err != nil || len(refusals) > 0 {
			return intended, refusals, err
		}
		saved, err = c.read(ctx, c.where.namespace, found)
		for _, each := range found {
			intended.objects = append(intended.objects, each.String())
		}
		intended.question = fmt.Sprintf("BareMetalHost %s/%s is saved in %s with %s that it owns, and removed. Nothing is "+
			"done to the machine: it keeps its power and its disks, and no BMO manages it.",
			c.where.namespace, c.name, c.backup, number(len(found)-1, "object"))
		return intended, nil, err
	})
	if !confirmed || err != nil {
		return err
	}
	host := found[0]
	err = c.act(func() error {
		if err := writeBackup(c.backup, saved); err != nil {
			return err
		}
		// A host that has changed stays, so the backup is not required.
		if err := host.mark(ctx, c.source.client); err != nil {
			return errors.Join(err, os.Remove(c.backup))
		}
		return nil
	}, "Saved %s in %s", number(len(saved), "object"), c.backup)
	if err != nil {
		return err
	}
	err = c.remove(ctx, c.source, append(found[1:], host))
	c.done.Done = err == nil
	return err
}

// discardable returns the host and the objects that it owns, the host first, or obstacles.
func (c *keeping) discardable(ctx context.Context) ([]removal, []pivot.Obstacle, error) {
	seen, err := c.source.look(ctx, c.where.namespace)
	if err != nil {
		return nil, nil, err
	}
	host := &bmov1alpha1.BareMetalHost{}
	key := client.ObjectKey{Namespace: c.where.namespace, Name: c.name}
	if err := c.source.client.Get(ctx, key, host); err != nil {
		return nil, nil, c.source.blind(fmt.Errorf("reading BareMetalHost %s: %w", key, err))
	}
	claimed, err := c.isClaimed(ctx, host)
	if err != nil {
		return nil, nil, err
	}
	if refusals := pivot.DiscardObstacles(host, seen.around, claimed); len(refusals) > 0 {
		return nil, refusals, nil
	}
	found, err := c.withBelongings(ctx, host)
	return found, nil, err
}

// mark sets the annotation delete-for-move on an object. It returns an error if the object has changed since the last
// read.
func (r removal) mark(ctx context.Context, c client.Client) error {
	object := r.object.DeepCopy()
	object.SetGroupVersionKind(r.kind.WithVersion(r.version))
	return mergePatch(ctx, c, object, fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q,"annotations":{%q:""}}}`,
		object.UID, object.ResourceVersion, infrav1.DeleteForMoveAnnotation))
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
