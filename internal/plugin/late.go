package plugin

import (
	"context"
	"fmt"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// lateHosts are hosts that a user created between the discovery of clusterctl and the end of the move. They stay in the
// source, and no Cluster is left there.
type lateHosts struct {
	// hosts are paused. No manager resumes them.
	hosts []*bmov1alpha1.BareMetalHost

	// staying are hosts that BMO of the source manages, or will manage when the manager has resumed them.
	staying []*bmov1alpha1.BareMetalHost

	// belongings and kept are these two kinds of hosts with the objects that they own and their Secrets, which the target
	// lacks.
	belongings, kept map[located]bool
}

// spares returns true for an object that the target lacks and does not have to have before the source is swept.
func (l lateHosts) spares(object located) bool { return l.belongings[object] || l.kept[object] }

// lateIn returns the hosts that a second clusterctl move can bring to the target, the hosts that stay in the source,
// and obstacles for other hosts. The source has recorded the hosts of the last move. The first row that matches counts.
//
//	source                                           moved by a second clusterctl move
//	has a Cluster                                    none: the move is not complete
//	has objects that the target lacks, besides       none: an administrator must decide
//	hosts, what these own, and their Secrets
//	has a host that is also in the target, under     refused: two BMOs would manage one machine
//	another name
//	has a claimed host that is not paused            refused: its machine is in the target
//	has a host that is not paused                    stays: BMO manages the host in the source
//	has a host that the manager resumes              stays: see pivot.HasStayed
//	has a host whose status is not recorded          refused: BMO in the target would begin anew with the host
//	has a host with a Secret that would stay behind  refused
//	has any other hosts that the target lacks        these hosts
func lateIn(source, target *scope, remembered pivot.Departure) (lateHosts, []pivot.Obstacle) {
	late := lateHosts{belongings: map[located]bool{}, kept: map[located]bool{}}
	missing := arrivalOf(source, target).notHere()
	if len(source.clusters) > 0 || len(missing) == 0 {
		return lateHosts{}, nil
	}
	var refusals []pivot.Obstacle
	for _, host := range source.hosts {
		each := located{hostKindOf(), host.Name}
		if infrav1.IsLeaving(host) || !slices.Contains(missing, each) {
			continue
		}
		belongings := late.belongings
		if stays(source, host, remembered) {
			late.staying, belongings = append(late.staying, host), late.kept
			refusals = append(refusals, stayingObstacles(target, host)...)
		} else {
			late.hosts = append(late.hosts, host)
			refusals = append(refusals, lateObstacles(source, target, host)...)
		}
		source.addBelongings(each, belongings)
		for _, name := range pivot.NamedSecrets(host) {
			belongings[located{secretKind(), name}] = true
		}
	}
	if slices.ContainsFunc(missing, func(each located) bool { return !late.spares(each) }) {
		return lateHosts{}, nil
	}
	return late, refusals
}

// stays returns true for a host that BMO of the source manages, now or as soon as the manager has resumed it.
func stays(source *scope, host *bmov1alpha1.BareMetalHost, remembered pivot.Departure) bool {
	_, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
	return !paused || pivot.MayHaveStayed(host, source.around) && remembered.HasStayed(host)
}

// addBelongings adds an object of the source and all objects that it owns.
func (s *scope) addBelongings(owner located, found map[located]bool) {
	found[owner] = true
	for _, each := range s.movable() {
		for _, reference := range each.object.OwnerReferences {
			if reference.Kind == owner.kind.Kind && reference.Name == owner.name && !found[each.located] {
				s.addBelongings(each.located, found)
			}
		}
	}
}

// stayingObstacles returns why a host cannot stay in the source, where BMO manages it.
func stayingObstacles(target *scope, host *bmov1alpha1.BareMetalHost) []pivot.Obstacle {
	if found := sameMachine(target, host); len(found) > 0 || host.Spec.ConsumerRef == nil {
		return found
	}
	return []pivot.Obstacle{pivot.About("BareMetalHost", host).Blocks(pivot.CodeLeftoverRuns,
		"find out which Machine runs on it, and remove its spec.consumerRef in the source if none does",
		"BareMetalHost %s is in the source only, is claimed by %s %s, and BMO manages it there", host.Name,
		host.Spec.ConsumerRef.Kind, host.Spec.ConsumerRef.Name)}
}

// sameMachine returns an obstacle if the target has the machine of a host under another name.
func sameMachine(target *scope, host *bmov1alpha1.BareMetalHost) []pivot.Obstacle {
	for _, there := range target.hosts {
		if pivot.IsSameMachine(there, host) {
			return []pivot.Obstacle{pivot.About("BareMetalHost", host).Blocks(pivot.CodeMoveUnclear,
				"find out which host is correct, and remove the other one",
				"BareMetalHost %s of the source and BareMetalHost %s of the target have the same BMC address or boot MAC address",
				host.Name, there.Name)}
		}
	}
	return nil
}

// lateObstacles returns why a second clusterctl move would not keep a paused host unchanged.
func lateObstacles(source, target *scope, host *bmov1alpha1.BareMetalHost) []pivot.Obstacle {
	if found := sameMachine(target, host); len(found) > 0 {
		return found
	}
	if !pivot.Parked(host) {
		return []pivot.Obstacle{pivot.About("BareMetalHost", host).Blocks(pivot.CodeHostParking,
			fmt.Sprintf("remove its annotation %s, wait until BMO is done with it, delete it here and create it in the target",
				bmov1alpha1.PausedAnnotation),
			"BareMetalHost %s is in the source only, paused, and its status is not recorded, so BMO in the target would begin "+
				"anew with it", host.Name)}
	}
	var found []pivot.Obstacle
	for _, name := range pivot.NamedSecrets(host) {
		_, there := target.secrets[name]
		secret, here := source.secrets[name]
		switch {
		case there || !here || source.takes(secretKind(), secret):
		case len(secret.OwnerReferences) > 0:
			found = append(found, pivot.About("Secret", secret).Blocks(pivot.CodeOwnerStays, "create it in the target",
				"Secret %s of BareMetalHost %s has an owner that does not move, and would stay behind", name, host.Name))
		default:
			found = append(found, pivot.About("Secret", secret).Blocks(pivot.CodeSecretStays,
				fmt.Sprintf("set label %s on it", infrav1.MoveLabel),
				"Secret %s of BareMetalHost %s has no owner and would stay behind", name, host.Name))
		}
	}
	return found
}

// moveLate moves the hosts with a second clusterctl move. The source must have no other object: clusterctl
// would overwrite objects of the target with leftovers of an interrupted move. Moved are the Clusters of that move.
func (c *recovery) moveLate(ctx context.Context, late lateHosts, moved []*clusterv1.Cluster) error {
	if len(late.hosts) == 0 {
		return nil
	}
	what := fmt.Sprintf("Moved %s that a user created during the move", number(len(late.hosts), "BareMetalHost"))
	if c.dryRun {
		c.done.Actions = append(c.done.Actions, what)
		return nil
	}
	// The plan reads both sides.
	plan := func() (intent, error) { return c.planLate(ctx, late) }
	again, err := c.confirmPlan(ctx, plan, func() error { return nil })
	if again == nil || err != nil {
		return err
	}
	return c.exclusive(ctx, again, func(ctx context.Context) error {
		if err := c.clusterctlMove(ctx, len(late.belongings)); err != nil {
			return fmt.Errorf("clusterctl move: %w; run the same command again", err)
		}
		c.done.Actions = append(c.done.Actions, what)
		return c.unpauseKept(ctx, moved)
	})
}

// planLate refuses if a second clusterctl move would move other objects of the source too. It returns an error if a
// host was removed in the source since it was judged, or is in the target.
func (c *recovery) planLate(ctx context.Context, late lateHosts) (intent, error) {
	left, err := c.source.survey(ctx, c.where.namespace)
	if err != nil {
		return intent{}, err
	}
	arrived, err := c.target.survey(ctx, c.where.namespace)
	if err != nil {
		return intent{}, err
	}
	for _, each := range left.movable() {
		if left.takes(each.kind, each.object) && !late.belongings[each.located] {
			remedy := "remove it, and run the command again"
			if late.kept[each.located] {
				remedy = "create it in the target, and remove it here when BMO no longer manages it, for example after it is " +
					"detached: BMO wipes a host that is deleted"
			}
			return intent{}, c.refuse(sourceSide, pivot.AboutNamed(each.kind.Kind, left.namespace, each.name).Blocks(
				pivot.CodeLeftover, remedy,
				"%s is left in the source, and a second move would move it too", each))
		}
	}
	for _, host := range late.hosts {
		if each := (located{hostKindOf(), host.Name}); !left.has(each) || arrived.has(each) {
			return intent{}, fmt.Errorf("not done: %s %w", each, errChanged)
		}
	}
	return intent{question: fmt.Sprintf("%s of the source, created during the move, are moved to the target.",
		number(len(late.hosts), "BareMetalHost"))}, nil
}

// tellStaying prints which hosts stay in the source. It prints each host once.
func (c *recovery) tellStaying(late lateHosts) error {
	told := c.staying
	c.staying = nil
	for _, host := range late.staying {
		c.staying = append(c.staying, pivot.About("BareMetalHost", host).Blocks(pivot.CodeHostLate,
			"create it in the target, and delete it in the source",
			"BareMetalHost %s was created during the move, stays in the source, and BMO manages it there", host.Name))
	}
	for _, each := range c.staying {
		if slices.Contains(told, each) {
			continue
		}
		if err := c.progress.say("%s", each.Message); err != nil {
			return err
		}
	}
	return nil
}

// lateHosts finds the hosts that clusterctl has not discovered, or refuses.
func (c *recovery) lateHosts(ctx context.Context) (lateHosts, error) {
	_, remembered, err := c.source.departed(ctx, c.where.namespace)
	if err != nil {
		return lateHosts{}, err
	}
	late, refusals := lateIn(c.left, c.arrived, remembered)
	if len(refusals) > 0 {
		return late, c.refuse(sourceSide, refusals...)
	}
	return late, c.tellStaying(late)
}
