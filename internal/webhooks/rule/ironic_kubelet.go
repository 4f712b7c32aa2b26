package rule

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
)

// kubelet validates paths that are mounted into the container of the guard at the same paths.
func kubelet(path *field.Path, kubelet *infrav1.IronicKubelet) field.ErrorList {
	if kubelet == nil {
		return nil
	}
	if kubelet.Kubeconfig == "" {
		return field.ErrorList{field.Required(path.Child("kubeconfig"),
			"name the kubeconfig of the kubelet, or leave out kubelet where kubeadm makes the nodes")}
	}
	var errs field.ErrorList
	var seen []string
	judge := func(path *field.Path, place string) {
		if problem := ironic.MountProblem(place); problem != "" {
			errs = append(errs, field.Invalid(path, place, problem))
		} else if slices.Contains(seen, place) {
			errs = append(errs, field.Duplicate(path, place))
		}
		seen = append(seen, place)
	}
	judge(path.Child("kubeconfig"), kubelet.Kubeconfig)
	for i, file := range kubelet.CredentialFiles {
		judge(path.Child("credentialFiles").Index(i), file)
	}
	for i, directory := range kubelet.CredentialDirectories {
		judge(path.Child("credentialDirectories").Index(i), directory)
	}
	return errs
}

// unknownKubelet warns of another directory of static pods than that of kubeadm with the credentials of kubeadm. It
// is not an error: kubeadm supports other directories.
func unknownKubelet(path *field.Path, described *infrav1.Ironic) Findings {
	if described.Kubelet != nil ||
		described.ManifestsDirectory == "" || described.ManifestsDirectory == infrav1.DefaultManifestsDirectory ||
		(described.Takeover != "" && described.Takeover != infrav1.TakeoverAfterMove) {
		return Findings{}
	}
	return Warn(path.Child("kubelet"), "is not set while manifestsDirectory is %q; without %s and %s on the nodes the "+
		"pod %s does not start and the node never takes the VIP, so unless kubeadm makes the nodes set kubelet.kubeconfig "+
		"and the credentials that it refers to", described.ManifestsDirectory,
		ironic.KubeconfigOfKubeadm, ironic.CertificatesOfKubeadm, ironic.VIPPod)
}
