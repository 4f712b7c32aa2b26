package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/spf13/pflag"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// allowing is the command allow-busy.
type allowing struct {
	recovery
	hosts []string
	undo  bool
}

func setupAllowBusy(set *pflag.FlagSet) runner {
	c := &allowing{}
	set.StringSliceVar(&c.hosts, "host", nil, "name of a BareMetalHost")
	set.BoolVar(&c.undo, "undo", false, "let the move wait for the hosts")
	c.addSingle(set)
	return c.runner("PivotAllowBusy", c.open, c.allow)
}

func (c *allowing) open(environment Environment) error {
	if len(c.hosts) == 0 {
		return errors.New("--host is empty: name the BareMetalHost")
	}
	return c.openSource(environment)
}

// allow sets or removes the annotation that allows a host to move during an operation of BMO.
func (c *allowing) allow(ctx context.Context) error {
	var chosen []*bmov1alpha1.BareMetalHost
	confirmed, err := c.confirm(ctx, func() (intended intent, refusals []pivot.Obstacle, err error) {
		seen, err := c.source.look(ctx, c.where.namespace)
		if err != nil {
			return intended, nil, err
		}
		chosen, refusals = allowable(seen, c.hosts, c.undo)
		for _, host := range chosen {
			change := fmt.Sprintf("BareMetalHost %s is %s: it moves meanwhile, and Ironic continues.",
				host.Name, pivot.Busy(host))
			if c.undo {
				change = fmt.Sprintf("The move waits until BareMetalHost %s is not busy.", host.Name)
			}
			intended.objects = append(intended.objects, change)
		}
		intended.question = strings.Join(intended.objects, " ")
		return intended, refusals, nil
	})
	if !confirmed || err != nil {
		return err
	}
	value, what := `""`, "Let BareMetalHost %s move while it is busy"
	if c.undo {
		value, what = "null", "Let the move wait for BareMetalHost %s"
	}
	for _, host := range chosen {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:%s}}}`, host.UID,
			infrav1.MoveWhileBusyAnnotation, value)
		err := c.act(func() error { return mergePatch(ctx, c.source.client, host.DeepCopy(), patch) }, what, host.Name)
		if err != nil {
			return err
		}
	}
	c.done.Done = true
	return nil
}

// allowable returns the named hosts whose annotation must change, or obstacles.
func allowable(seen *sight, names []string, undo bool) (
	chosen []*bmov1alpha1.BareMetalHost, refusals []pivot.Obstacle,
) {
	for _, name := range names {
		i := slices.IndexFunc(seen.hosts, func(host *bmov1alpha1.BareMetalHost) bool { return host.Name == name })
		if i < 0 {
			refusals = append(refusals, pivot.AboutNamed("BareMetalHost", seen.namespace, name).Blocks(pivot.CodeHostLost,
				"name another one", "BareMetalHost %s does not exist", name))
			continue
		}
		host := seen.hosts[i]
		if _, allowed := host.Annotations[infrav1.MoveWhileBusyAnnotation]; allowed != undo {
			continue
		}
		if !undo {
			refusals = append(refusals, pivot.AllowObstacles(host)...)
		}
		chosen = append(chosen, host)
	}
	return chosen, refusals
}
