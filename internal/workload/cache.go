package workload

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
)

// Cached returns what the cache of a workload cluster holds: nodes, the pods of the Ironic endpoint, the claim of the
// management cluster, and the namespace that identifies the cluster. All of them without unused fields.
func Cached() map[client.Object]cache.ByObject {
	isEndpoint, err := labels.NewRequirement(ironic.ClusterLabel, selection.Exists, nil)
	utilruntime.Must(err)
	named := func(name string) fields.Selector { return fields.OneTermEqualSelector(metav1.ObjectNameField, name) }
	return map[client.Object]cache.ByObject{
		&corev1.Node{}: {Transform: slim},
		&corev1.Pod{}: {Transform: slim, Namespaces: map[string]cache.Config{
			ironic.Namespace: {LabelSelector: labels.NewSelector().Add(*isEndpoint)},
		}},
		&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{
			ironic.Namespace: {FieldSelector: named(claimName)},
		}},
		&corev1.Namespace{}: {Field: named(metav1.NamespaceSystem)},
	}
}

// slim removes the unused fields of a cached node or pod to save memory.
func slim(object any) (any, error) {
	switch cached := object.(type) {
	case *corev1.Node:
		cached.ManagedFields = nil
		cached.Annotations = only(cached.Annotations, ironic.ArmedAnnotation, ironic.ArmedByAnnotation,
			clusterv1.LabelsFromMachineAnnotation)
		cached.Status = corev1.NodeStatus{Conditions: onlyReady(cached.Status.Conditions)}
	case *corev1.Pod:
		cached.ManagedFields = nil
		cached.Annotations = only(cached.Annotations, ironic.HashAnnotation)
		cached.Spec = corev1.PodSpec{NodeName: cached.Spec.NodeName}
		cached.Status = corev1.PodStatus{Conditions: cached.Status.Conditions}
	}
	return object, nil
}

// onlyReady returns the status of the condition Ready. Its times and texts change with each heartbeat.
func onlyReady(conditions []corev1.NodeCondition) []corev1.NodeCondition {
	for _, condition := range conditions {
		if condition.Type == corev1.NodeReady {
			return []corev1.NodeCondition{{Type: condition.Type, Status: condition.Status}}
		}
	}
	return nil
}

// only removes all keys but some.
func only(annotations map[string]string, kept ...string) map[string]string {
	left := map[string]string{}
	for _, key := range kept {
		if value, exists := annotations[key]; exists {
			left[key] = value
		}
	}
	if len(left) == 0 {
		return nil
	}
	return left
}
