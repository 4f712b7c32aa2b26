package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/bmc"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/witness"
)

// pivot returns the chapters of a cluster that is moved to its control plane.
func (s *story) pivot() []chapter {
	nodes := s.size.controlPlanes + s.size.workers
	return []chapter{
		{"The hosts before the first claim", s.recordHosts},
		{fmt.Sprintf("A cluster with %d nodes and the Ironic endpoint", nodes), s.create},
		{"clusterctl describes it", s.describe},
		{"The providers are installed in the cluster", s.install},
		{"clusterctl move", s.move},
		{"The management machine is switched off", s.loseManagement},
		{"One more worker, provisioned by the cluster itself", func(ctx context.Context) error {
			return s.scale(ctx, s.size.workers+1)
		}},
		{"The VIP holder is switched off", s.loseHolder},
		{"Summary", s.sumUp},
	}
}

// install installs the programs of a management cluster in the cluster, without Ironic, which its nodes run already.
func (s *story) install(ctx context.Context) error {
	began := time.Now()
	target, err := s.lab.Workload(ctx, clusterName)
	if err != nil {
		return err
	}
	if err := s.lab.Install(ctx, target, s.lab.Ironic()); err != nil {
		return err
	}
	s.mark("clusterctl init is done and all Deployments are available", time.Since(began))
	return s.until(ctx, "ReadyForMove is true", func(seen world) bool {
		return seen.hasCondition(infrav1.ReadyForMoveCondition)
	})
}

// move moves all objects to the cluster. From then on the demo watches the cluster.
func (s *story) move(ctx context.Context) error {
	target, err := s.lab.Workload(ctx, clusterName)
	if err != nil {
		return err
	}
	began := time.Now()
	s.moved = began
	arguments := []string{"move", "--namespace=" + s.namespace, "--to-kubeconfig=" + target.Kubeconfig}
	s.screen.say("clusterctl %s", strings.Join(arguments, " "))
	s.place.Add(began, "clusterctl move")
	if _, err := s.manager.Clusterctl().Run(ctx, arguments...); err != nil {
		return err
	}
	s.mark("clusterctl move is done", time.Since(began))
	s.manager, s.managerName = target, clusterName
	if err := s.until(ctx, "hosts and Machines are resumed, and nodes are armed", func(seen world) bool {
		return seen.running() == s.size.controlPlanes+s.size.workers && seen.resumed() == len(s.found) && seen.armed()
	}); err != nil {
		return err
	}
	return s.untouched("the move")
}

// loseManagement switches the management machine off and waits until a node holds the VIP.
func (s *story) loseManagement(ctx context.Context) error {
	began := time.Now()
	if err := s.lab.Machine(lab.ManagementName).PowerOff(ctx); err != nil {
		return err
	}
	s.mark("the management machine is switched off", time.Since(began))
	if err := s.until(ctx, "a node of the cluster holds the VIP", world.heldByNode); err != nil {
		return err
	}
	if err := s.until(ctx, "all hosts of the cluster are registered in Ironic at the VIP", world.allKnown); err != nil {
		return err
	}
	return s.untouched("the handover")
}

func (s *story) loseHolder(ctx context.Context) error {
	seen, err := s.observe(ctx)
	if err != nil {
		return err
	}
	holder := seen.holder().Name
	if s.lab.Machine(holder) == nil {
		return fmt.Errorf("the VIP holder is %q, and the lab has no machine with this name", holder)
	}
	s.screen.say("switching %s off", holder)
	began := time.Now()
	if err := s.lab.Machine(holder).PowerOff(ctx); err != nil {
		return err
	}
	s.mark(holder+" is switched off", time.Since(began))
	if err := s.until(ctx, "another node holds the VIP", func(seen world) bool {
		return seen.heldByNode() && seen.holder().Name != holder
	}); err != nil {
		return err
	}
	return s.until(ctx, "all hosts of the cluster are registered in Ironic at the VIP", world.allKnown)
}

