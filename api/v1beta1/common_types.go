package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// APIEndpoint is where an API server answers.
type APIEndpoint struct {
	// host is the name or the address of the API server.
	// +optional
	Host string `json:"host"`

	// port of the API server.
	// +optional
	Port int `json:"port"`
}

// Image is what gets written to the disk of a host.
type Image struct {
	// url of the image.
	// +required
	URL string `json:"url"`

	// checksum of the image, or the URL of a file that holds it. Required unless the image is a live ISO or comes
	// from an OCI registry.
	// +optional
	Checksum string `json:"checksum,omitempty"`

	// checksumType is the algorithm of the checksum. Missing means md5; auto lets BMO recognise it by
	// its length.
	// +optional
	// +kubebuilder:validation:Enum=md5;sha256;sha512;auto
	ChecksumType *string `json:"checksumType,omitempty"`

	// format of the image on disk. Needed for a live ISO; otherwise recognised by BMO.
	// +optional
	// +kubebuilder:validation:Enum=raw;qcow2;vdi;vmdk;live-iso
	DiskFormat *string `json:"format,omitempty"`
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
	MatchExpressions []HostSelectorRequirement `json:"matchExpressions,omitempty"`
}

// HostSelectorRequirement is one rule about one label.
type HostSelectorRequirement struct {
	// key of the label.
	// +required
	Key string `json:"key"`

	// operator is one of In, NotIn, Exists, DoesNotExist, Gt, Lt, =, ==, != and !; case does not matter.
	// +required
	Operator string `json:"operator"`

	// values that the operator compares with.
	// +optional
	Values []string `json:"values,omitempty"`
}

// V1Beta2Status holds what v1beta2 reports and v1beta1 keeps apart.
type V1Beta2Status struct {
	// conditions in the format of v1beta2.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
