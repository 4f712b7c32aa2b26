package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of the kinds in this package.
	GroupVersion = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the kinds of this package to a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Metal3Cluster{}, &Metal3ClusterList{},
		&Metal3ClusterTemplate{}, &Metal3ClusterTemplateList{},
		&Metal3Data{}, &Metal3DataList{},
		&Metal3DataClaim{}, &Metal3DataClaimList{},
		&Metal3DataTemplate{}, &Metal3DataTemplateList{},
		&Metal3Machine{}, &Metal3MachineList{},
		&Metal3MachineTemplate{}, &Metal3MachineTemplateList{},
		&Metal3Remediation{}, &Metal3RemediationList{},
		&Metal3RemediationTemplate{}, &Metal3RemediationTemplateList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