// untouched returns an error if a machine was powered or rewritten since the move began.
func (s *story) untouched(by string) error {
	asked := s.lab.BMC().OperationsSince(s.moved)
	reads := func(operation bmc.Operation) bool { return !operation.Changes() }
	if changed := slices.DeleteFunc(slices.Clone(asked), reads); len(changed) > 0 {
		return fmt.Errorf("%s has changed machines: %v", by, changed)
	}
	s.screen.say("%d requests to the BMCs since the move began, and not one changed power, disk or media", len(asked))
	return nil
}

// sumUp prints the VIP holders and the answering Ironics, and writes the timeline.
func (s *story) sumUp(context.Context) error {
	for _, span := range calm(s.witness.Held.Since(s.moved)) {
		fmt.Printf("  held by      %s\n", span)
	}
	for _, span := range calm(s.witness.Answered.Since(s.moved)) {
		fmt.Printf("  answered by  %s\n", span)
	}
	if err := s.witness.Check(s.began, sharedLimit); err != nil {
		return err
	}
	return s.writeTimeline()
}

// calm omits short gaps: a single probe without an answer in time.
func calm(spans []witness.Span) []witness.Span {
	var kept []witness.Span
	for _, span := range spans {
		last := len(kept) - 1
		switch {
		case last >= 0 && kept[last].Who == span.Who:
			kept[last].To = span.To
		case last >= 0 && span.Who == witness.None && span.Length() < missed:
			kept[last].To = span.To
		default:
			kept = append(kept, span)
		}
	}
	return kept
}

// missed is the longest gap that calm omits.
const missed = 250 * time.Millisecond

// sharedLimit is the time in which two machines may answer for the VIP during a takeover.
const sharedLimit = 2 * time.Second

// hasCondition returns true if a condition of the Metal3Cluster is true.
func (w world) hasCondition(conditionType string) bool {
	return w.infra != nil && meta.IsStatusConditionTrue(w.infra.Status.Conditions, conditionType)
}

// resumed returns the number of hosts that are not paused and have a status.
func (w world) resumed() int {
	count := 0
	for i := range w.hosts {
		if _, paused := w.hosts[i].Annotations[bmov1alpha1.PausedAnnotation]; !paused &&
			w.hosts[i].Status.Provisioning.State != bmov1alpha1.StateNone {
			count++
		}
	}
	return count
}

// armed returns true if all control-plane nodes may claim the VIP.
func (w world) armed() bool {
	if w.infra == nil || w.infra.Status.Ironic == nil || len(w.infra.Status.Ironic.Nodes) == 0 {
		return false
	}
	for _, node := range w.infra.Status.Ironic.Nodes {
		if !ptr.Deref(node.Armed, false) {
			return false
		}
	}
	return true
}

// holder returns the VIP holder. The kind is empty if it is unknown.
func (w world) holder() infrav1.IronicHolder {
	if w.infra == nil || w.infra.Status.Ironic == nil {
		return infrav1.IronicHolder{}
	}
	return ptr.Deref(w.infra.Status.Ironic.Holder, infrav1.IronicHolder{})
}

func (w world) heldByNode() bool { return w.holder().Kind == infrav1.HolderControlPlane }

// allKnown returns true if every host of the cluster is registered with the Ironic that answers.
func (w world) allKnown() bool {
	held := 0
	for i := range w.hosts {
		if w.hosts[i].Spec.ConsumerRef != nil {
			held++
		}
	}
	return w.heldByNode() && ptr.Deref(w.infra.Status.Ironic.KnownHosts, 0) == int32(held)
}

// describeIronic returns the VIP holder and the number of registered hosts.
func describeIronic(infra *infrav1.Metal3Cluster) string {
	seen := world{infra: infra}
	text := "unknown holder"
	if holder := seen.holder(); holder.Kind == infrav1.HolderNone {
		text = "not held"
	} else if holder.Kind != "" {
		text = fmt.Sprintf("held by %s %s", holder.Kind, holder.Name)
	}
	if status := infra.Status.Ironic; status != nil && status.KnownHosts != nil {
		text += fmt.Sprintf(", %d hosts known", *status.KnownHosts)
	}
	if seen.armed() {
		text += ", nodes armed"
	}
	return text
}
