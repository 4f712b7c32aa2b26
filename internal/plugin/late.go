package plugin

import (
	"context"
	"fmt"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// lateHosts are hosts that a user created between the discovery of clusterctl and the end of the move. They stay in the
// source, paused, and no Cluster is left there that would resume them.
type lateHosts struct {
	hosts []*bmov1alpha1.BareMetalHost

	// belongings are the hosts, what they own, and their Secrets: all that the target lacks.
	belongings map[located]bool
}

// lateIn finds the hosts that a second clusterctl move can bring to the target, or says why one cannot be moved. The
// first row that fits counts.
//
//	source                                           moved by a second clusterctl move
//	has a Cluster                                    none: the move is not complete
//	has objects that the target lacks, besides       none: a person has to decide
//	hosts, what these own, and their Secrets
//	has a host that is not paused                    refused: BMO manages the host in the source
//	has a host whose status is not recorded          refused: BMO in the target would begin anew with the host
//	has a host with a Secret that would stay behind  refused
//	has any other hosts that the target lacks        these hosts
func lateIn(source, target *scope) (lateHosts, []pivot.Obstacle) {
	late := lateHosts{belongings: map[located]bool{}}
	missing := (arrival{scope: target, from: source}).notHere()
	if len(source.clusters) > 0 || len(missing) == 0 {
		return lateHosts{}, nil
	}
	for _, host := range source.hosts {
		each := located{hostKindOf(), host.Name}
		if !infrav1.IsLeaving(host) && slices.Contains(missing, each) {
			late.hosts = append(late.hosts, host)
			source.addBelongings(each, late.belongings)
			for _, name := range pivot.NamedSecrets(host) {
				late.belongings[located{secretKind(), name}] = true
			}
		}
	}
	if slices.ContainsFunc(missing, func(each located) bool { return !late.belongings[each] }) {
		return lateHosts{}, nil
	}
	var refusals []pivot.Obstacle
	for _, host := range late.hosts {
		refusals = append(refusals, lateObstacles(source, target, host)...)
	}
	return late, refusals
}

// addBelongings adds an object of the source and all that it owns.
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

// lateObstacles say why a second clusterctl move would not bring a host as it is.
func lateObstacles(source, target *scope, host *bmov1alpha1.BareMetalHost) []pivot.Obstacle {
	about := pivot.About("BareMetalHost", host)
	_, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
	switch {
	case !paused:
		return []pivot.Obstacle{about.Blocks(pivot.CodeLeftoverRuns,
			"delete it here and create it in the target, or leave it here and remove the rest with pivot clean",
			"BareMetalHost %s is in the source only, and BMO manages it there", host.Name)}
	case !pivot.Parked(host):
		return []pivot.Obstacle{about.Blocks(pivot.CodeHostParking,
			fmt.Sprintf("remove its annotation %s, wait until BMO is done with it, delete it here and create it in the target",
				bmov1alpha1.PausedAnnotation),
			"BareMetalHost %s is in the source only, paused, and its status is not recorded, so BMO in the target would begin "+
				"anew with it", host.Name)}
	}
	var found []pivot.Obstacle
	for _, name := range pivot.NamedSecrets(host) {
		_, there := target.secrets[name]
		if secret, here := source.secrets[name]; here && !there && !pivot.Moves(secret) {
			found = append(found, pivot.About("Secret", secret).Blocks(pivot.CodeSecretStays,
				fmt.Sprintf("set label %s on it", infrav1.MoveLabel),
				"Secret %s of BareMetalHost %s has no owner and would stay behind", name, host.Name))
		}
	}
	return found
}

// moveLate moves the hosts with a second clusterctl move. Nothing else may be left in the source: clusterctl would
// update objects of the target with what an interrupted move has left.
func (c *recovery) moveLate(ctx context.Context, late lateHosts) error {
	what := fmt.Sprintf("Moved %s that a user created during the move", number(len(late.hosts), "BareMetalHost"))
	if c.dryRun {
		c.done.Actions = append(c.done.Actions, what)
		return nil
	}
	left, err := c.source.survey(ctx, c.where.namespace)
	if err != nil {
		return err
	}
	for _, each := range left.movable() {
		if left.takes(each.kind, each.object) && !late.belongings[each.located] {
			return c.refuse(sourceSide, pivot.AboutNamed(each.kind.Kind, left.namespace, each.name).Blocks(pivot.CodeLeftover,
				"remove it, and run the command again", "%s is left in the source, and a second move would take it along", each))
		}
	}
	question := fmt.Sprintf("%s of the source, created during the move, are moved to the target.",
		number(len(late.hosts), "BareMetalHost"))
	if err := c.ask(question); err != nil {
		return err
	}
	if err := c.clusterctlMove(ctx, len(late.belongings)); err != nil {
		return fmt.Errorf("clusterctl move: %w; run the same command again", err)
	}
	c.done.Actions = append(c.done.Actions, what)
	return nil
}
