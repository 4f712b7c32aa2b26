package host

import (
	"encoding/json"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Claim describes the fields that a machine sets on its host.
type Claim struct {
	// Machine is the name of the Metal3Machine, Namespace the namespace of the machine and its host.
	Machine, Namespace string

	Cluster string

	// CleaningMode replaces the automatedCleaningMode of the host. Empty leaves it unchanged.
	CleaningMode string

	// Provision is nil while the data of the machine is not ready. Desired then sets no image.
	Provision *Provision
}

// Provision is the system that the host must run.
type Provision struct {
	Image        *infrav1.Image
	CustomDeploy *infrav1.CustomDeploy

	// UserData, MetaData and NetworkData are Secrets in the namespace of the host. Nil leaves the field of the host
	// unchanged.
	UserData, MetaData, NetworkData *corev1.SecretReference
}

// image returns the image, or nil for an image without a URL. A machine with a custom deploy step may have one, and BMO
// refuses it.
func (p *Provision) image() *infrav1.Image {
	if p.Image == nil || p.Image.URL == "" {
		return nil
	}
	return p.Image
}

// original holds the values that a claim replaces on a host. The release reads them from an annotation of the host.
type original struct {
	Online bool `json:"online"`

	// CleaningMode is nil if no machine has set the mode of the host: the mode is that of the administrator.
	CleaningMode *bmov1alpha1.AutomatedCleaningMode `json:"automatedCleaningMode,omitempty"`
	ClusterLabel string                             `json:"clusterLabel,omitempty"`
	UserData     *corev1.SecretReference            `json:"userData,omitempty"`
	MetaData     *corev1.SecretReference            `json:"metaData,omitempty"`
	NetworkData  *corev1.SecretReference            `json:"networkData,omitempty"`
}

// Desired returns a copy of the host with the claim. A host with an image keeps its image and Secrets: BMO ignores a
// change of them, or wipes a running system.
//
// Desired removes block-move, because no move runs while a machine reconciles. It keeps every pause: the claim has no
// facts about whether BMO may reconcile the host yet.
func Desired(host *bmov1alpha1.BareMetalHost, claim Claim) *bmov1alpha1.BareMetalHost {
	desired := host.DeepCopy()
	if !ConsumedBy(host, claim.Namespace, claim.Machine) {
		recordOriginal(desired)
	}
	desired.Spec.ConsumerRef = consumerRef(claim)
	if ConsumedBy(host, claim.Namespace, claim.Machine) {
		// CAPM3 may have written another version of the kind. An update would cost a write without effect.
		desired.Spec.ConsumerRef = host.Spec.ConsumerRef.DeepCopy()
	}
	metav1.SetMetaDataLabel(&desired.ObjectMeta, clusterv1.ClusterNameLabel, claim.Cluster)
	delete(desired.Labels, infrav1.NodeReuseLabel)
	delete(desired.Annotations, infrav1.BlockMoveAnnotation)
	desired.OwnerReferences = withoutMachineOwners(desired.OwnerReferences)
	setCleaningMode(desired, claim.CleaningMode)
	provision(desired, claim.Provision)
	return desired
}

func provision(desired *bmov1alpha1.BareMetalHost, wanted *Provision) {
	if wanted == nil || IsImaged(desired) {
		return
	}
	if image := wanted.image(); image != nil {
		desired.Spec.Image = desiredImage(*image)
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

// recordOriginal records the values that the claim replaces. A reserved host keeps the record of its first claim.
func recordOriginal(host *bmov1alpha1.BareMetalHost) {
	if _, known := originalOf(host); known {
		return
	}
	record(host, original{
		Online:       host.Spec.Online,
		ClusterLabel: host.Labels[clusterv1.ClusterNameLabel],
		UserData:     host.Spec.UserData,
		MetaData:     host.Spec.MetaData,
		NetworkData:  host.Spec.NetworkData,
	})
}

// setCleaningMode sets the mode of a machine, unless it is empty. The first mode of a machine on a host adds the mode
// of the host to the record.
func setCleaningMode(host *bmov1alpha1.BareMetalHost, mode string) {
	if mode == "" {
		return
	}
	if before, known := originalOf(host); known && before.CleaningMode == nil {
		before.CleaningMode = ptr.To(host.Spec.AutomatedCleaningMode)
		record(host, before)
	}
	host.Spec.AutomatedCleaningMode = bmov1alpha1.AutomatedCleaningMode(mode)
}

func record(host *bmov1alpha1.BareMetalHost, before original) {
	content, err := json.Marshal(before)
	if err != nil {
		// A struct of strings always has a JSON form.
		panic(err)
	}
	metav1.SetMetaDataAnnotation(&host.ObjectMeta, infrav1.ReleaseAnnotation, string(content))
}

// originalOf returns the values that the claim replaced. It returns false for hosts that CAPM3 claimed, and for an
// invalid annotation.
func originalOf(host *bmov1alpha1.BareMetalHost) (before original, known bool) {
	content, exists := host.Annotations[infrav1.ReleaseAnnotation]
	if !exists {
		return original{}, false
	}
	if err := json.Unmarshal([]byte(content), &before); err != nil {
		return original{}, false
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
