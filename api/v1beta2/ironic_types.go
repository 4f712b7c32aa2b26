package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VRRPMode says how keepalived reaches its peers.
// +kubebuilder:validation:Enum=Unicast;Multicast
type VRRPMode string

// Values of VRRPMode. It is a property of the whole cluster: nodes of different modes do not hear one another.
const (
	// VRRPUnicast sends advertisements to the listed peers.
	VRRPUnicast VRRPMode = "Unicast"

	// VRRPMulticast sends advertisements to 224.0.0.18 and ff02::12.
	VRRPMulticast VRRPMode = "Multicast"
)

// TakeoverPolicy says when a control-plane node may hold the Ironic address.
// +kubebuilder:validation:Enum=AfterMove;Always;Manual
type TakeoverPolicy string

// Values of TakeoverPolicy.
const (
	// TakeoverAfterMove lets a node hold the address once the cluster manages itself.
	TakeoverAfterMove TakeoverPolicy = "AfterMove"

	// TakeoverAlways lets a node hold the address from its first boot.
	TakeoverAlways TakeoverPolicy = "Always"

	// TakeoverManual lets a node hold the address when a person says so on the node.
	TakeoverManual TakeoverPolicy = "Manual"
)

// StandbyMode says whether Ironic runs on nodes that do not hold the address.
// +kubebuilder:validation:Enum=Warm;Cold
type StandbyMode string

// Values of StandbyMode.
const (
	// StandbyWarm runs Ironic on every control-plane node, so that a takeover needs no start.
	StandbyWarm StandbyMode = "Warm"

	// StandbyCold runs Ironic only where the address is. It saves memory and makes a takeover slower.
	StandbyCold StandbyMode = "Cold"
)

// Defaults of the Ironic endpoint.
const (
	// DefaultIronicPort is where the Ironic API answers.
	DefaultIronicPort int32 = 6385

	// DefaultImagePort is where kernel, ramdisk and images are served over HTTP.
	DefaultImagePort int32 = 6180

	// DefaultImageTLSPort is where virtual media are served over HTTPS.
	DefaultImageTLSPort int32 = 6183

	// DefaultManifestsDirectory is where the kubelet of a kubeadm node looks for static pods.
	DefaultManifestsDirectory = "/etc/kubernetes/manifests"
)

// Ironic describes the Ironic endpoint that follows the cluster at a pivot.
type Ironic struct {
	// clusterID tells this cluster's Ironic from others: it is the prefix of the conductor names. The provider sets
	// it once, when the Metal3Cluster is first created; it travels with the spec because UIDs change at a move. It
	// does not change afterwards.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	ClusterID string `json:"clusterID,omitempty"`

	// endpoint is where Ironic answers.
	// +required
	Endpoint IronicEndpoint `json:"endpoint"`

	// vrrp tunes how the nodes agree on who holds the address.
	// +optional
	VRRP VRRP `json:"vrrp,omitempty,omitzero"`

	// takeover says when a control-plane node may hold the address. Defaults to AfterMove.
	// +optional
	Takeover TakeoverPolicy `json:"takeover,omitempty"`

	// takeoverAfterSilence lets an unarmed node take the VIP after no node has held it for so long, even though
	// the cluster was never moved. Empty means never. Only for takeover AfterMove.
	// +optional
	TakeoverAfterSilence *metav1.Duration `json:"takeoverAfterSilence,omitempty"`

	// standby says whether Ironic runs on nodes that do not hold the address. Defaults to Warm.
	// +optional
	Standby StandbyMode `json:"standby,omitempty"`

	// dhcp runs a DHCP server beside Ironic, on the holder only. Without it there is no DHCP server.
	// +optional
	DHCP *IronicDHCP `json:"dhcp,omitempty"`

	// credentialsRef is a Secret of this namespace with the keys username and password. It is generated when the
	// field is empty.
	// +optional
	CredentialsRef *corev1.LocalObjectReference `json:"credentialsRef,omitempty"`

	// tlsRef is a Secret of this namespace with the keys tls.crt, tls.key and ca.crt. It is generated when the field
	// is empty.
	// +optional
	TLSRef *corev1.LocalObjectReference `json:"tlsRef,omitempty"`

	// tls tunes the encryption of the services beside the API.
	// +optional
	TLS IronicTLS `json:"tls,omitempty,omitzero"`

	// extraConfig sets options of ironic.conf. They win over those of the image. Those that the endpoint depends on are
	// refused.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	ExtraConfig []IronicOption `json:"extraConfig,omitempty"`

	// proxy is the HTTP proxy of Ironic and of the ramdisk downloader. Empty means none.
	// +optional
	Proxy IronicProxy `json:"proxy,omitempty,omitzero"`

	// inspection tunes the inspection by the deploy ramdisk.
	// +optional
	Inspection IronicInspection `json:"inspection,omitempty,omitzero"`

	// prometheusExporter serves what the sensors of the BMCs report.
	// +optional
	PrometheusExporter IronicPrometheusExporter `json:"prometheusExporter,omitempty,omitzero"`

	// guardMetrics says where the guard serves its metrics.
	// +optional
	GuardMetrics IronicGuardMetrics `json:"guardMetrics,omitempty,omitzero"`

	// overrides change what the provider renders for the containers of the static pods.
	// +optional
	Overrides IronicOverrides `json:"overrides,omitempty,omitzero"`

	// images replace the container images of the static pods.
	// +optional
	Images IronicImages `json:"images,omitempty,omitzero"`

	// ramdisk says where the deploy kernel and ramdisk come from.
	// +optional
	Ramdisk IronicRamdisk `json:"ramdisk,omitempty,omitzero"`

	// manifestsDirectory is where the kubelet looks for static pods. Defaults to /etc/kubernetes/manifests.
	// +optional
	// +kubebuilder:validation:Pattern=`^/[^\s]*$`
	// +kubebuilder:validation:MaxLength=256
	ManifestsDirectory string `json:"manifestsDirectory,omitempty"`

	// kubelet says where the kubelet keeps its credentials, which the guard reads the annotations of its Node with. Only
	// for takeover AfterMove. Leave it out where kubeadm makes the nodes: the guard then uses
	// /etc/kubernetes/kubelet.conf and the directory /var/lib/kubelet/pki. Other distributions need it together with
	// manifestsDirectory.
	// +optional
	Kubelet *IronicKubelet `json:"kubelet,omitempty"`
}

