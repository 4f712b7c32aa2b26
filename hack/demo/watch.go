package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

const (
	// observeEvery is the interval between reads of the objects.
	observeEvery = 500 * time.Millisecond

	// patience is the time limit of one chapter on a busy machine.
	patience = 15 * time.Minute
)

// world is the objects in the management cluster.
type world struct {
	clusters []clusterv1.Cluster
	hosts    []bmov1alpha1.BareMetalHost
	machines []clusterv1.Machine
	metal3   []infrav1.Metal3Machine
	// infra is the Metal3Cluster. Nil if there is none.
	infra *infrav1.Metal3Cluster
}

func (s *story) observe(ctx context.Context) (world, error) {
	var clusters clusterv1.ClusterList
	var hosts bmov1alpha1.BareMetalHostList
	var machines clusterv1.MachineList
	var metal3 infrav1.Metal3MachineList
	var infra infrav1.Metal3ClusterList
	for _, list := range []client.ObjectList{&clusters, &hosts, &machines, &metal3, &infra} {
		if err := s.manager.Client.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
			return world{}, err
		}
	}
	seen := world{clusters: clusters.Items, hosts: hosts.Items, machines: machines.Items, metal3: metal3.Items}
	if len(infra.Items) > 0 {
		seen.infra = &infra.Items[0]
	}
	s.note(seen)
	return seen, nil
}

// note adds the observations to the tracks of the timeline.
func (s *story) note(seen world) {
	var hosts, machines []string
	for i := range seen.hosts {
		hosts = append(hosts, string(seen.hosts[i].Status.Provisioning.State))
	}
	for i := range seen.machines {
		machines = append(machines, seen.machines[i].Status.Phase)
	}
	now := time.Now()
	s.place.Add(now, s.managerName)
	s.hosts.Add(now, tally(hosts...))
	s.machines.Add(now, tally(machines...))
}

// tally counts equal texts, such as "1 available, 3 provisioned".
func tally(states ...string) string {
	counts := map[string]int{}
	for _, state := range states {
		counts[state]++
	}
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[state], cmp.Or(state, "new")))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// describe returns the state of each object, by its name for users.
func (w world) describe() map[string]string {
	objects := map[string]string{}
	for i := range w.clusters {
		available := describeCondition(w.clusters[i].Status.Conditions, clusterv1.AvailableCondition)
		// The message lists all objects below, which is too long here.
		objects["Cluster "+w.clusters[i].Name], _, _ = strings.Cut(available, ":")
	}
	if w.infra != nil && w.infra.Spec.Ironic != nil {
		objects["Ironic endpoint"] = describeIronic(w.infra)
		objects["ReadyForMove"] = describeCondition(w.infra.Status.Conditions, infrav1.ReadyForMoveCondition)
	}
	for i := range w.hosts {
		objects["BareMetalHost "+w.hosts[i].Name] = describeHost(&w.hosts[i])
	}
	for i := range w.machines {
		objects["Machine "+w.machines[i].Name] = describeMachine(&w.machines[i])
	}
	for i := range w.metal3 {
		objects["Metal3Machine "+w.metal3[i].Name] = describeCondition(w.metal3[i].Status.Conditions, infrav1.ReadyCondition)
	}
	return objects
}

func describeHost(host *bmov1alpha1.BareMetalHost) string {
	state := string(host.Status.Provisioning.State)
	if state == "" {
		state = "new"
	}
	power := "off"
	if host.Status.PoweredOn {
		power = "on"
	}
	text := fmt.Sprintf("%s, power %s", state, power)
	if _, paused := host.Annotations[bmov1alpha1.PausedAnnotation]; paused {
		text += ", paused"
	}
	if host.Spec.ConsumerRef != nil {
		text += ", held by " + host.Spec.ConsumerRef.Name
	}
	if host.Status.ErrorMessage != "" {
		text += ", error: " + host.Status.ErrorMessage
	}
	return text
}

func describeMachine(machine *clusterv1.Machine) string {
	text := machine.Status.Phase
	if machine.Status.NodeRef.IsDefined() {
		text += ", node " + machine.Status.NodeRef.Name
		if !nodeReady(machine) {
			text += " is not ready yet"
		}
	}
	return text
}

func describeCondition(conditions []metav1.Condition, conditionType string) string {
	condition := meta.FindStatusCondition(conditions, conditionType)
	switch {
	case condition == nil:
		return "new"
	case condition.Status == metav1.ConditionTrue:
		return condition.Type
	case condition.Message == "":
		return condition.Reason
	default:
		return condition.Reason + ": " + condition.Message
	}
}

func nodeReady(machine *clusterv1.Machine) bool {
	return meta.IsStatusConditionTrue(machine.Status.Conditions, clusterv1.MachineNodeReadyCondition)
}

// running returns the number of machines with ready Nodes.
func (w world) running() int {
	count := 0
	for i := range w.machines {
		phase := clusterv1.MachinePhase(w.machines[i].Status.Phase)
		if phase == clusterv1.MachinePhaseRunning && nodeReady(&w.machines[i]) {
			count++
		}
	}
	return count
}

// available returns true if the cluster exists and is complete.
func (w world) available() bool {
	for i := range w.clusters {
		if !meta.IsStatusConditionTrue(w.clusters[i].Status.Conditions, clusterv1.AvailableCondition) {
			return false
		}
	}
	return len(w.clusters) > 0
}

// free returns the number of hosts that can be claimed.
func (w world) free() int {
	count := 0
	for i := range w.hosts {
		if w.hosts[i].Status.Provisioning.State == bmov1alpha1.StateAvailable && w.hosts[i].Spec.ConsumerRef == nil {
			count++
		}
	}
	return count
}

// until prints changes until a condition is met, and marks the duration.
func (s *story) until(ctx context.Context, what string, wanted func(world) bool) error {
	started := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("ended after %s", patience))
	defer cancel()
	defer s.screen.clear()
	ticker := time.NewTicker(observeEvery)
	defer ticker.Stop()
	for {
		seen, err := s.observe(ctx)
		// An API server may not answer for a moment when its node is powered off.
		if err == nil {
			s.screen.show(seen.describe())
			if wanted(seen) {
				s.mark(what, time.Since(started))
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, errors.Join(context.Cause(ctx), err))
		case <-ticker.C:
		}
	}
}
