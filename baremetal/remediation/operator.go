package remediation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Operator is a program of the management cluster that powers hosts on.
type Operator struct {
	// Name is the name of the program in a message.
	Name string

	// Namespace is the one that releases of the program are installed in.
	Namespace string

	// Pods are the pods with the label of the program, in all namespaces. If some are in Namespace, only these count: the
	// users of other namespaces may give any pod that label.
	Pods []corev1.Pod
}

// ManagementNode is a node of the cluster that the manager runs in.
type ManagementNode struct {
	Node *corev1.Node

	// ControlPlane says that etcd and the API server run on the node.
	ControlPlane bool

	// Down is the result of IsDown for the machine of the node.
	Down bool
}

func (n ManagementNode) isReady() bool {
	return !n.Down && IsReady(n.Node)
}

// IsReady returns true if the condition Ready of the Node is True.
func IsReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// survives returns true if the operator runs, or Kubernetes can start it, while a node is off.
//
//	pods of the operator                        survives
//	none                                        yes: it does not run in pods of this cluster
//	one is ready on another ready node          yes
//	another ready node may run one of them      yes: Kubernetes starts it there
//	anything else                               no
//
// A node may run a pod if it is schedulable, if the pod tolerates its taints, and if it has the labels of the
// nodeSelector. Affinity and free capacity are not compared.
func (o Operator) survives(node string, nodes []ManagementNode) bool {
	installed := slices.ContainsFunc(o.Pods, o.isInstalled)
	pods := slices.DeleteFunc(slices.Clone(o.Pods), func(pod corev1.Pod) bool {
		return installed && !o.isInstalled(pod) ||
			pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	})
	return len(pods) == 0 || slices.ContainsFunc(nodes, func(other ManagementNode) bool {
		return other.Node.Name != node && other.isReady() && slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
			return runsOn(&pod, other.Node) || mayRunOn(&pod, other.Node)
		})
	})
}

func (o Operator) isInstalled(pod corev1.Pod) bool { return pod.Namespace == o.Namespace }

func runsOn(pod *corev1.Pod, node *corev1.Node) bool {
	return pod.Spec.NodeName == node.Name && pod.DeletionTimestamp.IsZero() &&
		slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
}

func mayRunOn(pod *corev1.Pod, node *corev1.Node) bool {
	if node.Spec.Unschedulable {
		return false
	}
	for key, value := range pod.Spec.NodeSelector {
		if node.Labels[key] != value {
			return false
		}
	}
	return !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule &&
			!slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return tolerates(t, taint) })
	})
}

// tolerates returns true for a toleration of a taint, for any time.
func tolerates(toleration corev1.Toleration, taint corev1.Taint) bool {
	return (toleration.Effect == "" || toleration.Effect == taint.Effect) &&
		(toleration.Key == "" || toleration.Key == taint.Key) &&
		(toleration.Operator == corev1.TolerationOpExists || toleration.Value == taint.Value)
}
