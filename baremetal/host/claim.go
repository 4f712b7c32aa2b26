package host

import (
	"encoding/json"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Claim is what a machine writes on its host.
type Claim struct {
	// Machine is the name of the Metal3Machine, Namespace is where it and its host live.
	Machine, Namespace string

	// Cluster is the name of the Cluster.
	Cluster string

	// CleaningMode replaces the automatedCleaningMode of the host. Empty leaves it.
	CleaningMode string

	// Provision is what the host should run. Nil means that its data is not ready yet: the host is only claimed.
	Provision *Provision
}

// Provision is what a host should run.
type Provision struct {
	Image        *infrav1.Image
	CustomDeploy *infrav1.CustomDeploy

	// UserData, MetaData and NetworkData are Secrets in the namespace of the host. A nil one leaves what the
	// owner of the host has set.
	UserData, MetaData, NetworkData *corev1.SecretReference
}

// found is what a claim replaces on a host. It is kept in an annotation so that the release can put it back.
type found struct {
	Online       bool                              `json:"online"`
	CleaningMode bmov1alpha1.AutomatedCleaningMode `json:"automatedCleaningMode,omitempty"`
	ClusterLabel string                            `json:"clusterLabel,omitempty"`
	UserData     *corev1.SecretReference           `json:"userData,omitempty"`
	MetaData     *corev1.SecretReference           `json:"metaData,omitempty"`
	NetworkData  *corev1.SecretReference           `json:"networkData,omitempty"`
}

// Desired returns the host as the claim wants it. The given host is not changed. A host that already has an image keeps
// all that it runs with: changing it would not be noticed by the host operator or would wipe a running system.
//
// A block on moving is lifted: whoever asks for the desired host is not being moved. A pause stays, also the provider's
// own, because a machine does not know whether the host operator may act yet.
func Desired(host *bmov1alpha1.BareMetalHost, claim Claim) *bmov1alpha1.BareMetalHost {
	desired := host.DeepCopy()
	if !ConsumedBy(host, claim.Namespace, claim.Machine) {
		remember(desired)
	}
	desired.Spec.ConsumerRef = consumerRef(claim)
	if ConsumedBy(host, claim.Namespace, claim.Machine) {
		// CAPM3 may have written another version of the kind. Rewriting it would cost a write and gain nothing.
		desired.Spec.ConsumerRef = host.Spec.ConsumerRef.DeepCopy()
	}
	metav1.SetMetaDataLabel(&desired.ObjectMeta, clusterv1.ClusterNameLabel, claim.Cluster)
	delete(desired.Labels, infrav1.NodeReuseLabel)
	delete(desired.Annotations, infrav1.BlockMoveAnnotation)
	desired.OwnerReferences = withoutMachineOwners(desired.OwnerReferences)
	if claim.CleaningMode != "" {
		desired.Spec.AutomatedCleaningMode = bmov1alpha1.AutomatedCleaningMode(claim.CleaningMode)
	}
	provision(desired, claim.Provision)
	return desired
}

func provision(desired *bmov1alpha1.BareMetalHost, wanted *Provision) {
	if wanted == nil || desired.Spec.Image != nil || desired.Spec.CustomDeploy != nil {
		return
	}
	if wanted.Image != nil {
		desired.Spec.Image = desiredImage(*wanted.Image)
	}
	if wanted.CustomDeploy != nil {
		desired.Spec.CustomDeploy = &bmov1alpha1.CustomDeploy{Method: wanted.CustomDeploy.Method}
	}
	setReference(&desired.Spec.UserData, wanted.UserData)
	setReference(&desired.Spec.MetaData, wanted.MetaData)
	setReference(&desired.Spec.NetworkData, wanted.NetworkData)
	desired.Spec.Online = true
}

func desiredImage(wanted infrav1.Image) *bmov1alpha1.Image {
	image := &bmov1alpha1.Image{
		URL:          wanted.URL,
		Checksum:     wanted.Checksum,
		ChecksumType: bmov1alpha1.ChecksumType(wanted.ChecksumType),
	}
	if wanted.DiskFormat != "" {
		image.DiskFormat = &wanted.DiskFormat
	}
	return image
}

func setReference(target **corev1.SecretReference, wanted *corev1.SecretReference) {
	if wanted != nil {
		*target = wanted.DeepCopy()
	}
}

// remember records what the claim is about to replace. A host that is or was reserved by node reuse still carries the
// record of its first claim, which stays the truth.
func remember(host *bmov1alpha1.BareMetalHost) {
	if _, known := recall(host); known {
		return
	}
	content, err := json.Marshal(found{
		Online:       host.Spec.Online,
		CleaningMode: host.Spec.AutomatedCleaningMode,
		ClusterLabel: host.Labels[clusterv1.ClusterNameLabel],
		UserData:     host.Spec.UserData,
		MetaData:     host.Spec.MetaData,
		NetworkData:  host.Spec.NetworkData,
	})
	if err != nil {
		// A struct of strings always has a JSON form.
		panic(err)
	}
	metav1.SetMetaDataAnnotation(&host.ObjectMeta, infrav1.ReleaseAnnotation, string(content))
}

// recall returns what the claim replaced. It is not known for hosts that CAPM3 claimed, nor where somebody wrote into
// the annotation.
func recall(host *bmov1alpha1.BareMetalHost) (before found, known bool) {
	content, exists := host.Annotations[infrav1.ReleaseAnnotation]
	if !exists {
		return found{}, false
	}
	if err := json.Unmarshal([]byte(content), &before); err != nil {
		return found{}, false
	}
	return before, true
}

func withoutMachineOwners(owners []metav1.OwnerReference) []metav1.OwnerReference {
	if !slices.ContainsFunc(owners, isMachineOwner) {
		return owners
	}
	return slices.DeleteFunc(slices.Clone(owners), isMachineOwner)
}

func isMachineOwner(owner metav1.OwnerReference) bool {
	return isMachineRef(&corev1.ObjectReference{APIVersion: owner.APIVersion, Kind: owner.Kind})
}
