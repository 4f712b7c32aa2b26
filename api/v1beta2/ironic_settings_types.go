package v1beta2

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultExporterPort is where the Prometheus exporter of Ironic answers.
const DefaultExporterPort int32 = 9608

// IronicOption sets an option of ironic.conf. It is an environment variable of the container: do not put secrets here.
type IronicOption struct {
	// group is the section of ironic.conf. Defaults to DEFAULT.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-zA-Z][a-zA-Z0-9_]*$`
	// +kubebuilder:validation:MaxLength=64
	Group string `json:"group,omitempty"`

	// name of the option.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-zA-Z][a-zA-Z0-9_]*$`
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`

	// value of the option, in the form that ironic.conf has it.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value"`
}

// IronicProxy is the HTTP proxy of Ironic, which downloads images and reaches BMCs, and of the ramdisk downloader. The
// addresses and networks of the endpoint and those of the node itself never go through it.
type IronicProxy struct {
	// httpProxy is for URLs with http. Empty means no proxy.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	HTTPProxy string `json:"httpProxy,omitempty"`

	// httpsProxy is for URLs with https. Empty means no proxy.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	HTTPSProxy string `json:"httpsProxy,omitempty"`

	// noProxy are names, domains, addresses and networks that are reached without the proxy. List the networks of the
	// BMCs unless the proxy is the way to them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	NoProxy []string `json:"noProxy,omitempty"`
}

// IronicTLS tunes the encryption of the services beside the API, and says which servers Ironic trusts.
type IronicTLS struct {
	// bmcCABundle are certificates of CAs in PEM format. Ironic verifies the certificates of BMCs with them instead of the
	// CAs of its image. A host with bmc.disableCertificateVerification is not verified.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	BMCCABundle string `json:"bmcCABundle,omitempty"`

	// trustedCABundle are certificates of CAs in PEM format. Ironic, the deploy ramdisk and the ramdisk downloader verify
	// image servers with them instead of the CAs of their images.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	TrustedCABundle string `json:"trustedCABundle,omitempty"`

	// disableVirtualMediaTLS serves virtual media over HTTP, for BMCs that do not accept the certificate. Default: false.
	// +optional
	DisableVirtualMediaTLS *bool `json:"disableVirtualMediaTLS,omitempty"`
}

// IronicInspection tunes the inspection by the deploy ramdisk.
type IronicInspection struct {
	// collectors of the deploy ramdisk. Defaults to default and logs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Pattern=`^[a-zA-Z0-9_-]+$`
	// +kubebuilder:validation:items:MaxLength=64
	Collectors []string `json:"collectors,omitempty"`

	// vlanInterfaces are the VLANs that the inspection looks at: all, an interface, or an interface and a VLAN like
	// eth0.100. Defaults to all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Pattern=`^[a-zA-Z0-9_.-]+$`
	// +kubebuilder:validation:items:MaxLength=64
	VLANInterfaces []string `json:"vlanInterfaces,omitempty"`
}

// IronicPrometheusExporter serves what the sensors of the BMCs report.
type IronicPrometheusExporter struct {
	// enabled runs the exporter beside Ironic, and has Ironic read the sensors. Default: false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// bindAddress is the address of the nodes that the exporter listens on. It asks for no credentials. Defaults to
	// 127.0.0.1; 0.0.0.0 and :: mean all.
	// +optional
	// +kubebuilder:validation:MaxLength=45
	BindAddress string `json:"bindAddress,omitempty"`

	// port of the exporter. Defaults to 9608.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// sensorCollectionInterval is the time between two reads of the sensors, at least 1m. Default: 160s.
	// +optional
	SensorCollectionInterval *metav1.Duration `json:"sensorCollectionInterval,omitempty"`
}

// IronicGuardMetrics says where the guard of a node serves its metrics.
type IronicGuardMetrics struct {
	// bindAddress is the address of the nodes that the guard serves metrics and health on, at port 9650. It asks for no
	// credentials. Defaults to 127.0.0.1; 0.0.0.0 means all addresses of IPv4, and :: all addresses of both families.
	// +optional
	// +kubebuilder:validation:Enum="127.0.0.1";"0.0.0.0";"::"
	BindAddress string `json:"bindAddress,omitempty"`
}

// IronicOverrides change what the provider renders for the containers of the static pods.
type IronicOverrides struct {
	// containers to change, by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=7
	Containers []IronicContainerOverride `json:"containers,omitempty"`
}

// IronicContainerOverride changes a container.
type IronicContainerOverride struct {
	// name of the container.
	// +required
	// +kubebuilder:validation:Enum=guard;ironic;httpd;ramdisk-logs;download;exporter;dnsmasq
	Name string `json:"name"`

	// resources replace the requests of the provider, and set limits. The provider sets none: out of memory, Ironic is
	// killed with its database.
	// +optional
	Resources IronicResources `json:"resources,omitempty,omitzero"`
}

// IronicResources are the compute resources of a container. An empty request means that of the provider, or the limit
// where that is lower.
type IronicResources struct {
	// requests are reserved for the container.
	// +optional
	Requests IronicResourceList `json:"requests,omitempty,omitzero"`

	// limits are the most that the container gets.
	// +optional
	Limits IronicResourceList `json:"limits,omitempty,omitzero"`
}

// IronicResourceList has an amount for each resource.
type IronicResourceList struct {
	// cpu in processors, like 250m.
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// memory in bytes, like 1Gi.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// IronicDHCPRange is a range of addresses for a network behind a DHCP relay, or a further one of the same network.
type IronicDHCPRange struct {
	// networkCIDR is the network of the range, of the same family as the first range.
	// +required
	// +kubebuilder:validation:MaxLength=43
	NetworkCIDR string `json:"networkCIDR"`

	// rangeBegin is the first address that is handed out.
	// +required
	// +kubebuilder:validation:MaxLength=45
	RangeBegin string `json:"rangeBegin"`

	// rangeEnd is the last address that is handed out.
	// +required
	// +kubebuilder:validation:MaxLength=45
	RangeEnd string `json:"rangeEnd"`

	// gatewayAddress is the router that is handed out, of IPv4 only. Empty hands out none, and then hosts of another
	// network do not reach Ironic.
	// +optional
	// +kubebuilder:validation:MaxLength=45
	GatewayAddress string `json:"gatewayAddress,omitempty"`
}

// IronicRamdiskChecksums are those of the files that the download leaves on the node.
type IronicRamdiskChecksums struct {
	// kernel is the SHA-256 of the deploy kernel, in hexadecimal.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F]{64}$`
	Kernel string `json:"kernel"`

	// initramfs is the SHA-256 of the deploy ramdisk, in hexadecimal.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F]{64}$`
	Initramfs string `json:"initramfs"`
}
