package metal3machine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
)

// claimAttempts is the number of claims of one reconcile after write conflicts.
const claimAttempts = 5

// recount is the interval at which a machine without a host updates its message. A change of a host requeues only one
// machine that can claim it.
const recount = time.Minute

// recordHost records the host of the machine. Without a provider ID, it also records that the provider chose the host,
// unless the user named it before the claim of this provider. The claim of CAPM3 leaves no record on the host.
func (r *Reconciler) recordHost(_ context.Context, s *scope) (outcome.Outcome, error) {
	_, claimedHere := s.host.Annotations[infrav1.ReleaseAnnotation]
	isNamed := claimedHere && host.NamedByUser(s.machine) == s.host.Name
	if !isNamed && s.machine.Spec.ProviderID == "" {
		metav1.SetMetaDataAnnotation(&s.machine.ObjectMeta, infrav1.ChosenHostAnnotation, s.host.Name)
	}
	setHostAnnotation(s.machine, s.host.Name)
	return outcome.Done(), nil
}

// reclaimHost restores the claim on a host that lost its consumerRef while the machine runs on it.
func (r *Reconciler) reclaimHost(ctx context.Context, s *scope) (outcome.Outcome, error) {
	stored, err := r.Hosts.Write(ctx, s.recorded, s.reclaimed())
	if err != nil {
		return outcome.Done(), fmt.Errorf("claiming BareMetalHost %s again: %w", s.recorded.Name, err)
	}
	s.host = stored
	return outcome.Done(), nil
}

// waitForHostDeletion waits until a host without an image that is being deleted does not exist. The machine then claims
// a host again. The message says why BMO does not end the deletion.
func (r *Reconciler) waitForHostDeletion(_ context.Context, s *scope) (outcome.Outcome, error) {
	if s.host == nil || s.host.DeletionTimestamp.IsZero() || s.machine.Spec.ProviderID != "" {
		return outcome.Done(), nil
	}
	problem := host.DeletionProblem(s.host)
	if problem != "" {
		problem += ". "
	}
	return outcome.Waiting(infrav1.HostErrorReason, fmt.Sprintf(
		"BareMetalHost %s is being deleted. Metal3Machine %s claims a host again after the deletion. "+
			"%sIf the deletion does not end, delete Machine %s to replace it.",
		s.host.Name, s.machine.Name, problem, s.owner.Name)), nil
}

// claimHost claims a host for a machine that has none. If the machine has one and waits for its data, claimHost repairs
// the claim: CAPM3 may have left metadata such as block-move.
func (r *Reconciler) claimHost(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if s.host != nil {
		stored, err := r.writeHost(ctx, s, s.claimWithoutData())
		if err != nil {
			return outcome.Done(), err
		}
		s.host = stored
		return r.recordHost(ctx, s)
	}
	wanted, blocked := wantedHost(s)
	if !blocked.IsDone() {
		return blocked, nil
	}
	if err := r.dropData(ctx, s); err != nil {
		return outcome.Done(), err
	}
	for range claimAttempts {
		choice, err := r.Hosts.Choose(ctx, wanted)
		if err != nil {
			return outcome.Done(), err
		}
		if choice.Host == nil {
			return waitForHost(s, choice), nil
		}
		err = r.writeClaim(ctx, s, choice)
		switch {
		case hoststore.IsRefusal(err):
			// Choose returns no host after a refused claim, and the message for the condition.
			if conditions.GetReason(s.machine, infrav1.HostAssociatedCondition) != infrav1.AssociationFailedReason {
				ctrl.LoggerFrom(ctx).Error(err, "The API server refused a claim")
			}
		case !errors.Is(err, hoststore.ErrConflict):
			return outcome.Done(), err
		}
	}
	return outcome.Done(), fmt.Errorf("claiming a BareMetalHost in %d attempts: %w", claimAttempts, hoststore.ErrConflict)
}

// waitForHost returns the outcome of a machine that can claim no host. It removes the record of an earlier choice, so
// that the chosen host does not count as the host of the machine.
func waitForHost(s *scope, choice host.Choice) outcome.Outcome {
	s.waits = true
	if host.NamedByUser(s.machine) == "" {
		delete(s.machine.Annotations, infrav1.HostAnnotation)
		delete(s.machine.Annotations, infrav1.ChosenHostAnnotation)
	}
	if choice.Refused {
		return outcome.Waiting(infrav1.AssociationFailedReason, choice.Message).
			WithAfter(flow.Soonest(choice.RetryAfter, recount))
	}
	return outcome.Waiting(infrav1.NoHostAvailableReason, choice.Message).WithAfter(recount)
}

