package main

import (
	"context"
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// wait creates the machines while no host is available, and measures the manager until all of them wait, and while
// they wait. Each machine counts its hosts again in the idle time.
func (s *session) wait(ctx context.Context) error {
	waiting := newTracker("machines that wait", s.result.size, isWaiting)
	if err := s.observer.track(ctx, &infrav1.Metal3Machine{}, waiting); err != nil {
		return err
	}
	before, err := s.manager.usage()
	if err != nil {
		return err
	}
	if err := s.createMachines(ctx); err != nil {
		return err
	}
	if _, err := waiting.wait(ctx); err != nil {
		return err
	}
	if _, err := s.rest(ctx); err != nil {
		return err
	}
	rested, err := s.manager.usage()
	if err != nil {
		return err
	}
	s.result.waited = rested.since(before)
	if s.result.minute, err = s.measureIdle(ctx); err != nil {
		return err
	}
	requests, err := s.rest(ctx)
	s.rested = len(requests)
	return err
}

// arrive makes the hosts available one by one, and waits until each machine reports its host.
func (s *session) arrive(ctx context.Context) error {
	if err := s.untilAssociated(ctx, func() error {
		for number := range s.result.hosts {
			host := s.fixture.hosts[hostName(number)]
			before := host.DeepCopy()
			host.Status.Provisioning.State = bmov1alpha1.StateAvailable
			if err := s.fixture.client.Status().Patch(ctx, &host, client.MergeFrom(before)); err != nil {
				return fmt.Errorf("making BareMetalHost %s available: %w", host.Name, err)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return s.verifyClaims(ctx)
}

func isWaiting(object client.Object) bool {
	machine, isMachine := object.(*infrav1.Metal3Machine)
	if !isMachine {
		return false
	}
	condition := meta.FindStatusCondition(machine.Status.Conditions, infrav1.HostAssociatedCondition)
	return condition != nil && condition.Reason == infrav1.NoHostAvailableReason
}