// IronicKubelet says where the kubelet of a control-plane node keeps its credentials. The guard finds everything at the
// same paths as the kubelet. Its pod does not start before all of it exists.
type IronicKubelet struct {
	// kubeconfig is the file that the kubelet finds its API server and its credentials with. RKE2 has it at
	// /var/lib/rancher/rke2/agent/kubelet.kubeconfig and k3s at /var/lib/rancher/k3s/agent/kubelet.kubeconfig.
	// +required
	// +kubebuilder:validation:Pattern=`^/[^\s]*$`
	// +kubebuilder:validation:MaxLength=256
	Kubeconfig string `json:"kubeconfig"`

	// credentialFiles are the client certificate, its key and the authority that the kubeconfig refers to, as far as
	// they are files that are written in place. RKE2 and k3s have client-kubelet.crt, client-kubelet.key and
	// server-ca.crt beside the kubeconfig. What the kubeconfig holds itself is not listed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:Pattern=`^/[^\s]*$`
	// +kubebuilder:validation:items:MaxLength=256
	CredentialFiles []string `json:"credentialFiles,omitempty"`

	// credentialDirectories hold such files where they are links, or are replaced by new files instead of written in
	// place, as in /var/lib/kubelet/pki of kubeadm. The guard can read all that is in them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:Pattern=`^/[^\s]*$`
	// +kubebuilder:validation:items:MaxLength=256
	CredentialDirectories []string `json:"credentialDirectories,omitempty"`
}

