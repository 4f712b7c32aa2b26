package ironic

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Names of volumes.
const (
	cacheVolume      = "cache"
	dataVolume       = "data"
	kubeconfigVolume = "kubeconfig"
	handoverVolume   = "handover"
	nodeVolume       = "node"
	privateVolume    = "private"
	sharedVolume     = "shared"
	stateVolume      = "state"
	toolsVolume      = "tools"
)

// onTheNode returns the volumes of static pods. The kubelet waits for files that must exist. Otherwise the runtime
// would create folders.
func (c Config) onTheNode() map[string]corev1.VolumeSource {
	path := func(path string, kind corev1.HostPathType) corev1.VolumeSource {
		return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: new(kind)}}
	}
	sources := map[string]corev1.VolumeSource{
		cacheVolume:   path(CacheDirectory, corev1.HostPathDirectoryOrCreate),
		dataVolume:    path(DataDirectory, corev1.HostPathDirectoryOrCreate),
		nodeVolume:    path(NodeDirectory, corev1.HostPathDirectory),
		privateVolume: inMemory("1Mi"),
		sharedVolume:  path(SharedDirectory, corev1.HostPathDirectoryOrCreate),
		stateVolume:   path(StateDirectory, corev1.HostPathDirectoryOrCreate),
		toolsVolume:   scratch("64Mi"),
	}
	for _, place := range c.Kubelet.places() {
		sources[place.volume] = path(place.path, place.kind)
	}
	return sources
}

// inDeployment mounts the files of the node from a Secret, with the last part of each path as key, and the state in the
// pod, because all containers are in one pod. The ConfigMap of the handover changes without a restart.
func (c Config) inDeployment(secret string) map[string]corev1.VolumeSource {
	sources := c.onTheNode()
	files := []string{SettingsFile, HtpasswdFile, CertificateFile, KeyFile, AuthorityFile}
	if c.DHCP != nil {
		files = append(files, DHCPFile)
	}
	if c.Settings.BMCAuthorities {
		files = append(files, BMCAuthoritiesFile)
	}
	if c.Settings.TrustedAuthorities {
		files = append(files, TrustedAuthoritiesFile)
	}
	volume := &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: new(int32(0o600))}
	for _, file := range files {
		volume.Items = append(volume.Items, corev1.KeyToPath{Key: SecretKey(file), Path: file})
	}
	sources[nodeVolume] = corev1.VolumeSource{Secret: volume}
	sources[stateVolume] = inMemory("1Mi")
	sources[handoverVolume] = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: HandoverConfigMap}, Optional: new(true),
	}}
	return sources
}

// inMemory returns a folder in memory.
func inMemory(limit string) corev1.VolumeSource {
	size := resource.MustParse(limit)
	return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
		Medium: corev1.StorageMediumMemory, SizeLimit: &size,
	}}
}

func scratch(limit string) corev1.VolumeSource {
	size := resource.MustParse(limit)
	return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size}}
}

func nodeMount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: nodeVolume, MountPath: NodeDirectory, ReadOnly: true}
}

func stateMount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: stateVolume, MountPath: StateDirectory}
}

func readOnly(mount corev1.VolumeMount) corev1.VolumeMount {
	mount.ReadOnly = true
	return mount
}

func toolsMount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: toolsVolume, MountPath: toolsDirectory, ReadOnly: true}
}
