package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

const (
	// lookEvery is how often the objects are looked at.
	lookEvery = 300 * time.Millisecond

	// patience is how long one chapter may take.
	patience = 2 * time.Minute
)

// world is what the demo shows of the objects, by a name for people.
type world struct {
	hosts    []bmov1alpha1.BareMetalHost
	machines []clusterv1.Machine
	metal3   []infrav1.Metal3Machine
	lines    map[string]string
}

func (p *platform) look(ctx context.Context) (world, error) {
	var hosts bmov1alpha1.BareMetalHostList
	var machines clusterv1.MachineList
	var metal3 infrav1.Metal3MachineList
	for _, list := range []client.ObjectList{&hosts, &machines, &metal3} {
		if err := p.server.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return world{}, err
		}
	}
	seen := world{hosts: hosts.Items, machines: machines.Items, metal3: metal3.Items, lines: map[string]string{}}
	for _, host := range seen.hosts {
		seen.lines["BareMetalHost "+host.Name] = describeHost(host)
	}
	for _, machine := range seen.machines {
		seen.lines["Machine "+machine.Name] = machine.Status.Phase
	}
	for _, machine := range seen.metal3 {
		seen.lines["Metal3Machine "+machine.Name] = describeMachine(machine)
	}
	return seen, nil
}

func describeHost(host bmov1alpha1.BareMetalHost) string {
	state := string(host.Status.Provisioning.State)
	if state == "" {
		state = "new"
	}
	if host.Spec.ConsumerRef == nil {
		return state + ", free"
	}
	return state + ", held by " + host.Spec.ConsumerRef.Name
}

func describeMachine(machine infrav1.Metal3Machine) string {
	ready := meta.FindStatusCondition(machine.Status.Conditions, infrav1.ReadyCondition)
	switch {
	case ready == nil:
		return "new"
	case ready.Status == metav1.ConditionTrue:
		return "Ready"
	case ready.Message == "":
		return ready.Reason
	default:
		return ready.Reason + ": " + ready.Message
	}
}

// until prints what changes until the world is as wanted.
func (p *platform) until(ctx context.Context, what string, wanted func(world) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("gave up after %s", patience))
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		seen, err := p.look(ctx)
		if err != nil {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
		p.show(seen.lines)
		if wanted(seen) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// show prints the lines that differ from those that were shown before.
func (p *platform) show(lines map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		if before, known := p.shown[name]; !known || before != lines[name] {
			p.say("  %-42s %s", name, lines[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.shown)) {
		if _, still := lines[name]; !still {
			p.say("  %-42s gone", name)
		}
	}
	p.shown = lines
}
