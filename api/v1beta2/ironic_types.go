package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VRRPMode is how keepalived sends its advertisements.
// +kubebuilder:validation:Enum=Unicast;Multicast
type VRRPMode string

// Values of VRRPMode. All nodes of a cluster must have the same mode: nodes with different modes do not receive the
// advertisements of each other.
const (
	// VRRPUnicast sends advertisements to the listed peers.
	VRRPUnicast VRRPMode = "Unicast"

	// VRRPMulticast sends advertisements to 224.0.0.18 and ff02::12.
	VRRPMulticast VRRPMode = "Multicast"
)

// TakeoverPolicy decides when a control-plane node may hold the VIP.
// +kubebuilder:validation:Enum=AfterMove;Always;Manual
type TakeoverPolicy string

// Values of TakeoverPolicy.
const (
	// TakeoverAfterMove permits a node to hold the VIP once the cluster manages itself.
	TakeoverAfterMove TakeoverPolicy = "AfterMove"

	// TakeoverAlways permits a node to hold the VIP from its first boot.
	TakeoverAlways TakeoverPolicy = "Always"

	// TakeoverManual permits a node to hold the VIP after an administrator has armed the node.
	TakeoverManual TakeoverPolicy = "Manual"
)

// StandbyMode decides whether Ironic runs on nodes that do not hold the VIP.
// +kubebuilder:validation:Enum=Warm;Cold
type StandbyMode string

// Values of StandbyMode.
const (
	// StandbyWarm runs Ironic on every control-plane node, so that Ironic runs before a takeover.
	StandbyWarm StandbyMode = "Warm"

	// StandbyCold runs Ironic only on the VIP holder. It saves memory, and makes a takeover slower.
	StandbyCold StandbyMode = "Cold"
)

// Defaults of the Ironic endpoint.
const (
	// DefaultIronicPort is the port of the Ironic API.
	DefaultIronicPort int32 = 6385

	// DefaultImagePort is the HTTP port for kernel, ramdisk and images.
	DefaultImagePort int32 = 6180

	// DefaultImageTLSPort is the HTTPS port for virtual media.
	DefaultImageTLSPort int32 = 6183

	// DefaultManifestsDirectory is the folder of static pods on a kubeadm node.
	DefaultManifestsDirectory = "/etc/kubernetes/manifests"
)

// Ironic configures the Ironic endpoint of a cluster, which the control plane takes over at a pivot.
type Ironic struct {
	// clusterID is the prefix of the conductor names, which identifies the Ironic of this cluster. The provider sets it
	// when the Metal3Cluster is created. Immutable. A move keeps it, unlike a UID.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	ClusterID string `json:"clusterID,omitempty"`

	// endpoint is the network endpoint of Ironic.
	// +required
	Endpoint IronicEndpoint `json:"endpoint"`

	// vrrp configures the election of the VIP holder.
	// +optional
	VRRP VRRP `json:"vrrp,omitempty,omitzero"`

	// takeover decides when a control-plane node may hold the VIP. Defaults to AfterMove.
	// +optional
	Takeover TakeoverPolicy `json:"takeover,omitempty"`

	// takeoverAfterSilence permits an unarmed node to take the VIP when no node has held the VIP for this time, although
	// the cluster was not moved. Empty means never. Only for takeover AfterMove.
	// +optional
	TakeoverAfterSilence *metav1.Duration `json:"takeoverAfterSilence,omitempty"`

	// standby decides whether Ironic runs on nodes that do not hold the VIP. Defaults to Warm.
	// +optional
	Standby StandbyMode `json:"standby,omitempty"`

	// dhcp runs a DHCP server beside Ironic on the VIP holder. Empty means no DHCP server.
	// +optional
	DHCP *IronicDHCP `json:"dhcp,omitempty"`

	// credentialsRef is a Secret in this namespace with the keys username and password. If empty, the provider
	// generates the Secret.
	// +optional
	CredentialsRef *corev1.LocalObjectReference `json:"credentialsRef,omitempty"`

	// tlsRef is a Secret in this namespace with the keys tls.crt, tls.key and ca.crt. If empty, the provider generates
	// the Secret.
	// +optional
	TLSRef *corev1.LocalObjectReference `json:"tlsRef,omitempty"`

	// tls has the CAs that Ironic trusts, and the TLS settings of virtual media.
	// +optional
	TLS IronicTLS `json:"tls,omitempty,omitzero"`

	// extraConfig sets options of ironic.conf, and overrides those of the image. The webhook refuses options that the
	// endpoint depends on.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	ExtraConfig []IronicOption `json:"extraConfig,omitempty"`

	// proxy is the HTTP proxy of Ironic and of the ramdisk downloader. Empty means none.
	// +optional
	Proxy IronicProxy `json:"proxy,omitempty,omitzero"`

	// inspection configures the inspection by the deploy ramdisk.
	// +optional
	Inspection IronicInspection `json:"inspection,omitempty,omitzero"`

	// prometheusExporter exports the sensor data of the BMCs.
	// +optional
	PrometheusExporter IronicPrometheusExporter `json:"prometheusExporter,omitempty,omitzero"`

	// guardMetrics configures the metrics of the guard.
	// +optional
	GuardMetrics IronicGuardMetrics `json:"guardMetrics,omitempty,omitzero"`

	// overrides override settings of the containers of the static pods.
	// +optional
	Overrides IronicOverrides `json:"overrides,omitempty,omitzero"`

	// images replace the container images of the static pods.
	// +optional
	Images IronicImages `json:"images,omitempty,omitzero"`

	// ramdisk configures the deploy kernel and ramdisk.
	// +optional
	Ramdisk IronicRamdisk `json:"ramdisk,omitempty,omitzero"`

	// manifestsDirectory is the folder of static pods on the nodes. Defaults to /etc/kubernetes/manifests.
	// +optional
	// +kubebuilder:validation:Pattern=`^/[^\s]*$`
	// +kubebuilder:validation:MaxLength=256
	ManifestsDirectory string `json:"manifestsDirectory,omitempty"`

	// kubelet has the paths of the credentials of the kubelet. The guard reads the annotations of its Node with these
	// credentials. Only for takeover AfterMove. Defaults to the paths of kubeadm: /etc/kubernetes/kubelet.conf and the
	// directory /var/lib/kubelet/pki. Other distributions require it together with manifestsDirectory.
	// +optional
	Kubelet *IronicKubelet `json:"kubelet,omitempty"`
}