// writeClaim writes the claim. The machine records the host first, so that a release finds it after a crash in between.
// If this record fails, writeClaim sends no claim, and Settle offers the host to the next machine: a policy may reject
// the machine for long.
func (r *Reconciler) writeClaim(ctx context.Context, s *scope, choice host.Choice) error {
	if host.NamedByUser(s.machine) == "" {
		metav1.SetMetaDataAnnotation(&s.machine.ObjectMeta, infrav1.ChosenHostAnnotation, choice.Host.Name)
	}
	setHostAnnotation(s.machine, choice.Host.Name)
	if err := s.pass.Save(ctx); err != nil {
		r.Hosts.Forget(s.key())
		return err
	}
	stored, err := r.Hosts.Write(ctx, choice.Host, host.Desired(choice.Host, desiredClaim(s)))
	if err != nil {
		return fmt.Errorf("claiming BareMetalHost %s: %w", choice.Host.Name, err)
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
		Named:         host.NamedByUser(s.machine),
	}, outcome.Done()
}

// hostIsLost returns true for a provisioned machine without a host. The machine claims no other host, because its Node,
// its provider ID and its data belong to the lost host.
func (s *scope) hostIsLost() bool {
	return s.host == nil && s.machine.Spec.ProviderID != "" && host.Recorded(s.machine) != ""
}

func (r *Reconciler) reportLostHost(_ context.Context, s *scope) (outcome.Outcome, error) {
	name := host.Recorded(s.machine)
	what := fmt.Sprintf("BareMetalHost %s no longer exists. Restore it", name)
	switch {
	case s.recorded != nil && s.recorded.Spec.ConsumerRef != nil:
		what = fmt.Sprintf("BareMetalHost %s has another consumer, %s %s. Correct spec.consumerRef",
			name, s.recorded.Spec.ConsumerRef.Kind, s.recorded.Spec.ConsumerRef.Name)
	case s.recorded != nil:
		what = fmt.Sprintf(
			"BareMetalHost %s has no consumer, and another image or user data than the machine. Restore them", name)
	}
	return outcome.Waiting(infrav1.HostLostReason, fmt.Sprintf(
		"%s, or delete Machine %s to replace it.", what, s.owner.Name)), nil
}

// reclaimed returns the recorded host with the claim of the machine. It returns nil unless the host has no consumer and
// still has the image and the user data of the machine.
func (s *scope) reclaimed() *bmov1alpha1.BareMetalHost {
	if s.recorded == nil || s.owner == nil || s.cluster == nil {
		return nil
	}
	claim := s.claimWithoutData()
	claim.Provision = &host.Provision{Image: s.machine.Spec.Image, CustomDeploy: s.machine.Spec.CustomDeploy}
	injected := &corev1.SecretReference{Namespace: s.machine.Namespace, Name: userDataName(s)}
	if reclaimed := host.Reclaimed(s.recorded, claim, injected); reclaimed != nil || s.bootstrap.name == nil {
		return reclaimed
	}
	return host.Reclaimed(s.recorded, claim, s.plainUserData())
}

func (s *scope) claimWithoutData() host.Claim {
	return host.Claim{
		Machine:      s.machine.Name,
		Namespace:    s.machine.Namespace,
		Cluster:      s.cluster.Name,
		CleaningMode: s.machine.Spec.AutomatedCleaningMode,
	}
}

// desiredClaim returns the claim with the data of the machine, if the data is ready.
func desiredClaim(s *scope) host.Claim {
	claim := s.claimWithoutData()
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
	if s.runsIronic() {
		return &corev1.SecretReference{Namespace: s.machine.Namespace, Name: userDataName(s)}
	}
	return s.plainUserData()
}

// plainUserData returns the Secret with user data without the Ironic endpoint. Nil means none.
func (s *scope) plainUserData() *corev1.SecretReference {
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

func controlPlaneOwner(machine *clusterv1.Machine) *metav1.OwnerReference {
	for i, owner := range machine.OwnerReferences {
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		if group == controlPlaneGroup {
			return &machine.OwnerReferences[i]
		}
	}
	return nil
}
