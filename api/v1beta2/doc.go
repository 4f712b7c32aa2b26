// Package v1beta2 holds the infrastructure kinds of Metal3 for Cluster API: the stored version and the hub of all
// conversions. It implements the v1beta2 contract of Cluster API.
//
// It refuses less than it could on purpose: every object that the v1beta1 version accepts must still be writable as
// v1beta2, because a controller that reads an old object has to be able to write it back.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta2
