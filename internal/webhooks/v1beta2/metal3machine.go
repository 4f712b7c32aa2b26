package v1beta2

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/rule"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-metal3machine,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=metal3machines,versions=v1beta2,name=validation.metal3machine.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// Metal3MachineValidator judges Metal3Machines. Only the provider ID is fixed once the machine is provisioned, because
// a Node carries it then; all else may be changed, also by those who update machines in place.
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

// machineChange judges by what is stored. Before the machine is provisioned, its provider ID can only have come from a
// user, who may have to correct it. After a move the status is empty until the first reconcile; clusterctl creates the
// machine with its provider ID and never changes that, so nothing more is to be guarded.
func machineChange(before, after *infrav1.Metal3Machine) rule.Findings {
	if !ptr.Deref(before.Status.Initialization.Provisioned, false) {
		return rule.Findings{}
	}
	return rule.Refusals(rule.Unchanged(field.NewPath("spec", "providerID"),
		before.Spec.ProviderID, after.Spec.ProviderID, "restore it: the Node of the machine carries it"))
}
