package metal3machine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
)

// claimAttempts is how many hosts are tried in one reconcile when other writers are faster.
const claimAttempts = 5

// secretDelay is how long to wait before looking again for bootstrap data. A Secret that carries the label of its
// cluster announces itself; others do not.
const secretDelay = 30 * time.Second

// waitForOwners waits for what must exist before a host may be claimed.
func (r *Reconciler) waitForOwners(_ context.Context, s *scope) (outcome.Outcome, error) {
	wait := func(reason, message string) (outcome.Outcome, error) {
		return s.record(infrav1.HostAssociatedCondition, outcome.Waiting(reason, message)), nil
	}
	switch {
	case s.host != nil && isImaged(s.host):
		return outcome.Done(), nil
	case s.owner == nil:
		return wait(infrav1.WaitingForMachineReason, "Waiting for Cluster API to set the owner reference of a Machine")
	case s.cluster == nil:
		return wait(infrav1.WaitingForMachineReason, fmt.Sprintf("Waiting for Cluster %s, which Machine %s names",
			s.owner.Spec.ClusterName, s.owner.Name))
	case !s.cluster.Spec.InfrastructureRef.IsDefined():
		return wait(infrav1.WaitingForMetal3ClusterReason, fmt.Sprintf("Waiting for Cluster %s to name its Metal3Cluster",
			s.cluster.Name))
	case s.infra == nil:
		return wait(infrav1.WaitingForMetal3ClusterReason, fmt.Sprintf("Waiting for Metal3Cluster %s, which Cluster %s names",
			s.cluster.Spec.InfrastructureRef.Name, s.cluster.Name))
	case !ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false):
		return wait(infrav1.WaitingForInfrastructureReason, fmt.Sprintf(
			"Waiting for the infrastructure of Cluster %s to be provisioned", s.cluster.Name))
	case s.bootstrap.name == nil:
		return wait(infrav1.WaitingForBootstrapDataReason, fmt.Sprintf(
			"Waiting for the bootstrap provider to give Machine %s its bootstrap data", s.owner.Name))
	}
	if problem := bootstrapProblem(s); !problem.IsDone() {
		return s.record(infrav1.HostAssociatedCondition, problem), nil
	}
	return outcome.Done(), nil
}

// bootstrapProblem says what is wrong with the bootstrap data that the Machine names.
func bootstrapProblem(s *scope) outcome.Outcome {
	name := *s.bootstrap.name
	switch {
	case name != "" && !s.bootstrap.found:
		return outcome.Waiting(infrav1.WaitingForBootstrapDataReason, fmt.Sprintf(
			"Waiting for Secret %s with the bootstrap data of Machine %s", name, s.owner.Name)).WithAfter(secretDelay)
	case name != "" && !s.bootstrap.hasValue:
		return outcome.Blocked(infrav1.BootstrapDataInvalidReason, fmt.Sprintf(
			"Secret %s with the bootstrap data has no key \"value\": correct or delete it", name)).WithAfter(secretDelay)
	default:
		return outcome.Done()
	}
}

// checkSpec stops at a spec that cannot be served. The webhooks refuse most of it; this is for objects that came around
// them.
func (r *Reconciler) checkSpec(_ context.Context, s *scope) (outcome.Outcome, error) {
	if s.host != nil && isImaged(s.host) {
		return outcome.Done(), nil
	}
	if problem := r.SpecProblem(s.machine); problem != "" {
		return s.record(infrav1.HostAssociatedCondition, outcome.Blocked(infrav1.InvalidSpecReason, problem)), nil
	}
	return outcome.Done(), nil
}

// claimHost makes sure that the machine holds a host.
func (r *Reconciler) claimHost(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if s.host != nil {
		setHostAnnotation(s.machine, s.host.Name)
		return s.record(infrav1.HostAssociatedCondition, outcome.Done()), nil
	}
	if s.isLost() {
		return s.record(infrav1.HostAssociatedCondition, lostHost(s)), nil
	}
	wanted, blocked := wantedHost(s)
	if !blocked.IsDone() {
		return s.record(infrav1.HostAssociatedCondition, blocked), nil
	}
	for range claimAttempts {
		choice, err := r.Hosts.Choose(ctx, wanted)
		if err != nil {
			return outcome.Done(), err
		}
		if choice.Host == nil {
			s.waits = true
			delete(s.machine.Annotations, infrav1.HostAnnotation)
			return s.record(infrav1.HostAssociatedCondition,
				outcome.Waiting(infrav1.NoHostAvailableReason, choice.Message)), nil
		}
		err = r.takeHost(ctx, s, choice)
		if errors.Is(err, hoststore.ErrConflict) {
			continue
		}
		if err != nil {
			return outcome.Done(), err
		}
		return s.record(infrav1.HostAssociatedCondition, outcome.Done()), nil
	}
	return outcome.Done(), fmt.Errorf("claiming a host for %s, %d times in a row: %w",
		s.machine.Name, claimAttempts, hoststore.ErrConflict)
}

