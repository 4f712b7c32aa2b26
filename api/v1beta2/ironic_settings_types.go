package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultExporterPort is the port of the Prometheus exporter of Ironic.
const DefaultExporterPort int32 = 9608

// IronicOption sets an option of ironic.conf, as an environment variable of the container. Do not put secrets here.
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

	// value of the option, as in ironic.conf.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value"`
}

// IronicProxy is the HTTP proxy of the ramdisk downloader and of Ironic, for images and BMCs. Requests to the addresses
// of the endpoint and of the node do not use the proxy. Requests of Ironic to the IPv4 networks of the endpoint and of
// the DHCP ranges do not use it either.
type IronicProxy struct {
	// httpProxy is the proxy for http URLs. Empty means no proxy.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	HTTPProxy string `json:"httpProxy,omitempty"`

	// httpsProxy is the proxy for https URLs. Empty means no proxy.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	HTTPSProxy string `json:"httpsProxy,omitempty"`

	// noProxy are names, domains, addresses and networks for which no proxy is used. List the networks of the BMCs,
	// unless the proxy routes to them. Ironic ignores IPv6 networks: list IPv6 addresses.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	NoProxy []string `json:"noProxy,omitempty"`
}

// IronicTLS has the CAs that Ironic trusts, and the TLS settings of virtual media.
type IronicTLS struct {
	// bmcCABundle are CA certificates in PEM format. Ironic verifies the certificates of BMCs with them instead of the
	// CAs of its image. A host with bmc.disableCertificateVerification is not verified.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	BMCCABundle string `json:"bmcCABundle,omitempty"`

	// trustedCABundle are CA certificates in PEM format. Ironic and the ramdisk downloader verify image servers with them
	// instead of the CAs of their images. The deploy ramdisk gets them too, but accepts any certificate unless
	// ramdisk.extraKernelParams contains ipa-insecure=0.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	TrustedCABundle string `json:"trustedCABundle,omitempty"`

	// disableVirtualMediaTLS serves virtual media over HTTP, for BMCs that do not accept the certificate. Defaults to
	// false.
	// +optional
	DisableVirtualMediaTLS *bool `json:"disableVirtualMediaTLS,omitempty"`
}

// IronicInspection configures the inspection by the deploy ramdisk.
type IronicInspection struct {
	// collectors of the deploy ramdisk. Defaults to default and logs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Pattern=`^[a-zA-Z0-9_-]+$`
	// +kubebuilder:validation:items:MaxLength=64
	Collectors []string `json:"collectors,omitempty"`

	// vlanInterfaces are the VLANs to inspect: all, an interface, or an interface and a VLAN such as eth0.100. Defaults
	// to all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Pattern=`^[a-zA-Z0-9_.-]+$`
	// +kubebuilder:validation:items:MaxLength=64
	VLANInterfaces []string `json:"vlanInterfaces,omitempty"`
}

// IronicPrometheusExporter exports the sensor data of the BMCs.
type IronicPrometheusExporter struct {
	// enabled runs the exporter beside Ironic, and makes Ironic read the sensors. Defaults to false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// bindAddress is the address that the exporter listens on, without authentication: 0.0.0.0 for all IPv4 addresses of
	// the node, :: for all addresses, or a loopback address. Defaults to 127.0.0.1.
	// +optional
	// +kubebuilder:validation:MaxLength=45
	BindAddress string `json:"bindAddress,omitempty"`

	// port of the exporter. Defaults to 9608.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// sensorCollectionInterval is the time between two reads of the sensors, at least 1m. Defaults to 160s.
	// +optional
	SensorCollectionInterval *metav1.Duration `json:"sensorCollectionInterval,omitempty"`
}

// IronicGuardMetrics configures the metrics of the guard.
type IronicGuardMetrics struct {
	// bindAddress is the address of the nodes on which the guard serves metrics and health, at port 9650 and without
	// authentication. 0.0.0.0 means all IPv4 addresses, and :: all addresses of both families. Defaults to 127.0.0.1.
	// +optional
	// +kubebuilder:validation:Enum="127.0.0.1";"0.0.0.0";"::"
	BindAddress string `json:"bindAddress,omitempty"`
}

