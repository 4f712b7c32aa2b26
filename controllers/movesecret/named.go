package movesecret

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// leaves says whether an object is on its way out, for a move or altogether. What it names is then none of our
// business.
func leaves(object client.Object) bool {
	_, moves := object.GetAnnotations()[infrav1.DeleteForMoveAnnotation]
	return moves || !object.GetDeletionTimestamp().IsZero()
}
