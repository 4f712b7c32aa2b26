// Package v1beta1 holds the older version of the infrastructure kinds and converts it to and from the stored version,
// v1beta2. It exists for manifests and clients that were written for that version; nothing in this project reads it.
//
// It refuses nothing that the older version ever accepted, and it accepts everything that v1beta2 can hold, because a
// client that reads an object in this version has to be able to write it back.
//
// Converting there and back loses nothing, in either direction. What one version cannot express waits in an annotation
// while the object is seen in that version, and it is written only when there is something to keep. The price is that
// every conversion is done twice, once to see what would be lost. Fields that only v1beta1 has are dropped where they
// would make the annotations too long for an API server.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta1
