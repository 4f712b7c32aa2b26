package ironic

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The priority classes of Kubernetes for critical pods.
const clusterCritical, nodeCritical = "system-cluster-critical", "system-node-critical"

// priorities are the values of the priority classes. Kubernetes permits no others.
var priorities = map[string]int32{clusterCritical: 2000000000, nodeCritical: 2000001000}

// part is the contribution of one component to a pod.
type part struct {
	// tools says that containers of other images run the program of the guard.
	tools bool

	// prepare are arguments of the guard that create files for Ironic.
	prepare []string

	init, containers []corev1.Container

	// volumes are the volumes by name. Their sources differ between static pods and the Deployment.
	volumes []string

	// groups permits the group of Ironic to read Secrets.
	groups bool

	// grace is the time limit for the end of the containers, in seconds.
	grace int64

	// nodeCritical gives the pod the priority of etcd: out of memory, the kernel kills almost all other processes
	// first.
	nodeCritical bool
}

// joinParts joins parts. The result is as critical as the least critical part.
func joinParts(parts ...part) part {
	all := part{nodeCritical: true}
	for _, one := range parts {
		all.nodeCritical = all.nodeCritical && one.nodeCritical
		all.tools = all.tools || one.tools
		all.groups = all.groups || one.groups
		all.prepare = append(all.prepare, one.prepare...)
		all.init = append(all.init, one.init...)
		all.containers = append(all.containers, one.containers...)
		all.volumes = append(all.volumes, one.volumes...)
		all.grace = max(all.grace, one.grace)
	}
	slices.Sort(all.volumes)
	all.volumes = slices.Compact(all.volumes)
	return all
}

// podSpec returns the common part of static pods and the Deployment. The pods use the network of the node, and start
// before the pod network and the cluster DNS. They share folders of the node with SELinux labels of the node: only a
// process of type spc_t may use them. Nodes without SELinux ignore the type.
func (c Config) podSpec(p part, sources map[string]corev1.VolumeSource) corev1.PodSpec {
	priority := clusterCritical
	if p.nodeCritical {
		priority = nodeCritical
	}
	spec := corev1.PodSpec{
		HostNetwork:                   true,
		DNSPolicy:                     corev1.DNSDefault,
		RestartPolicy:                 corev1.RestartPolicyAlways,
		TerminationGracePeriodSeconds: new(p.grace),
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		PriorityClassName:             priority,
		SecurityContext: &corev1.PodSecurityContext{
			SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: p.containers,
	}
	if p.groups {
		spec.SecurityContext.FSGroup = new(int64(groupOfIronic))
	}
	if p.tools {
		spec.InitContainers = append(spec.InitContainers, c.prepareContainer(p.prepare))
	}
	spec.InitContainers = append(spec.InitContainers, p.init...)
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c.Settings.size(&containers[i])
		}
	}
	for _, name := range p.volumes {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: sources[name]})
	}
	return spec
}

// prepareContainer fills the folders of the pod. A reboot empties those in memory. It must be the first init container,
// because the kubelet always starts the first one in a new sandbox. If the last one completed in the old sandbox, the
// kubelet may skip the others, and does not wait for the first one: Ironic and its web server then fail until their
// files exist.
//
// It copies the program of the guard for containers of other images. For Ironic it copies files as root: only root can
// read the files of the node, and Ironic does not run as root. It changes the owner of its copies, and must overwrite
// them later. Only this container mounts the parent folders, to remove the permissions of other users: cloud-init and
// the kubelet create folders that all users may enter.
func (c Config) prepareContainer(arguments []string) corev1.Container {
	container := c.container("prepare", c.Images.Guard, "5m", "32Mi")
	container.Command = []string{GuardProgram, "prepare", "--install=" + toolsDirectory}
	container.SecurityContext = asRoot()
	container.VolumeMounts = []corev1.VolumeMount{{Name: toolsVolume, MountPath: toolsDirectory}}
	if len(arguments) == 0 {
		return container
	}
	owner := fmt.Sprintf("--owner=%d:%d", userOfIronic, groupOfIronic)
	container.Command = append(container.Command, owner, "--closed="+NodeDirectory, "--closed="+DataDirectory)
	container.Command = append(container.Command, arguments...)
	container.SecurityContext = asRoot("CHOWN", "DAC_OVERRIDE", "FOWNER")
	container.VolumeMounts = append(container.VolumeMounts,
		corev1.VolumeMount{Name: dataVolume, MountPath: DataDirectory},
		corev1.VolumeMount{Name: nodeVolume, MountPath: NodeDirectory},
		corev1.VolumeMount{Name: privateVolume, MountPath: private}, sharedMount())
	return container
}

// container returns the common part of all containers. The requests are the observed use of an idle node. There are no
// limits by default: Ironic would lose its database when it reaches a limit.
func (c Config) container(name, image, cpu, memory string) corev1.Container {
	return corev1.Container{
		Name:            name,
		Image:           image,
		ImagePullPolicy: c.Images.PullPolicy,
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse(memory),
		}},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

// asRoot keeps the user root and drops all capabilities except for the named ones.
func asRoot(capabilities ...corev1.Capability) *corev1.SecurityContext {
	return &corev1.SecurityContext{
		RunAsUser:                new(int64(0)),
		RunAsGroup:               new(int64(0)),
		AllowPrivilegeEscalation: new(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: capabilities},
	}
}

// asIronic sets the user of the image of Ironic, without capabilities.
func asIronic() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		RunAsUser:                new(int64(userOfIronic)),
		RunAsGroup:               new(int64(groupOfIronic)),
		RunAsNonRoot:             new(true),
		AllowPrivilegeEscalation: new(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// objectMeta returns the name and labels of a component.
func (c Config) objectMeta(name, namespace, component string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Name:      name,
		Namespace: namespace,
		Labels:    map[string]string{ComponentLabel: component, ClusterLabel: c.ClusterID},
	}
	if c.Hash != "" {
		meta.Annotations = map[string]string{HashAnnotation: c.Hash}
	}
	return meta
}
