package ironic

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
)

// What kubeadm gives a kubelet: how it reaches the API server, and the directory of the links to its certificates.
const (
	KubeconfigOfKubeadm   = "/etc/kubernetes/kubelet.conf"
	CertificatesOfKubeadm = "/var/lib/kubelet/pki"
)

// Kubelet says where the kubelet of a node keeps its credentials. They are mounted where they are on the node, because
// the kubeconfig names some of them by their paths.
type Kubelet struct {
	// Kubeconfig is a file.
	Kubeconfig string

	// Files and Directories are what the kubeconfig refers to. They are apart because a mount has to say which of the
	// two must exist: a runtime makes a directory of everything else that is missing.
	Files, Directories []string
}

// KubeletOfKubeadm is the kubelet of a node that kubeadm made.
func KubeletOfKubeadm() *Kubelet {
	return &Kubelet{Kubeconfig: KubeconfigOfKubeadm, Directories: []string{CertificatesOfKubeadm}}
}

// taken are the directories and programs of the guard's own container. The image has its programs in the last ones.
func taken() []string {
	return []string{
		NodeDirectory, StateDirectory, CacheDirectory, SharedDirectory, GuardProgram,
		"/dev", "/proc", "/sys", "/bin", "/lib", "/lib64", "/sbin", "/usr",
	}
}

// MountProblem says why a path of the node cannot be mounted at the same path for the guard, and what to do instead.
// Empty means that it can.
func MountProblem(place string) string {
	clean := path.IsAbs(place) && path.Clean(place) == place && place != "/"
	if !clean || strings.ContainsFunc(place, unicode.IsSpace) {
		return "is not an absolute path in its shortest form; write it like " + KubeconfigOfKubeadm
	}
	for _, own := range taken() {
		if within(place, own) || within(own, place) {
			return fmt.Sprintf("overlaps with %s, which the container of the guard has itself; name only what the kubeconfig "+
				"refers to, and keep that elsewhere", own)
		}
	}
	return ""
}

// within says whether a path is the directory or lies in it.
func within(place, directory string) bool {
	return place == directory || strings.HasPrefix(place, directory+"/")
}

// place is something of the kubelet that is mounted.
type place struct {
	volume, path string
	kind         corev1.HostPathType
}

// places are the same in each rendering, and none without a kubelet.
func (k *Kubelet) places() []place {
	if k == nil {
		return nil
	}
	places := []place{{kubeconfigVolume, k.Kubeconfig, corev1.HostPathFile}}
	add := func(paths []string, kind corev1.HostPathType) {
		for _, one := range paths {
			places = append(places, place{fmt.Sprintf("kubelet-%d", len(places)), one, kind})
		}
	}
	add(k.Files, corev1.HostPathFile)
	add(k.Directories, corev1.HostPathDirectory)
	return places
}

// check refuses what the kubelet would not start the pod with, or what would hide a part of the container.
func (k *Kubelet) check() error {
	var problems []error
	seen := map[string]bool{}
	for _, place := range k.places() {
		problem := MountProblem(place.path)
		if seen[place.path] {
			problem = "is there twice; name each path once"
		}
		if problem != "" {
			problems = append(problems, fmt.Errorf("path %q of the kubelet %s", place.path, problem))
		}
		seen[place.path] = true
	}
	return errors.Join(problems...)
}
