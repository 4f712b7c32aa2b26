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
	// writesPerMachine is how many writes an association may cost, events included.
	writesPerMachine = 4

	// writesPerWaiter is the same for a machine that has waited: its condition BareMetalHostProvisioned exists already, so
	// its change is an event.
	writesPerWaiter = 5

	// machineKind is the kind of the consumers that are measured.
	machineKind = "Metal3Machine"

	// shownHosts is how many hosts a problem that many have in common is shown on.
	shownHosts = 3
)

// verifyClaims checks the claims after the association.
func (s *session) verifyClaims(ctx context.Context) error {
	var hosts bmov1alpha1.BareMetalHostList
	var machines infrav1.Metal3MachineList
	for _, list := range []client.ObjectList{&hosts, &machines} {
		if err := s.server.Client.List(ctx, list, client.InNamespace(build.DefaultNamespace)); err != nil {
			return fmt.Errorf("listing what was claimed: %w", err)
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
	return nil
}

// claimProblems says what is wrong with claims: every machine must have one complete host, and every host at most one
// consumer, which is still the one that claimed it.
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
			problems = append(problems, fmt.Sprintf("machine %s records host %q and holds %v", machine.Name, recorded, held))
		}
	}
	return problems
}

// writeProblems says what is wrong with the requests of an association, which others may have contested, and which may
// cost a number of writes.
func writeProblems(requests []env.Request, machines, allowed int, contested bool) []string {
	var problems []string
	written := map[string]int{}
	for _, request := range requests {
		if isHosts(request) && isWrite(request) && request.Code < 300 {
			written[request.Name]++
		}
	}
	for _, host := range slices.Sorted(maps.Keys(written)) {
		if written[host] > 1 {
			problems = append(problems, fmt.Sprintf("double claim: host %s was written %d times", host, written[host]))
		}
	}
	// What is reported about the cluster is written at most once a second, however many machines there are.
	asked := slices.DeleteFunc(ofManager(requests), isClusterReport)
	if contested {
		// A host that a competitor took first costs the refused write, and another to record the next host.
		allowed += 2 * count(asked, isConflict)
	}
	if writes := count(asked, isWrite); writes > allowed {
		problems = append(problems, fmt.Sprintf("%d writes for the association of %d machines, at most %d are allowed",
			writes, machines, allowed))
	}
	return problems
}

// verifyRelease checks that nothing is left on any host, and that all requests since the manager rested first list no
// hosts.
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
			changed = append(changed, fmt.Sprintf("host %s is not as it was, -before, +now:\n%s", host.Name, left))
		}
	}
	if len(changed) > shownHosts {
		changed = append(changed[:shownHosts], fmt.Sprintf("%d hosts in all are not as they were", len(changed)))
	}
	s.result.problems = append(s.result.problems, changed...)
	if lists := count(ofManager(requests), isHostList); lists > 0 {
		s.result.problems = append(s.result.problems, fmt.Sprintf("the manager listed hosts %d times after its start", lists))
	}
	return nil
}

// memoryProblems says whether the manager took too much memory, in bytes, for so many machines.
func memoryProblems(memory int64, machines int) []string {
	goal := memoryGoal(machines)
	if memory <= goal {
		return nil
	}
	return []string{fmt.Sprintf("the manager took %s of memory at its peak, more than %s",
		mebibytes(memory), mebibytes(goal))}
}

// leftOn compares a host with what it was before it was claimed, as far as a machine may write it. Empty means equal.
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
