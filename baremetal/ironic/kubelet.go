package ironic

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
)

// Defaults of kubeadm: the kubeconfig of the kubelet, and the directory of the links to its certificates.
const (
	KubeconfigOfKubeadm   = "/etc/kubernetes/kubelet.conf"
	CertificatesOfKubeadm = "/var/lib/kubelet/pki"
)

// Kubelet has the paths of the credentials of the kubelet. They are mounted at the same paths, because the kubeconfig
// contains some of them.
type Kubelet struct {
	// Kubeconfig is a file.
	Kubeconfig string

	// Files and Directories are the paths in the kubeconfig. They are separate because a mount names the type that must
	// exist: otherwise a runtime creates a directory for a missing path.
	Files, Directories []string
}

// KubeletOfKubeadm returns the kubelet of a node of kubeadm.
func KubeletOfKubeadm() *Kubelet {
	return &Kubelet{Kubeconfig: KubeconfigOfKubeadm, Directories: []string{CertificatesOfKubeadm}}
}

// guardPaths are the directories and programs of the guard's container. The last ones contain the programs of the
// image.
func guardPaths() []string {
	return []string{
		NodeDirectory, StateDirectory, CacheDirectory, SharedDirectory, GuardProgram,
		"/dev", "/proc", "/sys", "/bin", "/lib", "/lib64", "/sbin", "/usr",
	}
}

// MountProblem returns why a path of the node cannot be mounted at the same path in the guard, with the remedy. Empty
// means that it can.
func MountProblem(place string) string {
	clean := path.IsAbs(place) && path.Clean(place) == place && place != "/"
	if !clean || strings.ContainsFunc(place, unicode.IsSpace) {
		return "is not an absolute path in its shortest form; write it like " + KubeconfigOfKubeadm
	}
	for _, own := range guardPaths() {
		if within(place, own) || within(own, place) {
			return fmt.Sprintf("overlaps with %s of the guard container; list only paths in the kubeconfig, and keep those "+
				"files elsewhere", own)
		}
	}
	return ""
}

// within returns true if a path is the directory or below it.
func within(place, directory string) bool {
	return place == directory || strings.HasPrefix(place, directory+"/")
}

// place is a mounted path of the kubelet.
type place struct {
	volume, path string
	kind         corev1.HostPathType
}

// places returns the paths in a stable order, and none without a kubelet.
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

// check returns an error for a path with which the kubelet would not start the pod, or that would hide a part of the
// container.
func (k *Kubelet) check() error {
	var problems []error
	seen := map[string]bool{}
	for _, place := range k.places() {
		problem := MountProblem(place.path)
		if seen[place.path] {
			problem = "is listed twice; list each path once"
		}
		if problem != "" {
			problems = append(problems, fmt.Errorf("path %q of the kubelet %s", place.path, problem))
		}
		seen[place.path] = true
	}
	return errors.Join(problems...)
}
