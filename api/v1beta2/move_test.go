package v1beta2_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

func TestIsLeaving(t *testing.T) {
	for annotation, want := range map[string]bool{
		"clusterctl.cluster.x-k8s.io/delete-for-move": true, "cluster.x-k8s.io/paused": false,
	} {
		object := &metav1.ObjectMeta{Annotations: map[string]string{annotation: ""}}
		if got := infrav1.IsLeaving(object); got != want {
			t.Errorf("%s: got %t", annotation, got)
		}
	}
	if infrav1.IsLeaving(&metav1.ObjectMeta{}) {
		t.Error("got true for an object without annotations")
	}
}
