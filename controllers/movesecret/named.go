package movesecret

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// isDeleting returns true for an object that is being deleted, also by clusterctl move.
func isDeleting(object client.Object) bool {
	_, moves := object.GetAnnotations()[infrav1.DeleteForMoveAnnotation]
	return moves || !object.GetDeletionTimestamp().IsZero()
}
