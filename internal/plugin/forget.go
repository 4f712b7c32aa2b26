package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// forgetting is the command forget.
type forgetting struct {
	recovery
	host string
}

func setupForget(set *pflag.FlagSet) runner {
	c := &forgetting{}
	set.StringVar(&c.host, "host", "", "name of the one BareMetalHost to forget; default: all that moved away")
	return setupSource(set, &c.recovery, "PivotForget", c.forget)
}

// departed reads the record of objects that moved away from a namespace. The ConfigMap is nil if there is none.
func (c *cluster) departed(ctx context.Context, namespace string) (*corev1.ConfigMap, pivot.Departure, error) {
	kept := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: namespace, Name: pivot.DepartureName}
	if err := c.client.Get(ctx, key, kept); client.IgnoreNotFound(err) != nil {
		return nil, pivot.Departure{}, c.blind(fmt.Errorf("reading ConfigMap %s: %w", key, err))
	} else if err != nil {
		return nil, pivot.Departure{}, nil
	}
	departed, err := pivot.DepartureOf(kept.Data)
	if err != nil {
		return nil, departed, fmt.Errorf("%w; delete the ConfigMap if you do not need it", err)
	}
	return kept, departed, nil
}

// forget removes the record of objects that moved away from the source.
func (c *forgetting) forget(ctx context.Context) error {
	var chosen forgotten
	again, err := c.confirmPlan(ctx, func() (planned intent, err error) {
		chosen, err = c.plan(ctx)
		if len(chosen.names) > 0 {
			planned = intent{objects: chosen.names, question: fmt.Sprintf("%s can be created in namespace %s again. If another "+
				"cluster manages them, BMO here reboots them.", pivot.Enumerate(chosen.names), c.where.namespace)}
		}
		return planned, err
	}, func() error { return nil })
	if again == nil || err != nil {
		return err
	}
	if len(chosen.names) > 0 {
		err = c.act(func() error { return c.write(ctx, chosen) }, "Forgot %s", pivot.Enumerate(chosen.names))
	}
	c.done.Done = err == nil
	return err
}

// forgotten are the objects to forget, and the record without them.
type forgotten struct {
	names []string
	kept  *corev1.ConfigMap
	rest  pivot.Departure
}

// plan reads both clusters, and returns the objects to forget. It adds obstacles.
func (c *forgetting) plan(ctx context.Context) (forgotten, error) {
	kept, departed, err := c.source.departed(ctx, c.where.namespace)
	if err != nil || kept == nil {
		return forgotten{}, err
	}
	var there *sight
	if c.target != nil {
		if there, err = c.target.lookLeniently(ctx, c.where.namespace); err != nil {
			return forgotten{}, err
		}
	}
	names, rest, refusals := forgetful(departed, c.host, there)
	return forgotten{names, kept, rest}, c.refuse(targetSide, refusals...)
}

// write writes the remaining record. It deletes the ConfigMap of an empty record.
func (c *forgetting) write(ctx context.Context, chosen forgotten) error {
	kept, rest := chosen.kept, chosen.rest
	if len(rest.Hosts)+len(rest.Infras) == 0 {
		return client.IgnoreNotFound(c.source.client.Delete(ctx, kept, client.Preconditions{
			UID: &kept.UID, ResourceVersion: &kept.ResourceVersion,
		}))
	}
	kept.Data = rest.Data()
	return c.source.client.Update(ctx, kept)
}

// forgetful returns the objects to forget and the objects to keep, or obstacles. There is nil if the other cluster is
// not named. The first row that matches counts.
//
//	named host         other cluster                         forgotten
//	did not move away  any                                   refused: the name is mistaken
//	any                has one that would be forgotten       refused: it is managed there
//	a host             any other, or not known               that host
//	none               any other, or not known               all hosts and Metal3Clusters
func forgetful(departed pivot.Departure, host string, there *sight,
) (chosen []string, rest pivot.Departure, refusals []pivot.Obstacle) {
	rest = pivot.Departure{Infras: map[string]pivot.Epoch{}}
	var names []string
	var hosts []pivot.DepartedHost
	for _, each := range departed.Hosts {
		names = append(names, each.Name)
		if host == "" || each.Name == host {
			hosts = append(hosts, each)
			chosen = append(chosen, "BareMetalHost "+each.Name)
		} else {
			rest.Hosts = append(rest.Hosts, each)
		}
	}
	infras := sortedKeys(departed.Infras)
	if host != "" {
		rest.Infras, infras = departed.Infras, nil
	}
	for _, name := range infras {
		chosen = append(chosen, "Metal3Cluster "+name)
	}
	if len(chosen) == 0 {
		return nil, departed, []pivot.Obstacle{pivot.AboutNamed("BareMetalHost", "", host).Blocks(pivot.CodeWrongStage,
			"use one of: "+strings.Join(names, ", "), "BareMetalHost %s is not among the hosts that moved away", host)}
	}
	if there != nil {
		remedy := "delete it there first"
		if host == "" {
			remedy += ", or name one host with --host"
		}
		refusals = managedThere(hosts, infras, there, remedy)
	}
	return chosen, rest, refusals
}

// managedThere returns obstacles with a remedy for objects to forget that are in the other cluster.
func managedThere(hosts []pivot.DepartedHost, infras []string, there *sight, remedy string) []pivot.Obstacle {
	var found []pivot.Obstacle
	for _, host := range there.hosts {
		same := func(left pivot.DepartedHost) bool { return left.Is(host) }
		if slices.ContainsFunc(hosts, same) && !infrav1.IsLeaving(host) {
			found = append(found, inTarget("BareMetalHost", host, remedy))
		}
	}
	for _, infra := range there.infras {
		if slices.Contains(infras, infra.Name) && !infrav1.IsLeaving(infra) {
			found = append(found, inTarget("Metal3Cluster", infra, remedy))
		}
	}
	return found
}

func inTarget(kind string, object client.Object, remedy string) pivot.Obstacle {
	return pivot.About(kind, object).Blocks(pivot.CodeInTarget, remedy,
		"%s %s is in the other cluster, which manages it", kind, object.GetName())
}
