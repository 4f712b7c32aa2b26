package ironic

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Namespace is where Objects puts everything.
	Namespace = "lab-ironic"
	// Name is the name of the Deployment and of the Secret.
	Name = "ironic"
	// contentAnnotation starts a new pod when the content of the Secret changes: Ironic reads it once.
	contentAnnotation = "lab.invalid/content"
)

// Objects are what runs Ironic in a cluster, in the order in which they are created: a namespace, a Secret with the
// configuration and the credentials, and a Deployment of one pod in the network of its node. The image is a packed
// root file system of EnsureRoot. The node must have the address of the configuration, and the credentials must hold
// for it. The database lives as long as the container.
func Objects(image string, config Config, credentials Credentials) ([]client.Object, error) {
	content, err := files(config, credentials)
	if err != nil {
		return nil, fmt.Errorf("making the objects of Ironic: %w", err)
	}
	return []client.Object{
		&corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: Namespace},
		},
		&corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name},
			Data:       content,
		},
		deployment(image, config.withDefaults(), contentHash(content)),
	}, nil
}

func contentHash(content map[string][]byte) string {
	hash := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(content)) {
		fmt.Fprintln(hash, name, len(content[name]))
		hash.Write(content[name])
	}
	return hex.EncodeToString(hash.Sum(nil))
}

func deployment(image string, config Config, content string) *appsv1.Deployment {
	labels := map[string]string{"app.kubernetes.io/name": Name}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1),
			// Two at once would fight for the port, and for the power of the machines.
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels: labels, Annotations: map[string]string{contentAnnotation: content},
				},
				Spec: podSpec(image, config),
			},
		},
	}
}

func podSpec(image string, config Config) corev1.PodSpec {
	return corev1.PodSpec{
		HostNetwork:                   true,
		DNSPolicy:                     corev1.DNSDefault,
		AutomountServiceAccountToken:  ptr.To(false),
		EnableServiceLinks:            ptr.To(false),
		TerminationGracePeriodSeconds: ptr.To[int64](15),
		Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](UserID), RunAsGroup: ptr.To[int64](UserID),
			FSGroup:        ptr.To[int64](UserID),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{container(image, config)},
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
				SecretName: Name, DefaultMode: ptr.To[int32](0o440),
			}}},
			{Name: "state", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
	}
}

func container(image string, config Config) corev1.Container {
	return corev1.Container{
		Name:            Name,
		Image:           image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         command(),
		Env:             environment(),
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("256Mi"),
		}},
		ReadinessProbe: &corev1.Probe{
			// The process serves its API only once its conductor runs. This path needs no password.
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Scheme: corev1.URISchemeHTTPS, Host: config.Address.String(), Port: intstr.FromInt(config.Port), Path: "/v1/",
			}},
			PeriodSeconds: 2, TimeoutSeconds: 5, FailureThreshold: 3,
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
			ReadOnlyRootFilesystem:   ptr.To(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: ConfigDir, ReadOnly: true},
			{Name: "state", MountPath: StateDir},
			{Name: "tmp", MountPath: "/tmp"},
		},
	}
}

// environment is what Ironic needs to find its programs and to write text, in a container and in Run.
func environment() []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "PATH", Value: "/usr/sbin:/usr/bin"},
		{Name: "HOME", Value: StateDir},
		{Name: "LC_ALL", Value: "C.UTF-8"},
	}
}

// command starts Ironic, in a container and in Run.
func command() []string {
	return []string{EntryPoint, "--config-file", ConfigDir + "/" + configFile, "--credentials", ConfigDir}
}
