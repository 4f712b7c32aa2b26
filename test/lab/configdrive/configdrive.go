// Package configdrive creates the config drive of a management machine, and the network data of every machine, in the
// format of cloud-init. The boot data of nodes comes from Cluster API.
package configdrive

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

const (
	// apiServerPort is the port of every API server of a lab.
	apiServerPort = 6443

	// Services is the network of the Services of every cluster of a lab.
	Services = "10.96.0.0/16"

	// kubeadmConfig is the configuration of kubeadm on the management machine.
	kubeadmConfig = "/etc/kubernetes/lab-kubeadm.yaml"

	kubeadmAPI = "kubeadm.k8s.io/v1beta4"

	// kubeletConfig follows the configuration of every machine of a lab. It restarts a container of the management cluster
	// within 20 seconds instead of five minutes: the managers of Cluster API exit while the API server is unavailable.
	// Nodes keep the limit of the kubelet.
	kubeletConfig   = "/etc/kubernetes/kubelet.conf.d/20-management.conf"
	kubeletSettings = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
crashLoopBackOff:
  maxContainerRestartPeriod: 20s
`

	// configDriveFolder is the folder of cloud-init on a config drive.
	configDriveFolder = "openstack/latest/"
)

// ignoredErrors are preflight checks of kubeadm that a machine made of namespaces cannot pass.
func ignoredErrors() []string {
	return []string{"FileContent--proc-sys-net-bridge-bridge-nf-call-iptables", "Hostname", "Swap", "SystemVerification"}
}

type cloudConfig struct {
	WriteFiles []cloudFile `json:"write_files"`
	RunCommand []string    `json:"runcmd"`
}

type cloudFile struct {
	Path        string `json:"path"`
	Permissions string `json:"permissions"`
	Content     string `json:"content"`
}

type typeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

type initConfiguration struct {
	typeMeta         `json:",inline"`
	LocalAPIEndpoint localAPIEndpoint `json:"localAPIEndpoint"`
	NodeRegistration nodeRegistration `json:"nodeRegistration"`
}

type localAPIEndpoint struct {
	AdvertiseAddress string `json:"advertiseAddress"`
	BindPort         int    `json:"bindPort"`
}

type nodeRegistration struct {
	Name                  string   `json:"name"`
	ImagePullPolicy       string   `json:"imagePullPolicy"`
	IgnorePreflightErrors []string `json:"ignorePreflightErrors"`
	// Taints is empty and not absent, so that the only node of the cluster accepts every pod.
	Taints []string `json:"taints"`
}

type clusterConfiguration struct {
	typeMeta          `json:",inline"`
	ClusterName       string     `json:"clusterName"`
	KubernetesVersion string     `json:"kubernetesVersion"`
	Networking        networking `json:"networking"`
}

type networking struct {
	PodSubnet     string `json:"podSubnet"`
	ServiceSubnet string `json:"serviceSubnet"`
}

// Management returns the files of the config drive of a management machine by their paths: kubeadm creates a cluster
// with one machine. The number identifies the machine in the address plan of package network.
func Management(name string, number byte) (map[string][]byte, error) {
	config, err := kubeadm(name, number)
	if err != nil {
		return nil, err
	}
	user, err := yaml.Marshal(cloudConfig{
		WriteFiles: []cloudFile{
			{Path: kubeadmConfig, Permissions: "0600", Content: config},
			{Path: kubeletConfig, Permissions: "0600", Content: kubeletSettings},
		},
		RunCommand: []string{
			"cat /etc/lab/kube-proxy.yaml >> " + kubeadmConfig + " && kubeadm init --config " + kubeadmConfig,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the user data of %s: %w", name, err)
	}
	meta, err := json.Marshal(map[string]string{"uuid": fmt.Sprintf("%08d-0000-0000-0000-000000000000", number),
		"name": name, "hostname": name, "local-hostname": name})
	if err != nil {
		return nil, fmt.Errorf("encoding the meta data of %s: %w", name, err)
	}
	network, err := NetworkData(number)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		configDriveFolder + "user_data":         append([]byte("#cloud-config\n"), user...),
		configDriveFolder + "meta_data.json":    meta,
		configDriveFolder + "network_data.json": network,
	}, nil
}

// kubeadm returns the configuration of kubeadm without that of kube-proxy, which is in the image of the machine.
func kubeadm(name string, number byte) (string, error) {
	var content strings.Builder
	for _, document := range []any{
		initConfiguration{
			typeMeta:         typeMeta{kubeadmAPI, "InitConfiguration"},
			LocalAPIEndpoint: localAPIEndpoint{network.Address4(number).String(), apiServerPort},
			NodeRegistration: nodeRegistration{
				Name: name, ImagePullPolicy: "IfNotPresent", IgnorePreflightErrors: ignoredErrors(), Taints: []string{},
			},
		},
		clusterConfiguration{
			typeMeta:          typeMeta{kubeadmAPI, "ClusterConfiguration"},
			ClusterName:       name,
			KubernetesVersion: binaries.KubernetesVersion,
			Networking:        networking{PodSubnet: network.Pods, ServiceSubnet: Services},
		},
	} {
		encoded, err := yaml.Marshal(document)
		if err != nil {
			return "", fmt.Errorf("encoding the configuration of kubeadm: %w", err)
		}
		content.WriteString("---\n")
		content.Write(encoded)
	}
	return content.String(), nil
}

// openStackNetwork has the used fields of the network_data.json of OpenStack.
type openStackNetwork struct {
	Links    []openStackLink    `json:"links"`
	Networks []openStackAddress `json:"networks"`
	Services []struct{}         `json:"services"`
}

type openStackLink struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Address string `json:"ethernet_mac_address"`
	MTU     int    `json:"mtu"`
}

type openStackAddress struct {
	ID string `json:"id"`
	// Network is the network of the cloud, which Ironic requires.
	Network string           `json:"network_id"`
	Link    string           `json:"link"`
	Type    string           `json:"type"`
	Address string           `json:"ip_address"`
	Netmask string           `json:"netmask"`
	Routes  []openStackRoute `json:"routes"`
}

type openStackRoute struct {
	Network string `json:"network"`
	Netmask string `json:"netmask"`
	Gateway string `json:"gateway"`
}

// NetworkData returns the addresses of the network card of a machine in both families, with the switch as gateway to
// pods.
func NetworkData(number byte) ([]byte, error) {
	const card = "eth0"
	mask6, err := prefixMask(network.Provisioning6)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(openStackNetwork{
		Links: []openStackLink{{ID: card, Type: "phy", Address: network.HardwareAddress(number).String(), MTU: 1500}},
		Networks: []openStackAddress{
			{
				ID: "ipv4", Network: "provisioning", Link: card, Type: "ipv4",
				Address: network.Address4(number).String(), Netmask: "255.255.255.0",
				Routes: []openStackRoute{{Network: "0.0.0.0", Netmask: "0.0.0.0", Gateway: network.Gateway4}},
			},
			{
				ID: "ipv6", Network: "provisioning", Link: card, Type: "ipv6",
				Address: network.Address6(number).String(), Netmask: mask6,
				Routes: []openStackRoute{{Network: "::", Netmask: "::", Gateway: network.Gateway6}},
			},
		},
		Services: []struct{}{},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the network data of machine %d: %w", number, err)
	}
	return encoded, nil
}

// prefixMask returns the length of a prefix as a netmask, as OpenStack does for IPv6 too.
func prefixMask(prefix string) (string, error) {
	parsed, err := netip.ParsePrefix(prefix)
	if err != nil {
		return "", err
	}
	var mask [16]byte
	for bit := range parsed.Bits() {
		mask[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom16(mask).String(), nil
}