// IronicKubelet has the paths of the credentials of the kubelet on a control-plane node. They are mounted into the
// guard at the same paths. The pod of the guard does not start before all of them exist.
type IronicKubelet struct {
	// kubeconfig of the kubelet. RKE2 has /var/lib/rancher/rke2/agent/kubelet.kubeconfig, and k3s has
	// /var/lib/rancher/k3s/agent/kubelet.kubeconfig.
	// +required
	// +kubebuilder:validation:Pattern=`^/[^\s]*$`
	// +kubebuilder:validation:MaxLength=256
	Kubeconfig string `json:"kubeconfig"`

	// credentialFiles are the client certificate, the key and the CA that the kubeconfig refers to by path, if they are
	// regular files that are written in place. RKE2 and k3s have client-kubelet.crt, client-kubelet.key and
	// server-ca.crt beside the kubeconfig. Do not list data that is inside the kubeconfig.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:Pattern=`^/[^\s]*$`
	// +kubebuilder:validation:items:MaxLength=256
	CredentialFiles []string `json:"credentialFiles,omitempty"`

	// credentialDirectories contain such files if they are symbolic links or are replaced by new files, as in
	// /var/lib/kubelet/pki of kubeadm. The guard can read all files in these directories.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:Pattern=`^/[^\s]*$`
	// +kubebuilder:validation:items:MaxLength=256
	CredentialDirectories []string `json:"credentialDirectories,omitempty"`
}

// IronicEndpoint is the network endpoint of Ironic.
// +kubebuilder:validation:XValidation:rule="self.cidrs.size() <= self.virtualIPs.size()",message="cidrs has more entries than virtualIPs: give one per address, in the same order"
// +kubebuilder:validation:XValidation:rule="[has(self.interface), has(self.macAddresses), has(self.interfaceCIDR)].filter(is, is).size() <= 1",message="set at most one of interface, macAddresses and interfaceCIDR"
type IronicEndpoint struct {
	// virtualIPs are the VIPs, at most one of each address family. URLs contain the first one.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	VirtualIPs []string `json:"virtualIPs"`

	// cidrs are the networks of the VIPs, in the same order. Each must contain its VIP. Own IPv4 addresses of the
	// nodes in a network must have its prefix length. Otherwise new connections of the VIP holder come from the VIP.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	CIDRs []string `json:"cidrs"`

	// interface is the network interface or bridge of the control-plane nodes to which the VIPs are added. Exactly one
	// of interface, macAddresses and interfaceCIDR is set.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9._-]+$`
	Interface string `json:"interface,omitempty"`

	// macAddresses let each node choose the interface that has one of these MAC addresses, or whose port has one: the
	// bridge or the bond. List the MAC addresses of all control-plane nodes. The interface must be up and have an
	// address of its own of the IP family of a VIP.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$`
	MACAddresses []string `json:"macAddresses,omitempty"`

	// interfaceCIDR lets each node choose the interface that has an address of its own in this network. VIPs do not
	// count. The interface must be up.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=43
	InterfaceCIDR string `json:"interfaceCIDR,omitempty"`

	// port of the Ironic API. Defaults to 6385.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// imagePort is the HTTP port for kernel, ramdisk and images. Defaults to 6180.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	ImagePort int32 `json:"imagePort,omitempty"`

	// imageTLSPort is the HTTPS port for virtual media. Defaults to 6183.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	ImageTLSPort int32 `json:"imageTLSPort,omitempty"`

	// externalIP is the address at which BMCs, and hosts that boot by virtual media, reach Ironic, if that is not a VIP:
	// the address of a NAT or of a load balancer. Ironic puts it into their URLs. Hosts that boot over the network use the
	// VIP.
	// +optional
	// +kubebuilder:validation:MaxLength=45
	ExternalIP string `json:"externalIP,omitempty"`

	// externalCallbackURL is the URL of the Ironic API for a deploy ramdisk that was booted by virtual media. Together
	// with imageServerExternalURL it replaces externalIP.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ExternalCallbackURL string `json:"externalCallbackURL,omitempty"`

	// imageServerExternalURL is the URL from which BMCs download virtual media.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ImageServerExternalURL string `json:"imageServerExternalURL,omitempty"`
}

