package v1beta2

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/rule"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-metal3machine,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=metal3machines,versions=v1beta2,name=validation.metal3machine.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// Metal3MachineValidator validates Metal3Machines. Only the provider ID of a provisioned machine is immutable,
// because its Node has it. All other fields may change, for example in an in-place update.
func Metal3MachineValidator() admission.Validator[*infrav1.Metal3Machine] {
	return validator[*infrav1.Metal3Machine]{kind: "Metal3Machine", state: machineState, change: machineChange}
}

func machineState(machine *infrav1.Metal3Machine) rule.Findings {
	path := field.NewPath("spec")
	return rule.Join(
		rule.MachineSpec(path, &machine.Spec, machine.Namespace),
		rule.ProviderID(path.Child("providerID"), machine.Spec.ProviderID, machine.Namespace),
	)
}

// machineChange uses the stored status. A provider ID before the machine is provisioned is from a user, who may
// correct it. After a move the status is empty until the first reconcile, but clusterctl does not change the provider
// ID.
func machineChange(before, after *infrav1.Metal3Machine) rule.Findings {
	if !ptr.Deref(before.Status.Initialization.Provisioned, false) {
		return rule.Findings{}
	}
	return rule.Refusals(rule.Unchanged(field.NewPath("spec", "providerID"),
		before.Spec.ProviderID, after.Spec.ProviderID, "restore it: the Node of the machine carries it"))
}
