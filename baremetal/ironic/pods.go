package ironic

import (
	"fmt"
	"path"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pods returns the static pods of a control-plane node, sorted by name. The pod of the DHCP server exists only with
// DHCP.
func Pods(config Config) ([]*corev1.Pod, error) {
	config = config.withDefaults()
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("rendering the static pods of Ironic: %w", err)
	}
	var pods []*corev1.Pod
	if config.DHCP != nil {
		pods = append(pods, config.pod(DNSMasqPod, "dnsmasq", config.dnsmasq()))
	}
	return append(pods,
		config.pod(IronicPod, "ironic", config.ironic()),
		config.pod(VIPPod, "vip", config.vip()),
	), nil
}

// pod returns a static pod. It tolerates all taints: the kubelet is its only scheduler. It has the value of its
// priority class, because no API server sets the value. When the node shuts down, the kubelet ends pods without a value
// before critical pods, and in less time.
func (c Config) pod(name, component string, p part) *corev1.Pod {
	spec := c.podSpec(joinParts(p), c.onTheNode())
	spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	spec.Priority = new(priorities[spec.PriorityClassName])
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: c.objectMeta(name, Namespace, component),
		Spec:       spec,
	}
}

// Management has the settings of the Deployment of the management side.
type Management struct {
	// Name and Namespace of the Deployment.
	Name, Namespace string

	// Secret has the files of a node. SecretKey returns the keys.
	Secret string

	// NodeSelector of nodes with the interface. Empty means all nodes.
	NodeSelector map[string]string
}

// SecretKey is the key of a file of the node in the Secret of the Deployment.
func SecretKey(file string) string {
	return path.Base(file)
}

// Deployment returns the same containers in one pod for the management side, with one replica and without rolling
// updates.
func Deployment(config Config, management Management) (*appsv1.Deployment, error) {
	config = config.withDefaults()
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("rendering Deployment %s/%s of Ironic: %w", management.Namespace, management.Name, err)
	}
	all := []part{config.managementVIP(), config.managementIronic()}
	if config.DHCP != nil {
		all = append(all, config.dnsmasq())
	}
	spec := config.podSpec(joinParts(all...), config.inDeployment(management.Secret))
	spec.NodeSelector, spec.Tolerations = management.NodeSelector, tolerationsOfDeployment()
	meta := config.objectMeta(management.Name, management.Namespace, "management")
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: config.objectMeta(management.Name, management.Namespace, "management"),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)),
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Selector: &metav1.LabelSelector{MatchLabels: meta.Labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels, Annotations: meta.Annotations},
				Spec:       spec,
			},
		},
	}, nil
}

// tolerationsOfDeployment are those of the manager. The Deployment must not tolerate node.kubernetes.io/unreachable and
// node.kubernetes.io/unschedulable for ever: Kubernetes would not replace its pod on a lost node, and would start a new
// pod on a drained one.
func tolerationsOfDeployment() []corev1.Toleration {
	return []corev1.Toleration{
		{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule},
		{Key: "node-role.kubernetes.io/master", Effect: corev1.TaintEffectNoSchedule},
	}
}