// takeHost writes the claim. The machine records the host first: a release must find it whatever happens in between.
func (r *Reconciler) takeHost(ctx context.Context, s *scope, choice host.Choice) error {
	setHostAnnotation(s.machine, choice.Host.Name)
	if err := s.pass.Save(ctx); err != nil {
		return err
	}
	stored, err := r.Hosts.Write(ctx, choice.Host, host.Desired(choice.Host, desiredClaim(s)))
	if err != nil {
		return err
	}
	s.host, s.claimed = stored, choice
	hoststore.Claimed(r.Clock.Since(s.machine.CreationTimestamp.Time))
	return nil
}

func wantedHost(s *scope) (host.Wanted, outcome.Outcome) {
	selector, err := host.Selector(s.machine.Spec.HostSelector)
	if err != nil {
		return host.Wanted{}, outcome.Blocked(infrav1.InvalidHostSelectorReason, err.Error())
	}
	return host.Wanted{
		Machine:       s.machine.Name,
		Namespace:     s.machine.Namespace,
		Cluster:       s.cluster.Name,
		Selector:      selector,
		FailureDomain: s.failureDomain(),
		Strict:        s.machine.Spec.FailureDomainPolicy == infrav1.FailureDomainStrict,
		Owner:         s.reuseOwner(),
	}, outcome.Done()
}

// lostHost is the answer for a machine that was provisioned once and has no host now. It gets no other host: its node,
// its provider ID and its data belong to the lost one.
func lostHost(s *scope) outcome.Outcome {
	return outcome.Waiting(infrav1.HostLostReason, fmt.Sprintf(
		"Host %s is gone or held by another consumer: restore it, or delete Machine %s to have it replaced",
		recordedHost(s.machine), s.owner.Name))
}

// desiredClaim is what the machine wants on its host now.
func desiredClaim(s *scope) host.Claim {
	claim := host.Claim{
		Machine:      s.machine.Name,
		Namespace:    s.machine.Namespace,
		Cluster:      s.cluster.Name,
		CleaningMode: s.cleaningMode(),
	}
	metaData, networkData, ready := dataSecrets(s)
	if !ready {
		return claim
	}
	claim.Provision = &host.Provision{
		Image:        s.machine.Spec.Image,
		CustomDeploy: s.machine.Spec.CustomDeploy,
		UserData:     userData(s),
		MetaData:     metaData,
		NetworkData:  networkData,
	}
	return claim
}

func userData(s *scope) *corev1.SecretReference {
	if s.carriesIronic() {
		return &corev1.SecretReference{Namespace: s.machine.Namespace, Name: userDataName(s)}
	}
	if name := ptr.Deref(s.bootstrap.name, ""); name != "" {
		return &corev1.SecretReference{Namespace: s.machine.Namespace, Name: name}
	}
	return inNamespace(s.machine.Spec.UserData, s.machine.Namespace)
}

func inNamespace(reference *corev1.SecretReference, namespace string) *corev1.SecretReference {
	if reference == nil {
		return nil
	}
	return &corev1.SecretReference{Namespace: namespace, Name: reference.Name}
}

func setHostAnnotation(machine *infrav1.Metal3Machine, name string) {
	metav1.SetMetaDataAnnotation(&machine.ObjectMeta, infrav1.HostAnnotation, machine.Namespace+"/"+name)
}

func splitHostAnnotation(value string) (namespace, name string) {
	namespace, name, found := strings.Cut(value, "/")
	if !found {
		return "", ""
	}
	return namespace, name
}

func controlPlaneOwner(machine *clusterv1.Machine) *metav1.OwnerReference {
	for i, owner := range machine.OwnerReferences {
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		if group == controlPlaneGroup {
			return &machine.OwnerReferences[i]
		}
	}
	return nil
}
