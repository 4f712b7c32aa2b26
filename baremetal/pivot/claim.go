package pivot

import (
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Claim is the record in the workload cluster of its management cluster: the newest epoch of a Metal3Cluster whose
// Cluster runs, and the management cluster of it.
type Claim struct {
	Epoch Epoch

	// Manager is the UID of the namespace kube-system of the management cluster.
	Manager string
}

// Standing is what a claim means for a management cluster.
type Standing string

// Values of Standing.
const (
	// Claims means that the manager must record its claim.
	Claims Standing = "Claims"

	// Current means that the claim of this manager is recorded.
	Current Standing = "Current"

	// Behind means that this management cluster recorded a newer epoch: the Metal3Cluster was created again without its
	// annotation.
	Behind Standing = "Behind"

	// Superseded means that another management cluster has claimed the cluster.
	Superseded Standing = "Superseded"
)

// StandingOf compares a claim with the recorded one, which is nil if there is none. If both sides have the same epoch,
// the first recorded claim counts.
//
//	recorded epoch  by       standing
//	none                     Claims
//	lower           any      Claims
//	same            us       Current
//	same            another  Superseded
//	higher          us       Behind
//	higher          another  Superseded
func StandingOf(own Claim, recorded *Claim) Standing {
	switch {
	case recorded == nil, recorded.Epoch < own.Epoch:
		return Claims
	case recorded.Manager != own.Manager:
		return Superseded
	case recorded.Epoch > own.Epoch:
		return Behind
	default:
		return Current
	}
}

// ClaimElsewhere returns the claim of another management cluster in the status of a Metal3Cluster. Nil if there is
// none. It counts until the workload cluster answers: a restarted manager has no other record.
func ClaimElsewhere(infra *infrav1.Metal3Cluster) *Claim {
	if infra.Status.Ironic == nil || infra.Status.Ironic.ManagedElsewhere == nil {
		return nil
	}
	recorded := infra.Status.Ironic.ManagedElsewhere
	return &Claim{Epoch: Epoch(recorded.Epoch), Manager: recorded.ManagementCluster}
}

// SupersededMessage returns the message of a management cluster that has stopped managing the cluster, with the remedy.
func SupersededMessage(infra *infrav1.Metal3Cluster, recorded Claim) string {
	return fmt.Sprintf("Another management cluster (UID %s of its namespace kube-system) manages the cluster with move "+
		"epoch %d. The epoch here is %d. The manager here has stopped, and keeps its BareMetalHosts paused. Pause the "+
		"Cluster here with %s, then remove its objects here, also while they are being deleted, with %s. If the other "+
		"management cluster no longer exists, take over with %s",
		recorded.Manager, recorded.Epoch, EpochOf(infra), pluginCommand("fence", infra.Namespace),
		pluginCommand("clean", infra.Namespace, "--to-kubeconfig newer.kubeconfig"),
		pluginCommand("takeover", infra.Namespace))
}

// IsSuperseded returns true if another management cluster manages the cluster of a Metal3Cluster. It returns false for
// nil.
func IsSuperseded(infra *infrav1.Metal3Cluster) bool {
	if infra == nil {
		return false
	}
	condition := meta.FindStatusCondition(infra.Status.Conditions, infrav1.IronicEndpointReadyCondition)
	return infra.Spec.Ironic != nil && condition != nil && condition.Reason == infrav1.ManagedElsewhereReason
}

// FencesOthers returns true if another management cluster manages the Cluster of a Metal3Cluster, and so its Ironic:
// BMO there uses it too. Clusters of other namespaces whose hosts this Ironic serves have no claim, and may be copies
// of the same age, such as a restored backup. A pause shows that the user has decided for the other management cluster.
func FencesOthers(infra *infrav1.Metal3Cluster) bool {
	return IsSuperseded(infra) && !meta.IsStatusConditionTrue(infra.Status.Conditions, clusterv1.PausedCondition)
}

// planFencing pauses a host at once, also during an operation of BMO, because another management cluster manages it
// too. It changes the reason of a host that is paused already.
func planFencing(host *bmov1alpha1.BareMetalHost) Step {
	if _, paused := host.Annotations[bmov1alpha1.PausedAnnotation]; paused && Explained(host, FenceOff) {
		return Leave
	}
	return FenceOff
}
