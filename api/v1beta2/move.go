package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// IsLeaving returns true while clusterctl move deletes an object that it has copied to another cluster. No controller
// may act on such an object or write it: the move has removed its other annotations, including a pause.
func IsLeaving(object metav1.Object) bool {
	_, leaving := object.GetAnnotations()[DeleteForMoveAnnotation]
	return leaving
}

// IsGoing returns true for an object that is being deleted, by clusterctl move or otherwise.
func IsGoing(object metav1.Object) bool {
	return IsLeaving(object) || !object.GetDeletionTimestamp().IsZero()
}
