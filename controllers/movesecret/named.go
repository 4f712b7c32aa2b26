package movesecret

import (
	"maps"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// named returns the names of the Secrets that the spec of an object refers to in the namespace of the object, sorted. A
// reference into another namespace is left out: it is not allowed, and clusterctl does not look there.
func named(object client.Object) []string {
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

// leaves says whether an object is on its way out, for a move or altogether. What it names is then none of our
// business.
func leaves(object client.Object) bool {
	_, moves := object.GetAnnotations()[infrav1.DeleteForMoveAnnotation]
	return moves || !object.GetDeletionTimestamp().IsZero()
}

// moves says whether clusterctl takes a Secret along: by its own label, or because of an owner.
func moves(secret client.Object) bool {
	_, labelled := secret.GetLabels()[infrav1.MoveLabel]
	return labelled || len(secret.GetOwnerReferences()) > 0
}
