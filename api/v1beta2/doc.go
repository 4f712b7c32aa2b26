// Package v1beta2 holds the infrastructure kinds of Metal3 for Cluster API: the stored version and the hub of all
// conversions. It implements the v1beta2 contract of Cluster API.
//
// Its validation is as loose as that of v1beta1: every object that v1beta1 accepts can be written as v1beta2, because a
// controller that reads an old object must be able to write it again.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta2
