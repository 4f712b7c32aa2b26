package ironic

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Images of a release. ironic-image has tags with versions. The downloader has moving tags only, so a cluster that must
// pin it sets its own image.
const (
	DefaultImage           = "quay.io/metal3-io/ironic:v38.0.0"
	DefaultDownloaderImage = "quay.io/metal3-io/ironic-ipa-downloader:latest"
)

// Directories of a node.
const (
	// NodeDirectory contains configuration, credentials and certificates. Only root may enter it.
	NodeDirectory = "/etc/kubernetes/metal3-ironic"

	// StateDirectory contains the state that the pods of a node share. It is empty after a reboot.
	StateDirectory = "/run/metal3-ironic"

	// HandoverDirectory has a file for each key of HandoverConfigMap, in the Deployment.
	HandoverDirectory = StateDirectory + "/handed-over"

	// DataDirectory contains the folders of Ironic and of the guard on the disk. Only root may enter it, because the
	// socket of Ironic below it requires no password.
	DataDirectory = "/var/lib/metal3-ironic"

	// SharedDirectory is the folder of Ironic and httpd. Deploy kernel and ramdisk are in html/images below it. Without
	// the downloader, the node image contains them there.
	SharedDirectory = DataDirectory + "/shared"

	// FirmwareFolder below SharedDirectory contains boot loaders that replace all of those in the image. The image defines
	// the name.
	FirmwareFolder = "custom_ipxe_firmware"

	// CacheDirectory contains the last answers of the API server for the guard. Ironic cannot write it.
	CacheDirectory = DataDirectory + "/guard"
)

// Files below NodeDirectory.
const (
	SettingsFile    = "guard.json"
	DHCPFile        = "dnsmasq.conf"
	HtpasswdFile    = "auth/htpasswd" //nolint:gosec // The path of a file, not a password.
	CertificateFile = "tls/tls.crt"
	KeyFile         = "tls/tls.key"
	AuthorityFile   = "tls/ca.crt"

	// BMCAuthoritiesFile and TrustedAuthoritiesFile exist only if Settings enables them.
	BMCAuthoritiesFile     = "tls/bmc-ca.crt"
	TrustedAuthoritiesFile = "tls/trusted-ca.crt"
)

// SocketFile below SharedDirectory is the socket of Ironic behind its web server. The image defines the name.
const SocketFile = "ironic.sock"

// Deploy kernel and ramdisk, with the names of the downloader.
const (
	KernelFile  = "ironic-python-agent.kernel"
	RamdiskFile = "ironic-python-agent.initramfs"

	// imagesFolder is where the downloader stores them, in the containers.
	imagesFolder = "/shared/html/images/"

	// agentFiles is the beginning of their names, and of the file with the ETag of a download.
	agentFiles = "ironic-python-agent"

	// downloaderFolders matches the folders of unpacked archives of the downloader.
	downloaderFolders = "*.tar.gz-*"

	// downloadContainer is the name of the container that downloads them, and the beginning of the names of those that
	// download the files for other architectures.
	downloadContainer = "download"

	// downloaderProgram is the program in the image of the downloader.
	downloaderProgram = "/usr/local/bin/get-resource.sh"
)

// Names of pods, and their labels and annotations.
const (
	Namespace  = "kube-system"
	VIPPod     = "metal3-vip"
	IronicPod  = "metal3-ironic"
	DNSMasqPod = "metal3-dnsmasq"

	// ArmedAnnotation with ArmedValue on a Node permits the node to hold the VIP.
	ArmedAnnotation = "ironic.infrastructure.cluster.x-k8s.io/armed"
	ArmedValue      = "true"

	// ArmedByAnnotation is set with ArmedAnnotation if this provider, and not a user, armed the node.
	ArmedByAnnotation = "ironic.infrastructure.cluster.x-k8s.io/armed-by"
	ArmedByProvider   = "provider"

	// ComponentLabel has the name of the pod without its prefix. ClusterLabel has the clusterID.
	ComponentLabel = "ironic.infrastructure.cluster.x-k8s.io/component"
	ClusterLabel   = "ironic.infrastructure.cluster.x-k8s.io/cluster"

	// HashAnnotation changes with the configuration of the pods.
	HashAnnotation = "ironic.infrastructure.cluster.x-k8s.io/config-hash"
)

// HandoverConfigMap is an optional ConfigMap in the namespace of the Deployment. Each key is the clusterID of a cluster
// that was handed over to its control plane. Values have no meaning. A management side whose clusterID is a key keeps
// the VIP while it holds it, and does not reclaim it.
const HandoverConfigMap = "ironic-handover"

// GuardPort is the port on which the guard serves /livez, /readyz and /metrics.
const GuardPort = 9650

