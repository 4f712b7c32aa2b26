package hostoperator

import (
	"strconv"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/ironicapi"
)

const (
	// Namespace is the Baremetal Operator's, so that everything which looks for it looks in the right place.
	Namespace = "baremetal-operator-system"

	// Name is that of the Deployment and of all that belongs to it. It tells people that this is a stand-in.
	Name = "lab-host-operator"

	// Program is the path of the program in its image.
	Program = "/hostoperator"

	// ironicSecret holds how to reach Ironic.
	ironicSecret = Name + "-ironic"

	// anybody is the user of the container: one with no rights on the node.
	anybody = 65532

	healthPort  = 9440
	metricsPort = 8080

	ironicFolder = "/opt/metal3/ironic"
)

// Objects are what runs the operator in a cluster, from a container image that holds the program at the path Program.
// The definitions of its API are not among them and have to be installed before.
func Objects(image string, ironic ironicapi.Settings) []client.Object {
	named := metav1.ObjectMeta{Name: Name, Labels: podLabels()}
	inside := metav1.ObjectMeta{Namespace: Namespace, Name: Name, Labels: podLabels()}
	account := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: Namespace, Name: Name}}
	version := rbacv1.SchemeGroupVersion.String()
	return []client.Object{
		&corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: Namespace},
		},
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: inside},
		&rbacv1.ClusterRole{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterRole"}, ObjectMeta: named, Rules: clusterRules(),
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterRoleBinding"}, ObjectMeta: named,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: Name}, Subjects: account,
		},
		&rbacv1.Role{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "Role"}, ObjectMeta: inside, Rules: leaseRules(),
		},
		&rbacv1.RoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "RoleBinding"}, ObjectMeta: inside,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: Name}, Subjects: account,
		},
		&corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: ironicSecret, Labels: podLabels()},
			Data: map[string][]byte{
				"username": []byte(ironic.Username), "password": []byte(ironic.Password), "ca.crt": ironic.CA,
			},
		},
		deployment(inside, image, ironic),
	}
}

func podLabels() map[string]string { return map[string]string{"app.kubernetes.io/name": Name} }

// clusterRules are what the controller does and nothing more. Hosts may lie in any namespace, and so may their Secrets.
func clusterRules() []rbacv1.PolicyRule {
	hosts := bmov1alpha1.GroupVersion.Group
	return []rbacv1.PolicyRule{
		{
			APIGroups: []string{hosts}, Resources: []string{"baremetalhosts"},
			Verbs: []string{"get", "list", "watch", "patch"},
		},
		{APIGroups: []string{hosts}, Resources: []string{"baremetalhosts/status"}, Verbs: []string{"update"}},
		// To own a HardwareData that keeps the host until it is gone.
		{APIGroups: []string{hosts}, Resources: []string{"baremetalhosts/finalizers"}, Verbs: []string{"update"}},
		{
			APIGroups: []string{hosts}, Resources: []string{"hardwaredata"},
			Verbs: []string{"get", "create", "update", "patch"},
		},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch", "patch"}},
	}
}

// leaseRules are for the election of a leader, which is told in events.
func leaseRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
		{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{Name},
			Verbs: []string{"get", "update"},
		},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
}

func deployment(named metav1.ObjectMeta, image string, ironic ironicapi.Settings) *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: named,
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1),
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Selector: &metav1.LabelSelector{MatchLabels: podLabels()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: podLabels()},
				Spec: corev1.PodSpec{
					ServiceAccountName: Name,
					// Control planes may be all that a cluster has.
					Tolerations: []corev1.Toleration{
						{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule},
					},
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](anybody), RunAsGroup: ptr.To[int64](anybody),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Containers: []corev1.Container{container(image, ironic)},
					Volumes:    []corev1.Volume{ironicVolume()},
				},
			},
		},
	}
}

// ironicVolume lays the Secret out as the operator looks for it.
func ironicVolume() corev1.Volume {
	return corev1.Volume{Name: "ironic", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: ironicSecret,
		Items: []corev1.KeyToPath{
			{Key: "username", Path: "ironic/username"},
			{Key: "password", Path: "ironic/password"},
			{Key: "ca.crt", Path: "ca.crt"},
		},
	}}}
}

func container(image string, ironic ironicapi.Settings) corev1.Container {
	return corev1.Container{
		Name: "host-operator", Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command: []string{Program},
		Args:    []string{"--enable-leader-election"},
		Env: []corev1.EnvVar{
			{Name: "IRONIC_ENDPOINT", Value: ironic.Endpoint},
			{Name: "IRONIC_INSECURE", Value: strconv.FormatBool(ironic.Insecure)},
			{Name: "METAL3_AUTH_ROOT_DIR", Value: ironicFolder},
			{Name: "IRONIC_CACERT_FILE", Value: ironicFolder + "/ca.crt"},
		},
		Ports: []corev1.ContainerPort{
			{Name: "health", ContainerPort: healthPort}, {Name: "metrics", ContainerPort: metricsPort},
		},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(healthPort)},
			},
			PeriodSeconds: 1, FailureThreshold: 30,
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
		}},
		VolumeMounts: []corev1.VolumeMount{{Name: "ironic", MountPath: ironicFolder, ReadOnly: true}},
	}
}
