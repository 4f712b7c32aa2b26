package ironic

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Images of a release. Upstream tags Ironic with versions. It publishes its downloader under moving tags only, so that
// one cannot be pinned: clusters that care set it to an image of their own.
const (
	DefaultImage           = "quay.io/metal3-io/ironic:v38.0.0"
	DefaultDownloaderImage = "quay.io/metal3-io/ironic-ipa-downloader:latest"
)

// Directories of a node.
const (
	// NodeDirectory holds configuration, credentials and certificates. Only root may enter it.
	NodeDirectory = "/etc/kubernetes/metal3-ironic"

	// StateDirectory is what the pods of a node tell one another. It is empty after a reboot.
	StateDirectory = "/run/metal3-ironic"

	// HandoverDirectory has a file for each key of HandoverConfigMap, in the Deployment.
	HandoverDirectory = StateDirectory + "/handed-over"

	// DataDirectory holds the folders of Ironic and of the guard on the disk. Only root may enter it: the socket of
	// Ironic, which asks for no password, is below it.
	DataDirectory = "/var/lib/metal3-ironic"

	// SharedDirectory is the folder of Ironic and httpd. Deploy kernel and ramdisk are in html/images below it; whoever
	// turns the downloader off puts them there.
	SharedDirectory = DataDirectory + "/shared"

	// CacheDirectory is where the guard remembers what the API server said. Ironic cannot write it.
	CacheDirectory = DataDirectory + "/guard"
)

// Files below NodeDirectory.
const (
	SettingsFile    = "guard.json"
	DHCPFile        = "dnsmasq.conf"
	HtpasswdFile    = "auth/htpasswd" //nolint:gosec // The name of a file, not what is in it.
	CertificateFile = "tls/tls.crt"
	KeyFile         = "tls/tls.key"
	AuthorityFile   = "tls/ca.crt"

	// BMCAuthoritiesFile and TrustedAuthoritiesFile are there only if Settings says so.
	BMCAuthoritiesFile     = "tls/bmc-ca.crt"
	TrustedAuthoritiesFile = "tls/trusted-ca.crt"
)

// SocketFile below SharedDirectory is where Ironic itself listens, behind its web server. The image chooses the name.
const SocketFile = "ironic.sock"

// Deploy kernel and ramdisk, as the downloader names them.
const (
	KernelFile  = "ironic-python-agent.kernel"
	RamdiskFile = "ironic-python-agent.initramfs"

	// downloaderTag is where the downloader keeps the ETag of what it has downloaded, beside the images.
	downloaderTag = "ironic-python-agent.headers"

	// downloaderFolders matches the folders that the downloader unpacks archives into.
	downloaderFolders = "*.tar.gz-*"

	// downloadRecord has the SHA-256 of what was downloaded. It is not served.
	downloadRecord = "/shared/ironic-python-agent.sha256"

	// downloaderProgram is the program of the downloader's image.
	downloaderProgram = "/usr/local/bin/get-resource.sh"
)

// Names of pods and what is written on them.
const (
	Namespace  = "kube-system"
	VIPPod     = "metal3-vip"
	IronicPod  = "metal3-ironic"
	DNSMasqPod = "metal3-dnsmasq"

	// ArmedAnnotation on a Node lets it hold the address when its value is ArmedValue.
	ArmedAnnotation = "ironic.infrastructure.cluster.x-k8s.io/armed"
	ArmedValue      = "true"

	// ArmedByAnnotation is beside it where this provider has armed the node, and not a person.
	ArmedByAnnotation = "ironic.infrastructure.cluster.x-k8s.io/armed-by"
	ArmedByProvider   = "provider"

	// ComponentLabel names the pod without its prefix, ClusterLabel has the clusterID.
	ComponentLabel = "ironic.infrastructure.cluster.x-k8s.io/component"
	ClusterLabel   = "ironic.infrastructure.cluster.x-k8s.io/cluster"

	// HashAnnotation changes when the configuration of the pods does.
	HashAnnotation = "ironic.infrastructure.cluster.x-k8s.io/config-hash"
)

// HandoverConfigMap lies beside the Deployment of the management side, which does without it as well. Each key is a
// clusterID that was handed over to its own control plane; values do not matter. A management side that finds its own
// clusterID keeps the address while it has it, and does not take it back.
const HandoverConfigMap = "ironic-handover"

// GuardPort is where the guard answers /livez, /readyz and /metrics.
const GuardPort = 9650

// Config describes Ironic of one cluster. It is the same for all nodes of a side.
type Config struct {
	// ClusterID starts the names of the conductors.
	ClusterID string

	// VirtualIPs are what Ironic answers on. The first one is in URLs.
	VirtualIPs []netip.Addr

	// Interface of the nodes that carries the addresses. Empty means that the guard of each node chooses it, and says so
	// in interfaceFile.
	Interface string

	// Ports of the services.
	Ports Ports

	// Cold starts Ironic only where the address is.
	Cold bool

	// Kubelet is whose credentials the guard reads its own Node with. Nil means that it does not read it.
	Kubelet *Kubelet

	// DHCP runs a DHCP server where the address is. Nil runs none.
	DHCP *DHCP

	// Images of the containers.
	Images Images

	// Ramdisk says where deploy kernel and ramdisk come from, and how they are booted.
	Ramdisk Ramdisk

	// Settings are what operators tune.
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
	// Guard has the guard and keepalived. There is no default: it belongs to the release of the provider.
	Guard string

	// Ironic has Ironic, httpd and dnsmasq. Empty means DefaultImage.
	Ironic string

	// Downloader fetches kernel and ramdisk. Empty means DefaultDownloaderImage.
	Downloader string

	// PullPolicy of all. Empty means IfNotPresent.
	PullPolicy corev1.PullPolicy
}

// Ramdisk says where deploy kernel and ramdisk come from.
type Ramdisk struct {
	// Present says that they are on the node already.
	Present bool

	// BaseURL is where the downloader looks, and Branch which ramdisk it fetches. Empty means its own default.
	BaseURL, Branch string

	// KernelChecksum and RamdiskChecksum are the SHA-256 of the files, in hexadecimal. Empty checks nothing.
	KernelChecksum, RamdiskChecksum string

	// KernelParameters are added to the kernel command line of the ramdisk.
	KernelParameters string

	// SSHKey is a public key that may log in to the ramdisk.
	SSHKey string
}

// DHCP describes the DHCP server. All addresses are of one family.
type DHCP struct {
	// Range is the first one. Its network contains the virtual address.
	Range

	// DNS servers that are handed out.
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
	// Begin and End are the first and the last address that are handed out.
	Begin, End netip.Addr

	// Network contains them.
	Network netip.Prefix

	// Gateway is handed out. Without one none is.
	Gateway netip.Addr
}

// DefaultLeaseTime of an address: longer than a deploy takes to boot, and short enough to see a change.
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
		return errors.New("there is no virtual address; Ironic would choose one of the node")
	case c.Images.Guard == "":
		return errors.New("image of the guard is empty; give the one of this release")
	case c.Ports.API < 1 || c.Ports.Image < 1 || c.Ports.ImageTLS < 1:
		return fmt.Errorf("ports are %+v; all three are needed", c.Ports)
	}
	if err := c.Kubelet.check(); err != nil || c.DHCP == nil {
		return err
	}
	return c.checkDHCP()
}

// addressFlags tell a subcommand of the guard which addresses on which interface it looks at.
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

// onNode is the path of a file below NodeDirectory.
func onNode(file string) string {
	return NodeDirectory + "/" + strings.TrimPrefix(file, "/")
}
