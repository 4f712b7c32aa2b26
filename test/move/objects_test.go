package move_test

import (
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// leftovers returns empty lists of the kinds that a move deletes in the source.
func leftovers() []client.ObjectList {
	return []client.ObjectList{
		&infrav1.Metal3MachineList{}, &clusterv1.MachineList{}, &bmov1alpha1.BareMetalHostList{},
		&bmov1alpha1.HardwareDataList{}, &corev1.SecretList{}, &infrav1.Metal3ClusterList{}, &clusterv1.ClusterList{},
	}
}

func objectsOf(list client.ObjectList) []client.Object {
	GinkgoHelper()
	items, err := meta.ExtractList(list)
	Expect(err).NotTo(HaveOccurred())
	var objects []client.Object
	for _, item := range items {
		object, isObject := item.(client.Object)
		Expect(isObject).To(BeTrue())
		objects = append(objects, object)
	}
	return objects
}