// IronicEndpoint is where Ironic answers.
// +kubebuilder:validation:XValidation:rule="self.cidrs.size() <= self.virtualIPs.size()",message="cidrs has more entries than virtualIPs: give one per address, in the same order"
type IronicEndpoint struct {
	// virtualIPs are the addresses, at most one of each family. The first one is used in URLs.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	VirtualIPs []string `json:"virtualIPs"`

	// cidrs are the networks of the addresses, in the same order. Each must contain its address.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	CIDRs []string `json:"cidrs"`

	// interface is the network interface or bridge of the control-plane nodes that carries the addresses.
	// +required
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9._-]+$`
	Interface string `json:"interface"`

	// port of the Ironic API. Defaults to 6385.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// imagePort serves kernel, ramdisk and images over HTTP. Defaults to 6180.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	ImagePort int32 `json:"imagePort,omitempty"`

	// imageTLSPort serves virtual media over HTTPS. Defaults to 6183.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	ImageTLSPort int32 `json:"imageTLSPort,omitempty"`

	// externalIP is the address that hosts and BMCs reach Ironic on, where that is not a virtual address: one of a NAT or
	// of a load balancer. It is part of the URLs that they get.
	// +optional
	// +kubebuilder:validation:MaxLength=45
	ExternalIP string `json:"externalIP,omitempty"`

	// externalCallbackURL is where the deploy ramdisk that is booted by virtual media reaches the Ironic API. Together
	// with imageServerExternalURL it takes the place of externalIP.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ExternalCallbackURL string `json:"externalCallbackURL,omitempty"`

	// imageServerExternalURL is where BMCs download virtual media.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ImageServerExternalURL string `json:"imageServerExternalURL,omitempty"`
}

// VRRP tunes how the nodes agree on who holds the address.
type VRRP struct {
	// virtualRouterID tells VRRP groups on one network apart. When it is empty, the provider chooses and stores one
	// that no other Metal3Cluster on the network has. 1 and 2 are refused because the control-plane address of many
	// Metal3 clusters uses them.
	// +optional
	// +kubebuilder:validation:Minimum=3
	// +kubebuilder:validation:Maximum=255
	VirtualRouterID int32 `json:"virtualRouterID,omitempty"`

	// mode of the advertisements. Defaults to Unicast when peers are given and to Multicast otherwise.
	// +optional
	Mode VRRPMode `json:"mode,omitempty"`

	// peers are the addresses of all nodes that may hold the address, now or later. Needed for mode Unicast.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Peers []string `json:"peers,omitempty"`

	// advertisementInterval is the time between advertisements. Between 10ms and 40s, in steps of 10ms. Default: 300ms.
	// A dead holder is replaced within 4s, or after three to four intervals where they are longer. With the default, a
	// holder that is silent for less than 3s keeps the address and the database of its Ironic.
	// +optional
	AdvertisementInterval *metav1.Duration `json:"advertisementInterval,omitempty"`
}

// IronicDHCP describes the DHCP server that runs on the holder of the address.
type IronicDHCP struct {
	// rangeBegin is the first address that is handed out.
	// +required
	RangeBegin string `json:"rangeBegin"`

	// rangeEnd is the last address that is handed out.
	// +required
	RangeEnd string `json:"rangeEnd"`

	// gateway that is handed out. Empty hands out none.
	// +optional
	Gateway string `json:"gateway,omitempty"`

	// dns servers that are handed out. Empty hands out none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	DNS []string `json:"dns,omitempty"`

	// leaseTime of an address. Defaults to 15m.
	// +optional
	LeaseTime *metav1.Duration `json:"leaseTime,omitempty"`

	// hosts reserve addresses, each in the form of dnsmasq's dhcp-host, like 52:54:00:00:00:01,172.22.0.21.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=256
	Hosts []string `json:"hosts,omitempty"`

	// ignore are sets of tags in the form of dnsmasq's dhcp-ignore: who has all tags of a set gets no answer. tag:!known
	// leaves everybody out whom hosts does not name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=256
	Ignore []string `json:"ignore,omitempty"`

	// extraRanges are ranges beside the first one: of networks that a DHCP relay passes on, or of the same network.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	ExtraRanges []IronicDHCPRange `json:"extraRanges,omitempty"`
}

// IronicImages are the container images of the static pods. An empty one means the default of the release.
type IronicImages struct {
	// keepalived holds the guard and keepalived.
	// +optional
	Keepalived string `json:"keepalived,omitempty"`

	// ironic holds Ironic, httpd and dnsmasq.
	// +optional
	Ironic string `json:"ironic,omitempty"`

	// ramdiskDownloader fetches the deploy kernel and ramdisk.
	// +optional
	RamdiskDownloader string `json:"ramdiskDownloader,omitempty"`

	// pullPolicy of all images. Defaults to IfNotPresent.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	PullPolicy corev1.PullPolicy `json:"pullPolicy,omitempty"`
}

// IronicRamdisk says where the deploy kernel and ramdisk come from.
type IronicRamdisk struct {
	// disableDownloader says that the files are on the node already.
	// +optional
	DisableDownloader *bool `json:"disableDownloader,omitempty"`

	// baseURL is where the downloader fetches the files from.
	// +optional
	BaseURL string `json:"baseURL,omitempty"`

	// branch of the deploy ramdisk that the downloader fetches. Defaults to master, which moves.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][a-zA-Z0-9._/-]*$`
	// +kubebuilder:validation:MaxLength=64
	Branch string `json:"branch,omitempty"`

	// checksums are what kernel and ramdisk must have. Files with others are not used, and are downloaded again. Empty
	// checks nothing.
	// +optional
	Checksums *IronicRamdiskChecksums `json:"checksums,omitempty"`

	// extraKernelParams are added to the kernel command line of the deploy ramdisk.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ExtraKernelParams string `json:"extraKernelParams,omitempty"`

	// sshKey is a public key that may log in to the deploy ramdisk, in the form of authorized_keys.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	SSHKey string `json:"sshKey,omitempty"`
}