// IronicOverrides override settings of the containers of the static pods.
type IronicOverrides struct {
	// containers to override, by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=7
	Containers []IronicContainerOverride `json:"containers,omitempty"`
}

// IronicContainerOverride overrides settings of a container.
type IronicContainerOverride struct {
	// name of the container.
	// +required
	// +kubebuilder:validation:Enum=guard;ironic;httpd;ramdisk-logs;download;exporter;dnsmasq
	Name string `json:"name"`

	// resources replace the requests of the provider, and set limits. By default there are no limits: an Ironic that is
	// killed at its memory limit loses its database.
	// +optional
	Resources IronicResources `json:"resources,omitempty,omitzero"`
}

// IronicResources are the compute resources of a container. An empty request defaults to that of the provider, or to
// the limit if the limit is lower.
type IronicResources struct {
	// requests are reserved for the container.
	// +optional
	Requests IronicResourceList `json:"requests,omitempty,omitzero"`

	// limits are the maximum for the container.
	// +optional
	Limits IronicResourceList `json:"limits,omitempty,omitzero"`
}

// IronicResourceList has a quantity for each resource.
type IronicResourceList struct {
	// cpu in cores, for example 250m.
	// +optional
	CPU Quantity `json:"cpu,omitempty"`

	// memory in bytes, for example 1Gi.
	// +optional
	Memory Quantity `json:"memory,omitempty"`
}

// IronicDHCPRange is an additional range of addresses: of a network behind a DHCP relay, or of the same network.
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

	// gatewayAddress is the IPv4 router for the hosts. Empty means no router: hosts of another network then do not
	// reach Ironic.
	// +optional
	// +kubebuilder:validation:MaxLength=45
	GatewayAddress string `json:"gatewayAddress,omitempty"`
}

// IronicRamdisk configures the deploy kernel and ramdisk.
type IronicRamdisk struct {
	// disableDownloader turns the download off, for nodes that have the files already. Defaults to false.
	// +optional
	DisableDownloader *bool `json:"disableDownloader,omitempty"`

	// baseURL is the URL from which the files are downloaded.
	// +optional
	BaseURL string `json:"baseURL,omitempty"`

	// branch of the deploy ramdisk. Defaults to master, whose files change.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][a-zA-Z0-9._/-]*$`
	// +kubebuilder:validation:MaxLength=64
	Branch string `json:"branch,omitempty"`

	// checksums of kernel and ramdisk. Files with other checksums are not used, and are downloaded again. Empty means
	// no check.
	// +optional
	Checksums *IronicRamdiskChecksums `json:"checksums,omitempty"`

	// architectures are further deploy ramdisks, for hosts of other architectures than the one above. Ironic selects the
	// ramdisk by the architecture of the host, if the Baremetal Operator names none.
	// +optional
	// +listType=map
	// +listMapKey=architecture
	// +kubebuilder:validation:MaxItems=4
	Architectures []IronicRamdiskArchitecture `json:"architectures,omitempty"`

	// extraKernelParams are appended to the kernel command line of the deploy ramdisk.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ExtraKernelParams string `json:"extraKernelParams,omitempty"`

	// sshKey is a public key in the format of authorized_keys, for login to the deploy ramdisk.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	SSHKey string `json:"sshKey,omitempty"`
}

// IronicRamdiskChecksums are checksums of the unpacked files on the node.
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

// IronicRamdiskArchitecture is a deploy ramdisk for hosts of one architecture. The branch is that of the ramdisk.
type IronicRamdiskArchitecture struct {
	// architecture of the hosts, as Ironic reports it, such as aarch64.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9_]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=16
	Architecture string `json:"architecture"`

	// flavor is a part of the name of the archive, ipa-<flavor>-<branch>.tar.gz, such as debian-arm64. It differs from
	// centos9, the flavor of the ramdisk without architecture, and from those of other architectures.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][a-zA-Z0-9.-]*$`
	// +kubebuilder:validation:MaxLength=64
	Flavor string `json:"flavor"`

	// baseURL is the URL from which the files are downloaded. Defaults to that of the ramdisk.
	// +optional
	BaseURL string `json:"baseURL,omitempty"`

	// checksums of kernel and ramdisk. Empty means no check.
	// +optional
	Checksums *IronicRamdiskChecksums `json:"checksums,omitempty"`
}
