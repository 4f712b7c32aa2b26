package pivot

import (
	"fmt"
	"maps"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// NamedSecrets returns the names of the Secrets that the spec of a host, a Metal3Machine or a template of them refers
// to in the namespace of the object, sorted. A reference into another namespace is left out: it is not allowed, and
// clusterctl does not look there.
func NamedSecrets(object metav1.Object) []string {
	var references []*corev1.SecretReference
	var names []string
	switch object := object.(type) {
	case *bmov1alpha1.BareMetalHost:
		references = append(references, object.Spec.UserData, object.Spec.MetaData, object.Spec.NetworkData)
		names = append(names, object.Spec.PreprovisioningNetworkDataName, object.Spec.BMC.CredentialsName)
	case *infrav1.Metal3Machine:
		references = ofMachine(&object.Spec)
	case *infrav1.Metal3MachineTemplate:
		references = ofMachine(&object.Spec.Template.Spec)
	}
	for _, reference := range references {
		if reference != nil && (reference.Namespace == "" || reference.Namespace == object.GetNamespace()) {
			names = append(names, reference.Name)
		}
	}
	unique := map[string]bool{}
	for _, name := range names {
		if name != "" {
			unique[name] = true
		}
	}
	return slices.Sorted(maps.Keys(unique))
}

func ofMachine(spec *infrav1.Metal3MachineSpec) []*corev1.SecretReference {
	return []*corev1.SecretReference{spec.UserData, spec.MetaData, spec.NetworkData}
}

// Moves says whether clusterctl takes a Secret along: by its own label, or because of an owner.
func Moves(secret metav1.Object) bool {
	_, labelled := secret.GetLabels()[infrav1.MoveLabel]
	return labelled || len(secret.GetOwnerReferences()) > 0
}

// StrayObstacle says that a Secret that a host names would stay behind. Empty if it moves.
func StrayObstacle(host string, secret metav1.Object) string {
	if Moves(secret) {
		return ""
	}
	return fmt.Sprintf("Secret %s of host %s has no owner and would stay behind: set label %s on it, "+
		"or run the manager with --keep-move-labels", secret.GetName(), host, infrav1.MoveLabel)
}
