package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// APIEndpoint is the address of an API server.
type APIEndpoint struct {
	// host is the name or the address of the API server.
	// +optional
	Host string `json:"host"`

	// port of the API server.
	// +optional
	Port int `json:"port"`
}

// Image is an image that Ironic writes to the disk of a host.
type Image struct {
	// url of the image.
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
	ChecksumType *string `json:"checksumType,omitempty"`

	// format of the image. Required for a live ISO. Ironic detects the other formats.
	// +optional
	// +kubebuilder:validation:Enum=raw;qcow2;vdi;vmdk;live-iso
	DiskFormat *string `json:"format,omitempty"`
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
	MatchExpressions []HostSelectorRequirement `json:"matchExpressions,omitempty"`
}

// HostSelectorRequirement is a requirement on one label.
type HostSelectorRequirement struct {
	// key of the label.
	// +required
	Key string `json:"key"`

	// operator is one of In, NotIn, Exists, DoesNotExist, Gt, Lt, =, ==, != and !, in any case.
	// +required
	Operator string `json:"operator"`

	// values for the operator.
	// +optional
	Values []string `json:"values,omitempty"`
}

// V1Beta2Status has the conditions in the format of v1beta2.
type V1Beta2Status struct {
	// conditions in the format of v1beta2.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