// VRRP configures the election of the VIP holder.
type VRRP struct {
	// virtualRouterID identifies the VRRP group on its network. If empty, the provider chooses and stores an ID that no
	// other Metal3Cluster on the network has. 1 and 2 are refused because the control-plane address of many Metal3
	// clusters uses them.
	// +optional
	// +kubebuilder:validation:Minimum=3
	// +kubebuilder:validation:Maximum=255
	VirtualRouterID int32 `json:"virtualRouterID,omitempty"`

	// mode of the advertisements. Defaults to Unicast if peers is set, and to Multicast otherwise.
	// +optional
	Mode VRRPMode `json:"mode,omitempty"`

	// peers are the addresses of all nodes that may hold the VIP, now or later. Required for mode Unicast.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Peers []string `json:"peers,omitempty"`

	// advertisementInterval is the time between advertisements, between 10ms and 40s in steps of 10ms. Defaults to
	// 300ms. Another node takes the VIP within 4s after the VIP holder has died, or after three to four intervals if
	// that is longer. With the default, a VIP holder that is silent for less than 3s keeps the VIP and the database of
	// its Ironic.
	// +optional
	AdvertisementInterval *metav1.Duration `json:"advertisementInterval,omitempty"`
}

// IronicDHCP configures the DHCP server on the VIP holder. It does not serve the control-plane nodes after all of them
// were off: a node holds the VIP only with an address of its own.
type IronicDHCP struct {
	// rangeBegin is the first address of the range.
	// +required
	RangeBegin string `json:"rangeBegin"`

	// rangeEnd is the last address of the range.
	// +required
	RangeEnd string `json:"rangeEnd"`

	// gateway for the hosts. Empty means no gateway. With IPv6, routers announce themselves.
	// +optional
	Gateway string `json:"gateway,omitempty"`

	// dns servers for the hosts, with addresses of the family of the range. Empty means no DNS server.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	DNS []string `json:"dns,omitempty"`

	// leaseTime of the addresses. Defaults to 15m.
	// +optional
	LeaseTime *metav1.Duration `json:"leaseTime,omitempty"`

	// hosts are reservations, each in the format of dnsmasq's dhcp-host, for example 52:54:00:00:00:01,172.22.0.21.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=256
	Hosts []string `json:"hosts,omitempty"`

	// ignore are sets of tags in the format of dnsmasq's dhcp-ignore. A client that has all tags of a set gets no
	// answer. tag:!known ignores all clients that are not in hosts.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=256
	Ignore []string `json:"ignore,omitempty"`

	// extraRanges are additional ranges: of networks behind a DHCP relay, or of the same network.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	ExtraRanges []IronicDHCPRange `json:"extraRanges,omitempty"`
}

// IronicImages are the container images of the static pods. An empty image defaults to that of the release.
type IronicImages struct {
	// keepalived is the image of the guard and keepalived.
	// +optional
	Keepalived string `json:"keepalived,omitempty"`

	// ironic is the image of Ironic, httpd and dnsmasq.
	// +optional
	Ironic string `json:"ironic,omitempty"`

	// ramdiskDownloader is the image that downloads the deploy kernel and ramdisk.
	// +optional
	RamdiskDownloader string `json:"ramdiskDownloader,omitempty"`

	// pullPolicy of all images. Defaults to IfNotPresent.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	PullPolicy corev1.PullPolicy `json:"pullPolicy,omitempty"`
}
