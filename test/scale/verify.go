package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
)

const (
	// writesPerMachine is the maximum number of writes per association, including events.
	writesPerMachine = 4

	// writesPerWaiter is the same for a machine that has waited: its condition BareMetalHostProvisioned exists
	// already, so its change is an event.
	writesPerWaiter = 5

	// trialInterval is the interval at which the manager checks one host with a dry run.
	trialInterval = 5 * time.Minute

	// machineKind is the kind of the measured consumers.
	machineKind = "Metal3Machine"

	// shownHosts is the maximum number of hosts for a common problem.
	shownHosts = 3
)

// verifyClaims checks the claims after the association.
func (s *session) verifyClaims(ctx context.Context) error {
	var hosts bmov1alpha1.BareMetalHostList
	var machines infrav1.Metal3MachineList
	for _, list := range []client.ObjectList{&hosts, &machines} {
		if err := s.server.Client.List(ctx, list, client.InNamespace(build.DefaultNamespace)); err != nil {
			return fmt.Errorf("listing claims: %w", err)
		}
	}
	claims := map[string]string{}
	if s.result.contest != nil {
		claims = s.result.contest.claims
	}
	s.result.problems = append(s.result.problems, claimProblems(hosts.Items, machines.Items, claims)...)
	allowed := writesPerMachine * s.result.size
	if s.settings.arrivals {
		// Each waiting machine updates its message once a minute.
		minutes := int(s.result.associated/time.Minute) + 1
		allowed = (writesPerWaiter + minutes) * s.result.size
	}
	s.result.problems = append(s.result.problems, writeProblems(
		s.result.association, s.result.size, allowed, s.result.contest != nil)...)
	s.result.problems = append(s.result.problems, trialProblems(s.result.association, s.result.associated)...)
	return nil
}

// claimProblems returns errors of claims: every machine must have one complete host, and every host at most one
// consumer, which is the first one.
func claimProblems(hosts []bmov1alpha1.BareMetalHost, machines []infrav1.Metal3Machine, others map[string]string,
) []string {
	var problems []string
	hostsOf := map[string][]string{}
	for i := range hosts {
		consumer := hosts[i].Spec.ConsumerRef
		if name, claimed := others[hosts[i].Name]; claimed && (consumer == nil || consumer.Name != name) {
			problems = append(problems, fmt.Sprintf("double claim: host %s was claimed by %s and now belongs to %s",
				hosts[i].Name, name, nameOf(consumer)))
		}
		if !isMachine(consumer) {
			continue
		}
		hostsOf[consumer.Name] = append(hostsOf[consumer.Name], hosts[i].Name)
		if hosts[i].Spec.Image == nil || hosts[i].Spec.UserData == nil {
			problems = append(problems, fmt.Sprintf("host %s was claimed without image or user data", hosts[i].Name))
		}
	}
	for _, machine := range machines {
		recorded := machine.Annotations[infrav1.HostAnnotation]
		if held := hostsOf[machine.Name]; len(held) != 1 || recorded != machine.Namespace+"/"+held[0] {
			problems = append(problems, fmt.Sprintf("machine %s records host %q but holds %v", machine.Name, recorded, held))
		}
	}
	return problems
}

// writeProblems returns errors of the requests of an association: too many writes, and double claims.
func writeProblems(requests []env.Request, machines, allowed int, contested bool) []string {
	var problems []string
	written := map[string][]env.Request{}
	for _, request := range requests {
		if isHosts(request) && isWrite(request) && request.Code < 300 {
			written[request.Name] = append(written[request.Name], request)
		}
	}
	for _, host := range slices.Sorted(maps.Keys(written)) {
		if writes := written[host]; len(writes) > 1 {
			problems = append(problems, fmt.Sprintf("double claim: host %s was written %d times: %+v",
				host, len(writes), writes))
		}
	}
	// Status updates of the Cluster occur at most once a second, for any number of machines.
	asked := slices.DeleteFunc(ofManager(requests), isClusterReport)
	if contested {
		// A host of a competitor costs the refused write, and another to record the next host.
		allowed += 2 * count(asked, isConflict)
	}
	if writes := count(asked, isWrite); writes > allowed {
		problems = append(problems, fmt.Sprintf("%d writes for the association of %d machines, want %d at most",
			writes, machines, allowed))
	}
	return problems
}

// trialProblems returns errors of too many dry runs, with which the manager checks whether hosts can be paused.
func trialProblems(requests []env.Request, elapsed time.Duration) []string {
	allowed := int(elapsed/trialInterval) + 1
	if trials := count(ofManager(requests), isDryRun); trials > allowed {
		return []string{fmt.Sprintf("%d dry runs in %s, want %d at most", trials, elapsed, allowed)}
	}
	return nil
}

// verifyRelease checks that hosts have no leftovers, and that the requests since the start list no hosts.
func (s *session) verifyRelease(ctx context.Context, requests []env.Request) error {
	var hosts bmov1alpha1.BareMetalHostList
	if err := s.server.Client.List(ctx, &hosts, client.InNamespace(build.DefaultNamespace)); err != nil {
		return fmt.Errorf("listing released hosts: %w", err)
	}
	var changed []string
	for _, host := range hosts.Items {
		if s.result.contest != nil && s.result.contest.claims[host.Name] != "" {
			continue
		}
		if left := leftOn(s.fixture.hosts[host.Name], host); left != "" {
			changed = append(changed, fmt.Sprintf("host %s changed, -before, +now:\n%s", host.Name, left))
		}
	}
	if len(changed) > shownHosts {
		changed = append(changed[:shownHosts], fmt.Sprintf("%d hosts changed in all", len(changed)))
	}
	s.result.problems = append(s.result.problems, changed...)
	if lists := count(ofManager(requests), isHostList); lists > 0 {
		s.result.problems = append(s.result.problems, fmt.Sprintf("the manager listed hosts %d times after its start", lists))
	}
	return nil
}

// memoryProblems returns an error if the manager used too much memory, in bytes.
func memoryProblems(memory int64, machines int) []string {
	goal := memoryGoal(machines)
	if memory <= goal {
		return nil
	}
	return []string{fmt.Sprintf("the manager took %s of memory at its peak, more than %s",
		mebibytes(memory), mebibytes(goal))}
}

// leftOn compares the fields of a host that a machine may write with those before the claim. Empty means equal.
func leftOn(before, now bmov1alpha1.BareMetalHost) string {
	type owned struct {
		Spec        bmov1alpha1.BareMetalHostSpec
		Labels      map[string]string
		Annotations map[string]string
		Owners      []metav1.OwnerReference
		Finalizers  []string
	}
	part := func(host bmov1alpha1.BareMetalHost) owned {
		return owned{host.Spec, host.Labels, host.Annotations, host.OwnerReferences, host.Finalizers}
	}
	return cmp.Diff(part(before), part(now))
}

func isMachine(consumer *corev1.ObjectReference) bool {
	return consumer != nil && consumer.Kind == machineKind
}

func nameOf(consumer *corev1.ObjectReference) string {
	if consumer == nil {
		return "no consumer"
	}
	return consumer.Name
}
