// Package v1beta1 holds the older version of the infrastructure kinds, and converts it to and from the stored version,
// v1beta2. It exists for manifests and clients of that version. Controllers of this project do not read it.
//
// Its schema accepts every object that CAPM3 accepted in v1beta1, and every converted v1beta2 object, because a client
// that reads an object in v1beta1 must be able to write it back.
//
// A conversion to the other version and back loses no field, in either direction. An annotation has the fields that the
// other version cannot express, and exists only if there are such fields. To find them, each conversion also converts
// back. Fields that only v1beta1 has are dropped if the annotations would exceed the limit of the API server.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta1