// Config is the configuration of Ironic of one cluster. It is the same for all nodes of a side.
type Config struct {
	// ClusterID is the prefix of the names of the conductors.
	ClusterID string

	// VirtualIPs are the VIPs of Ironic. URLs have the first one.
	VirtualIPs []netip.Addr

	// Interface of the nodes for the VIPs. Empty means that the guard of each node chooses it, and writes its name into
	// interfaceFile.
	Interface string

	// Ports of the services.
	Ports Ports

	// Cold starts Ironic only on the VIP holder.
	Cold bool

	// Kubelet has the credentials with which the guard reads its Node. Nil means that the guard does not read it.
	Kubelet *Kubelet

	// DHCP configures a DHCP server on the VIP holder. Nil means none.
	DHCP *DHCP

	// Images of the containers.
	Images Images

	// Ramdisk has the sources and the boot parameters of deploy kernel and ramdisk.
	Ramdisk Ramdisk

	// Settings are further settings of operators.
	Settings Settings

	// Hash of the configuration, for HashAnnotation.
	Hash string
}

// Ports are the ports of Ironic.
type Ports struct {
	API, Image, ImageTLS int32
}

// Images are references of container images.
type Images struct {
	// Guard is the image of guard and keepalived. It has no default, because it depends on the release of the provider.
	Guard string

	// Ironic is the image of Ironic, httpd and dnsmasq. Empty means DefaultImage.
	Ironic string

	// Downloader is the image of the downloader. Empty means DefaultDownloaderImage.
	Downloader string

	// PullPolicy of all images. Empty means IfNotPresent.
	PullPolicy corev1.PullPolicy
}

// Ramdisk has the sources and the boot parameters of deploy kernel and ramdisk.
type Ramdisk struct {
	// Present says that the node image contains the files.
	Present bool

	// Source of the files for the hosts of the default architecture.
	Source RamdiskSource

	// Branch of the ramdisk. Empty means the default of the downloader.
	Branch string

	// Others are ramdisks for hosts of further architectures.
	Others []OtherRamdisk

	// KernelParameters are added to the kernel command line of the ramdisk.
	KernelParameters string

	// SSHKey is a public key for logins to the ramdisk.
	SSHKey string
}

// RamdiskSource says where the downloader gets a deploy kernel and its ramdisk.
type RamdiskSource struct {
	// BaseURL of the downloads. Empty means the default of the downloader.
	BaseURL string

	// KernelChecksum and RamdiskChecksum are the SHA-256 of the files, in hexadecimal. Empty means no check.
	KernelChecksum, RamdiskChecksum string
}

// OtherRamdisk is the deploy ramdisk for hosts of one architecture. Ironic finds its files by the architecture in their
// names.
type OtherRamdisk struct {
	// Architecture of the hosts, as Ironic reports it.
	Architecture string

	// Flavor of the archive. It must be unique: it names the folder of the unpacked archive.
	Flavor string

	// Source of the files. An empty URL means that of the default architecture.
	Source RamdiskSource
}

// DHCP is the configuration of the DHCP server. All addresses are of one family.
type DHCP struct {
	// Range is the first range. Its network contains the VIP.
	Range

	// DNS servers for clients.
	DNS []netip.Addr

	// LeaseTime of an address. Zero means DefaultLeaseTime.
	LeaseTime time.Duration

	// Hosts are values of dhcp-host, and Ignore values of dhcp-ignore.
	Hosts, Ignore []string

	// Extra are further ranges.
	Extra []Range
}

// Range is a range of the DHCP server.
type Range struct {
	// Begin and End are the first and the last address of the range.
	Begin, End netip.Addr

	// Network contains the range.
	Network netip.Prefix

	// Gateway for clients. The zero value means none.
	Gateway netip.Addr
}

// DefaultLeaseTime of an address: longer than the boot of a deploy, and short enough for changes.
const DefaultLeaseTime = 15 * time.Minute

func (c Config) withDefaults() Config {
	if c.Images.Ironic == "" {
		c.Images.Ironic = DefaultImage
	}
	if c.Images.Downloader == "" {
		c.Images.Downloader = DefaultDownloaderImage
	}
	if c.Images.PullPolicy == "" {
		c.Images.PullPolicy = corev1.PullIfNotPresent
	}
	return c
}

func (c Config) check() error {
	switch {
	case c.ClusterID == "":
		return errors.New("clusterID is empty; conductors of all clusters would have the same name")
	case len(c.VirtualIPs) == 0:
		return errors.New("there is no VIP; Ironic would choose an address of the node")
	case c.Images.Guard == "":
		return errors.New("image of the guard is empty; set the image of this release")
	case c.Ports.API < 1 || c.Ports.Image < 1 || c.Ports.ImageTLS < 1:
		return fmt.Errorf("ports are %+v; all three are required", c.Ports)
	}
	if err := c.Kubelet.check(); err != nil || c.DHCP == nil {
		return err
	}
	return c.checkDHCP()
}

// addressFlags returns the flags of the guard for the VIPs and their interface.
func (c Config) addressFlags() []string {
	addresses := make([]string, len(c.VirtualIPs))
	for i, address := range c.VirtualIPs {
		addresses[i] = address.String()
	}
	device := "--interface=" + c.Interface
	if c.Interface == "" {
		device = "--interface-file=" + interfaceFile
	}
	return []string{device, "--addresses=" + strings.Join(addresses, ",")}
}

// onNode returns the path of a file below NodeDirectory.
func onNode(file string) string {
	return NodeDirectory + "/" + strings.TrimPrefix(file, "/")
}
