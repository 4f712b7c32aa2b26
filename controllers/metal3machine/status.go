package metal3machine

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

type condition = flow.Condition[*scope]

var (
	associated = condition{
		Type: infrav1.HostAssociatedCondition, Initial: infrav1.WaitingForMachineReason,
		Failed: infrav1.AssociationFailedReason, Done: association,
	}
	dataReady = condition{
		Type: infrav1.DataReadyCondition, Initial: infrav1.WaitingForHostReason, Failed: infrav1.DataFailedReason,
		Done: func(s *scope) flow.Reached {
			if s.machine.Spec.DataTemplate == nil {
				return flow.Reached{Reason: infrav1.DataExternalReason}
			}
			return flow.Reached{Reason: infrav1.DataReadyReason}
		},
	}
	provisioned = condition{
		Type: infrav1.HostProvisionedCondition, Initial: infrav1.WaitingForHostReason,
		Failed: infrav1.ProvisioningFailedReason, Done: running,
	}
	linked = condition{
		Type: infrav1.NodeLinkedCondition, Initial: infrav1.WaitingForHostProvisionedReason, Failed: infrav1.LinkFailedReason,
		Done: func(*scope) flow.Reached {
			return flow.Reached{Reason: infrav1.NodeLinkedReason, Message: "The Node has the provider ID"}
		},
	}
	deleting = condition{
		Type: infrav1.DeletingCondition, Initial: infrav1.DeletingReason, Failed: infrav1.ReleaseFailedReason,
		Done: func(s *scope) flow.Reached {
			if s.host == nil {
				return flow.Reached{Reason: infrav1.HostReleasedReason}
			}
			return flow.Reached{Reason: infrav1.HostReleasedReason, Message: "Released BareMetalHost " + s.host.Name}
		},
	}
)

func (s *scope) conditions() []condition {
	all := []condition{associated, dataReady, provisioned, linked, deleting}
	if s.labelPrefixes() != "" {
		all = append(all, labelsSynced)
	}
	return all
}

// association returns the reason and message for a machine with a host. No object records later that the host was
// reused, so association keeps this reason.
func association(s *scope) flow.Reached {
	done := flow.Reached{Reason: infrav1.HostAssociatedReason, Message: "Associated BareMetalHost " + s.host.Name}
	if s.claimed.Reused ||
		conditions.GetReason(s.machine, infrav1.HostAssociatedCondition) == infrav1.HostAssociatedViaNodeReuseReason {
		done.Reason = infrav1.HostAssociatedViaNodeReuseReason
	}
	if s.owner != nil && s.failureDomain() != "" {
		if domain := s.host.Labels[infrav1.FailureDomainLabel]; domain == s.failureDomain() {
			done.Message += " in failure domain " + domain
		} else {
			done.Message += ", which is not in failure domain " + s.failureDomain()
		}
	}
	if s.surplusRefused != nil {
		done.Message += fmt.Sprintf("; %v", s.surplusRefused)
	}
	return done
}

// announce returns the Announcement for Metal3Machines. The initial waits of a machine emit no events.
func announce() flow.Announcement {
	quiet := []string{
		infrav1.ReadyCondition, infrav1.DataReadyCondition, infrav1.NodeLabelsSyncedCondition,
		infrav1.WaitingForMachineReason, infrav1.WaitingForInfrastructureReason, infrav1.WaitingForMetal3ClusterReason,
		infrav1.WaitingForBootstrapDataReason, infrav1.WaitingForHostReason, infrav1.WaitingForHostProvisionedReason,
		infrav1.WaitingForIronicSecretReason, clusterv1.NotPausedReason,
	}
	trouble := []string{
		infrav1.BootstrapDataInvalidReason, infrav1.DataSecretMissingReason, infrav1.NoHostAvailableReason,
		infrav1.InvalidHostSelectorReason, infrav1.InvalidSpecReason, infrav1.HostLostReason, infrav1.DataFailedReason,
		infrav1.HostErrorReason, infrav1.ProviderIDConflictReason, infrav1.IronicEndpointInvalidReason,
		infrav1.AssociationFailedReason, infrav1.ProvisioningFailedReason, infrav1.LinkFailedReason,
		infrav1.ReleaseFailedReason, infrav1.HostHeldReason, infrav1.InvalidLabelPrefixReason, infrav1.LabelSyncFailedReason,
	}
	milestones := flow.Milestones(quiet, trouble)
	return func(before *metav1.Condition, after metav1.Condition) string {
		if after.Type == infrav1.DataAssociatedCondition {
			// It repeats DataReadyCondition.
			return ""
		}
		return milestones(before, after)
	}
}

