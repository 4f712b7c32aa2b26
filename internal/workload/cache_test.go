package workload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

func TestCachedObjectsAreSlim(t *testing.T) {
	armed := map[string]string{ironic.ArmedAnnotation: "true", ironic.ArmedByAnnotation: "provider"}
	nodes := controlPlaneNode("cp-0", armed)
	pod := ironicPod("ironic", "cp-0", "c1", corev1.ConditionTrue)
	bare := node("worker", "metal3://a/b/c", "uid-1", "host-1")
	nodes.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, want := range []client.Object{nodes, pod, bare} {
		full, isObject := want.DeepCopyObject().(client.Object)
		if !isObject {
			t.Fatalf("%T is no object", want)
		}
		full.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "x"}})
		metaOf := full.GetAnnotations()
		if metaOf == nil {
			metaOf = map[string]string{}
		}
		metaOf["kubectl.kubernetes.io/last-applied-configuration"] = "{}"
		full.SetAnnotations(metaOf)
		switch object := full.(type) {
		case *corev1.Node:
			object.Status.Images = []corev1.ContainerImage{{Names: []string{"x"}}}
			object.Status.Conditions = append(object.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeDiskPressure})
			object.Status.Conditions[0].LastHeartbeatTime = metav1.Now()
			object.Status.Conditions[0].Message = "kubelet is posting ready status"
		case *corev1.Pod:
			object.Spec.Containers = []corev1.Container{{Name: "ironic"}}
			object.Status.PodIP = "192.0.2.1"
		}
		if diff := cmp.Diff(want, slimmed(t, full)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// slimmed returns what the cache of a workload cluster keeps of an object.
func slimmed(t *testing.T, object client.Object) any {
	t.Helper()
	for kind, options := range workload.Cached() {
		_, isNode := kind.(*corev1.Node)
		if _, is := object.(*corev1.Node); is == isNode && options.Transform != nil {
			kept, err := options.Transform(object)
			if err != nil {
				t.Fatal(err)
			}
			return kept
		}
	}
	t.Fatalf("no transform for %T", object)
	return nil
}
