package pivot

import (
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// AwaitsIronic returns the clusterID of the Ironic endpoint that a host waits for. The endpoint served the host in the
// source. It belongs to a Metal3Cluster of another namespace, which may move later. Until then, nothing in this cluster
// verifies the Ironic that answers. Empty if the host does not wait. The first row that matches counts.
//
//	host                                                   waits
//	is not paused                                          no: BMO acts on it already
//	has no clusterID                                       no: an endpoint of its own namespace served it, or none
//	was recorded from this object                          no: the move was aborted
//	has a clusterID, and an endpoint with it is            no
//	verified here, in any namespace
//	has a clusterID                                        yes
func AwaitsIronic(host *bmov1alpha1.BareMetalHost, around []Neighbour) string {
	_, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
	brought := host.Annotations[infrav1.IronicClusterIDAnnotation]
	proves := func(other Neighbour) bool { return other.Endpoint && other.Verified && other.ClusterID == brought }
	if !paused || host.Annotations[infrav1.StatusOriginAnnotation] == string(host.UID) ||
		slices.ContainsFunc(around, proves) {
		return ""
	}
	return brought
}

// ironicOf returns the clusterID that a host must have in the target: that of the Ironic endpoint in another namespace
// that serves the host, or of the endpoint that the host still waits for. Empty if there is none, or if the endpoint is
// unknown.
func ironicOf(host *bmov1alpha1.BareMetalHost, around []Neighbour) string {
	serving := servedBy(host, around)
	if len(serving) == 0 || !serving[0].Elsewhere {
		return AwaitsIronic(host, around)
	}
	return serving[0].ClusterID
}

// nameIronic sets or removes the annotation with the clusterID of the Ironic endpoint of another namespace.
func nameIronic(host *bmov1alpha1.BareMetalHost, around []Neighbour) {
	clusterID := ironicOf(host, around)
	if clusterID == "" {
		delete(host.Annotations, infrav1.IronicClusterIDAnnotation)
		return
	}
	metav1.SetMetaDataAnnotation(&host.ObjectMeta, infrav1.IronicClusterIDAnnotation, clusterID)
}

// stamp sets or removes the annotations with the epoch of the move and the clusterID of the Ironic that serves the
// host.
func stamp(host *bmov1alpha1.BareMetalHost, around []Neighbour) {
	epoch := StampFor(host, around)
	if epoch == 0 {
		delete(host.Annotations, infrav1.MoveEpochAnnotation)
		delete(host.Annotations, infrav1.IronicClusterIDAnnotation)
		return
	}
	metav1.SetMetaDataAnnotation(&host.ObjectMeta, infrav1.MoveEpochAnnotation, epoch.String())
	nameIronic(host, around)
}
