package remediation

import (
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// Subject has the objects of a remediation. Nil means that there is none.
type Subject struct {
	Owner   *clusterv1.Machine
	Machine *infrav1.Metal3Machine
	Host    *bmov1alpha1.BareMetalHost

	// OwnerName is the name of the Machine in metadata.ownerReferences. Empty if they name none.
	OwnerName string

	// ClusterFound says that the Cluster of the Machine exists.
	ClusterFound bool

	// Unhealthy says that a MachineHealthCheck reports the Machine as unhealthy.
	Unhealthy bool

	// LostHost is the name of the recorded host of the Metal3Machine, if the API server has no such host, or a host for
	// which IsReplaced is true. Empty otherwise.
	LostHost string

	// Withheld is the reason why BMO does not act on the host. Empty if it does.
	Withheld string
}

// Check returns whether the host of a Machine can be rebooted. The first row that fits counts.
//
//	seen                                  then
//	no Machine, or no Cluster             blocked: a MachineHealthCheck names them
//	Machine is being deleted              wait: its host is released
//	no Metal3Machine, or no host          blocked: there is nothing to reboot
//	host is being deleted, Machine        wait: IsLost is true then
//	is unhealthy
//	host is being deleted                 blocked: BMO ends it
//	BMO does not act on the host          wait
//	BMO has reported no state of it       wait: its poweredOn is unknown
//	spec.online is false                  blocked: a user has powered the host off
//	anything else                         done
func Check(subject Subject) outcome.Outcome {
	switch owner := subject.Owner; {
	case owner == nil:
		return withoutOwner(subject.OwnerName)
	case !subject.ClusterFound:
		return outcome.Blocked(infrav1.MachineMissingReason, fmt.Sprintf(
			"Machine %s names Cluster %s in spec.clusterName, which does not exist. Restore the Cluster, or delete the Machine.",
			owner.Name, owner.Spec.ClusterName))
	case !owner.DeletionTimestamp.IsZero():
		return outcome.Waiting(infrav1.MachineDeletingReason, fmt.Sprintf(
			"Machine %s is being deleted, and its host is not rebooted any more", owner.Name))
	case subject.Machine == nil:
		return outcome.Blocked(infrav1.Metal3MachineMissingReason, fmt.Sprintf(
			"Machine %s names %s %s in spec.infrastructureRef, and no Metal3Machine has that name. Delete the Machine to "+
				"replace it.", owner.Name, owner.Spec.InfrastructureRef.Kind, owner.Spec.InfrastructureRef.Name))
	case subject.Host == nil && subject.LostHost != "":
		return outcome.Blocked(infrav1.HostMissingReason, fmt.Sprintf(
			"BareMetalHost %s was deleted, and no MachineHealthCheck reports Machine %s as unhealthy. Restore the host, "+
				"or delete the Machine to replace it.", subject.LostHost, owner.Name))
	case subject.Host == nil:
		return outcome.Blocked(infrav1.HostMissingReason, fmt.Sprintf(
			"Metal3Machine %s has no BareMetalHost. Wait until it has claimed one, or delete Machine %s to replace it.",
			subject.Machine.Name, owner.Name))
	default:
		return checkHost(subject)
	}
}

// withoutOwner returns blocked for a remediation of a Machine that does not exist. The name is empty if there is none.
func withoutOwner(name string) outcome.Outcome {
	named := "no Machine"
	if name != "" {
		named = fmt.Sprintf("Machine %s, which does not exist", name)
	}
	return outcome.Blocked(infrav1.MachineMissingReason, fmt.Sprintf("metadata.ownerReferences names %s. "+
		"Delete this Metal3Remediation: a MachineHealthCheck creates one for each unhealthy Machine.", named))
}

// IsLost returns true if the Machine must be replaced without a reboot, because its host does not exist.
//
//	seen                                            lost
//	Machine or Cluster missing or being deleted     no: there is nothing to replace
//	Metal3Machine missing                           no: its host is not known
//	a host with the Metal3Machine as consumer       no: it is rebooted
//	recorded host exists, unless IsReplaced         no: another machine has it, or its consumer was removed
//	no recorded host                                no: the Metal3Machine may still claim one
//	Machine is healthy, or has no health check      no: it runs on, and the host may be restored
//	anything else                                   yes
func IsLost(subject Subject) bool {
	return subject.Owner != nil && subject.Owner.DeletionTimestamp.IsZero() && subject.ClusterFound &&
		subject.Machine != nil && subject.Host == nil && subject.LostHost != "" && subject.Unhealthy
}

// IsReplaced returns true if a user deleted the recorded host of a machine, and created a host with the same name, for
// example with the BMC of new hardware. The first row that fits counts.
//
//	seen                                                          replaced
//	the host is not younger than the Metal3Machine                no: it may be the host of the machine
//	the Metal3Machine has no provider ID                          no: it may still claim the host
//	another Metal3Machine is the consumer                         yes
//	a consumer, an image, a deploy step or a record of a claim    no: it may be the host of the machine
//	anything else                                                 yes
func IsReplaced(host *bmov1alpha1.BareMetalHost, machine *infrav1.Metal3Machine) bool {
	if !machine.CreationTimestamp.Before(&host.CreationTimestamp) || machine.Spec.ProviderID == "" {
		return false
	}
	if consumer := host.Spec.ConsumerRef; consumer != nil {
		return consumer.Kind == "Metal3Machine" && consumer.Name != machine.Name
	}
	_, claimed := host.Annotations[infrav1.ReleaseAnnotation]
	return !claimed && host.Spec.Image == nil && host.Spec.CustomDeploy == nil
}

// IsForgotten returns true if a MachineHealthCheck created the remediation, and the Machine has no report of it, or
// only an older one that it is healthy. Cluster API writes the report in the pass that creates a remediation, and not
// again while the remediation exists. A write that failed, or clusterctl move, which drops the status of the Machine,
// loses it. Without the report, neither the next try nor the replacement follows.
func IsForgotten(request *infrav1.Metal3Remediation, owner *clusterv1.Machine) bool {
	_, isCreated := request.Annotations[clusterv1.TemplateClonedFromNameAnnotation]
	if !isCreated || owner == nil || !owner.DeletionTimestamp.IsZero() {
		return false
	}
	report := meta.FindStatusCondition(owner.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition)
	return report == nil ||
		report.Status == metav1.ConditionTrue && report.LastTransitionTime.Before(&request.CreationTimestamp)
}

func checkHost(subject Subject) outcome.Outcome {
	switch current := subject.Host; {
	case !current.DeletionTimestamp.IsZero() && subject.Unhealthy:
		return outcome.Waiting(infrav1.HostMissingReason, fmt.Sprintf(
			"BareMetalHost %s is being deleted. After that, the owner of Machine %s replaces the Machine.",
			current.Name, subject.Owner.Name))
	case !current.DeletionTimestamp.IsZero():
		return outcome.Blocked(infrav1.HostMissingReason, fmt.Sprintf(
			"BareMetalHost %s is being deleted. Delete Machine %s to replace it.", current.Name, subject.Owner.Name))
	case subject.Withheld != "":
		return outcome.Waiting(infrav1.HostWithheldReason, fmt.Sprintf(
			"BareMetalHost %s %s", current.Name, subject.Withheld))
	case current.Status.Provisioning.State == bmov1alpha1.StateNone:
		return outcome.Waiting(infrav1.HostNotReportedReason, fmt.Sprintf(
			"Waiting for the Baremetal Operator to report whether BareMetalHost %s is powered on", current.Name))
	case !current.Spec.Online:
		return outcome.Blocked(infrav1.HostOfflineReason, fmt.Sprintf(
			"spec.online of BareMetalHost %s is false. Set it to true to reboot the host, or delete Machine %s to replace it.",
			current.Name, subject.Owner.Name))
	default:
		return outcome.Done()
	}
}
