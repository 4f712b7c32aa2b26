package v1beta2

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Disk format and URL scheme of images without a checksum.
const (
	// LiveISODiskFormat is the disk format of an image that hosts boot and do not write to disk.
	LiveISODiskFormat = "live-iso"

	// OCIScheme starts the URL of an image in an OCI registry. Such an image requires no checksum: the registry has its
	// digest.
	OCIScheme = "oci://"
)

// Values of automatedCleaningMode.
const (
	// CleaningModeDisabled leaves the disks of a released host as they are.
	CleaningModeDisabled = "disabled"

	// CleaningModeMetadata wipes partition tables and signatures of a released host.
	CleaningModeMetadata = "metadata"
)

// Metal3ObjectRef names an object of a kind that the field implies.
// +structType=atomic
type Metal3ObjectRef struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// namespace of the object. Only the namespace of the object that has the reference is accepted. Defaults to that
	// namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`
}

// Image is an image that Ironic writes to the disk of a host.
type Image struct {
	// url of the image: http, https, file or oci.
	// +required
	URL string `json:"url"`

	// checksum of the image, or the URL of a file with the checksum. Required unless the image is a live ISO or comes
	// from an OCI registry.
	// +optional
	Checksum string `json:"checksum,omitempty"`

	// checksumType is the algorithm of the checksum. With auto, Ironic detects it by the length of the checksum.
	// Defaults to auto.
	// +optional
	// +kubebuilder:validation:Enum=md5;sha256;sha512;auto
	ChecksumType string `json:"checksumType,omitempty"`

	// diskFormat of the image. Required for a live ISO. Ironic detects the other formats.
	// +optional
	// +kubebuilder:validation:Enum=raw;qcow2;vdi;vmdk;live-iso
	DiskFormat string `json:"diskFormat,omitempty"`
}

// CustomDeploy names a deploy step of a custom deploy ramdisk, which Ironic runs instead of writing an image.
type CustomDeploy struct {
	// method is the name of the deploy step.
	// +required
	Method string `json:"method"`
}

// HostSelector selects hosts by their labels. All requirements must match.
type HostSelector struct {
	// matchLabels are labels that a host must have.
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`

	// matchExpressions are requirements on the labels of a host.
	// +optional
	// +listType=atomic
	MatchExpressions []HostSelectorRequirement `json:"matchExpressions,omitempty"`
}

// HostSelectorRequirement is a requirement on one label.
type HostSelectorRequirement struct {
	// key of the label.
	// +required
	Key string `json:"key"`

	// operator is one of In, NotIn, Exists, DoesNotExist, Gt, Lt, =, ==, != and ! (the same as DoesNotExist), in any
	// case.
	// +required
	Operator string `json:"operator"`

	// values for the operator. In and NotIn require at least one, Exists and DoesNotExist none, and the others exactly
	// one.
	// +optional
	// +listType=atomic
	Values []string `json:"values,omitempty"`
}

// Metal3V1Beta1Status has the fields of the v1beta1 status that v1beta2 does not have.
type Metal3V1Beta1Status struct {
	// conditions in the format of v1beta1.
	// +optional
	Conditions clusterv1.Conditions `json:"conditions,omitempty"`

	// failureReason is the reason of an error that CAPM3 considered final.
	// +optional
	FailureReason string `json:"failureReason,omitempty"`

	// failureMessage is the message of an error that CAPM3 considered final.
	// +optional
	FailureMessage string `json:"failureMessage,omitempty"`
}

// DeprecatedStatus has the status fields of older API versions.
type DeprecatedStatus struct {
	// v1beta1 has the status fields of v1beta1.
	// +optional
	V1Beta1 *Metal3V1Beta1Status `json:"v1beta1,omitempty"`
}

// InitializationStatus reports the first provisioning to Cluster API.
// +kubebuilder:validation:MinProperties=1
type InitializationStatus struct {
	// provisioned is true once the infrastructure is complete. It never returns to false.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}
