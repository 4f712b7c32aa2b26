package v1beta2

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Names of disk formats and checksum types that need special treatment.
const (
	// LiveISODiskFormat is the disk format of an image that is booted and never written to disk.
	LiveISODiskFormat = "live-iso"

	// OCIScheme starts the URL of an image in an OCI registry, which carries its own digest.
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

	// namespace of the object. Empty means the namespace of the object that holds the reference, and only that
	// namespace is accepted.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`
}

// Image is what gets written to the disk of a host.
type Image struct {
	// url of the image: http, https, file or oci.
	// +required
	URL string `json:"url"`

	// checksum of the image, or the URL of a file that holds it. Required unless the image is a live ISO or comes
	// from an OCI registry.
	// +optional
	Checksum string `json:"checksum,omitempty"`

	// checksumType is the algorithm of the checksum. Empty means md5; auto lets BMO recognise it by
	// its length.
	// +optional
	// +kubebuilder:validation:Enum=md5;sha256;sha512;auto
	ChecksumType string `json:"checksumType,omitempty"`

	// diskFormat of the image. Needed for a live ISO; otherwise recognised by BMO.
	// +optional
	// +kubebuilder:validation:Enum=raw;qcow2;vdi;vmdk;live-iso
	DiskFormat string `json:"diskFormat,omitempty"`
}

// CustomDeploy names a deploy step of a custom Ironic ramdisk that replaces writing an image.
type CustomDeploy struct {
	// method is the name of the deploy step.
	// +required
	Method string `json:"method"`
}

// HostSelector says which hosts are eligible. All its parts must match.
type HostSelector struct {
	// matchLabels are label values that a host must have.
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`

	// matchExpressions are rules that the labels of a host must meet.
	// +optional
	// +listType=atomic
	MatchExpressions []HostSelectorRequirement `json:"matchExpressions,omitempty"`
}

// HostSelectorRequirement is one rule about one label.
type HostSelectorRequirement struct {
	// key of the label.
	// +required
	Key string `json:"key"`

	// operator is one of In, NotIn, Exists, DoesNotExist, Gt, Lt, =, ==, != and ! (the same as DoesNotExist); case
	// does not matter.
	// +required
	Operator string `json:"operator"`

	// values that the operator compares with. In and NotIn need at least one, Exists and DoesNotExist none, the
	// others exactly one.
	// +optional
	// +listType=atomic
	Values []string `json:"values,omitempty"`
}

// Metal3V1Beta1Status keeps what the v1beta1 version reported and v1beta2 no longer does.
type Metal3V1Beta1Status struct {
	// conditions in the format of v1beta1.
	// +optional
	Conditions clusterv1.Conditions `json:"conditions,omitempty"`

	// failureReason is the short text of an error that the provider once considered final.
	// +optional
	FailureReason string `json:"failureReason,omitempty"`

	// failureMessage is the long text of an error that the provider once considered final.
	// +optional
	FailureMessage string `json:"failureMessage,omitempty"`
}

// DeprecatedStatus groups what older versions of the API reported.
type DeprecatedStatus struct {
	// v1beta1 holds what the v1beta1 version reported.
	// +optional
	V1Beta1 *Metal3V1Beta1Status `json:"v1beta1,omitempty"`
}

// InitializationStatus says how far the first provisioning got. Cluster API reads it.
// +kubebuilder:validation:MinProperties=1
type InitializationStatus struct {
	// provisioned is true once the infrastructure is complete. It never returns to false.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}