// setStatus sets the fields of the status that publish does not set.
func setStatus(s *scope, _ flow.Results) {
	if s.isStopped() {
		return
	}
	if repeated := conditions.Get(s.machine, infrav1.DataReadyCondition); repeated != nil {
		also := *repeated
		also.Type = infrav1.DataAssociatedCondition
		conditions.Set(s.machine, also)
	}
	if s.labelPrefixes() == "" || s.hostIsLost() {
		// A lost host has no labels.
		conditions.Delete(s.machine, infrav1.NodeLabelsSyncedCondition)
	}
	s.machine.Status.Deprecated = flow.WithoutOldConditions(s.machine.Status.Deprecated)
	setHostStatus(s)
}

// setHostStatus copies the status of the host. A machine without a host keeps the last values: clusterctl move may
// create the host later than the machine.
func setHostStatus(s *scope) {
	if s.host == nil {
		return
	}
	status := &s.machine.Status
	if addresses := host.Addresses(s.host); addresses != nil {
		status.Addresses = addresses
	}
	status.FailureDomain = s.host.Labels[infrav1.FailureDomainLabel]
	reportSecrets(s)
	if s.data != nil {
		status.RenderedData = &infrav1.Metal3ObjectRef{Name: s.data.Name, Namespace: s.data.Namespace}
	}
}

// secretNames returns the names of the Secrets that the machine may have set on its host: those in the specs of the
// machine and its Machine, and those of its rendered data. It does not use the status, which a move does not keep.
func (s *scope) secretNames() []string {
	names := []string{s.machine.Name + "-metadata", s.machine.Name + "-networkdata", userDataName(s)}
	add := func(references ...*corev1.SecretReference) {
		for _, reference := range references {
			if reference != nil {
				names = append(names, reference.Name)
			}
		}
	}
	add(s.machine.Spec.UserData, s.machine.Spec.MetaData, s.machine.Spec.NetworkData)
	if s.data != nil {
		add(s.data.Spec.MetaData, s.data.Spec.NetworkData)
	}
	if name := ptr.Deref(s.bootstrap.name, ""); name != "" {
		names = append(names, name)
	}
	return names
}

// reportSecrets sets the Secrets of the machine in its status. It omits Secrets of the administrator of the host,
// because CAPM3 removes the reported Secrets at the release. CAPM3 requires the user data before it writes the image.
func reportSecrets(s *scope) {
	status, spec, names := &s.machine.Status, s.host.Spec, s.secretNames()
	var wanted host.Provision
	if s.owner != nil && !host.IsImaged(s.host) {
		wanted.UserData = userData(s)
		wanted.MetaData, wanted.NetworkData, _ = dataSecrets(s)
	}
	report(&status.UserData, spec.UserData, wanted.UserData, names)
	report(&status.MetaData, spec.MetaData, wanted.MetaData, names)
	report(&status.NetworkData, spec.NetworkData, wanted.NetworkData, names)
}

// report sets the Secret on the host if the machine set it, or else the Secret that the machine will set. If there is
// neither, it keeps the reported Secret, which may come from CAPM3.
func report(reported **corev1.SecretReference, onHost, wanted *corev1.SecretReference, names []string) {
	switch {
	case onHost != nil && slices.Contains(names, onHost.Name):
		*reported = onHost.DeepCopy()
	case onHost == nil && wanted != nil:
		*reported = wanted.DeepCopy()
	}
}
