package host

import (
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Reclaimed returns the recorded host of a machine with the claim restored. Another client, such as a GitOps tool, may
// have removed the consumerRef. Reclaimed returns nil unless the host has no consumer and still has the image or deploy
// step and the user data of the claim.
func Reclaimed(host *bmov1alpha1.BareMetalHost, claim Claim, userData *corev1.SecretReference,
) *bmov1alpha1.BareMetalHost {
	if host.Spec.ConsumerRef != nil || !host.DeletionTimestamp.IsZero() || !runs(host, claim.Provision) ||
		!sameSecret(host.Spec.UserData, userData, host.Namespace) {
		return nil
	}
	consumed := host.DeepCopy()
	consumed.Spec.ConsumerRef = consumerRef(claim)
	// Desired keeps the record of a consumed host.
	return Desired(consumed, claim)
}

func runs(host *bmov1alpha1.BareMetalHost, wanted *Provision) bool {
	image, deploy := host.Spec.Image, host.Spec.CustomDeploy
	switch {
	case wanted == nil || image == nil && deploy == nil:
		return false
	case (image == nil) != (wanted.image() == nil) || (deploy == nil) != (wanted.CustomDeploy == nil):
		return false
	case image != nil && (image.URL != wanted.Image.URL || image.Checksum != wanted.Image.Checksum):
		return false
	default:
		return deploy == nil || deploy.Method == wanted.CustomDeploy.Method
	}
}

// sameSecret compares two references. An empty namespace means that of the host.
func sameSecret(a, b *corev1.SecretReference, namespace string) bool {
	if a == nil || b == nil {
		return a == b
	}
	named := func(reference *corev1.SecretReference) corev1.SecretReference {
		if reference.Namespace == "" {
			return corev1.SecretReference{Name: reference.Name, Namespace: namespace}
		}
		return *reference
	}
	return named(a) == named(b)
}

func consumerRef(claim Claim) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: infrav1.GroupVersion.String(), Kind: MachineKind, Namespace: claim.Namespace, Name: claim.Machine,
	}
}
