package controlplane

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// withDefaults sets the defaults of empty fields. The default of the virtual router ID depends only on the clusterID:
// if it depended on the used IDs, machines of different times would have different ones. After a collision, the ID is
// set in the specification.
func withDefaults(described infrav1.Ironic) infrav1.Ironic {
	endpoint := &described.Endpoint
	orElse(&endpoint.Port, infrav1.DefaultIronicPort)
	orElse(&endpoint.ImagePort, infrav1.DefaultImagePort)
	orElse(&endpoint.ImageTLSPort, infrav1.DefaultImageTLSPort)
	orElse(&described.Takeover, infrav1.TakeoverAfterMove)
	orElse(&described.Standby, infrav1.StandbyWarm)
	orElse(&described.ManifestsDirectory, infrav1.DefaultManifestsDirectory)
	orElse(&described.Images.PullPolicy, corev1.PullIfNotPresent)
	mode := infrav1.VRRPMulticast
	if len(described.VRRP.Peers) > 0 {
		mode = infrav1.VRRPUnicast
	}
	orElse(&described.VRRP.Mode, mode)
	return described
}

func orElse[value comparable](field *value, instead value) {
	var empty value
	if *field == empty {
		*field = instead
	}
}

// settings returns the settings of the guard of a node of the role.
func (e Endpoint) settings(role vip.Role, addresses []vip.Address) (vip.NodeSettings, error) {
	described := e.Ironic
	settings := vip.NodeSettings{
		ClusterID:             described.ClusterID,
		Role:                  role,
		Interface:             described.Endpoint.Interface,
		MACAddresses:          plainMACs(described.Endpoint.MACAddresses),
		VirtualIPs:            addresses,
		VirtualRouterID:       groupOf(described).ID(),
		Mode:                  vip.Mode(described.VRRP.Mode),
		AdvertisementInterval: vip.Duration(keepalived.DefaultAdvertisementInterval),
		TakeoverWithin:        vip.Duration(keepalived.DefaultTakeoverWithin),
		Takeover:              vip.Takeover(described.Takeover),
		Standby:               vip.Standby(described.Standby),
		Ports: vip.Ports{
			API: int(described.Endpoint.Port), Image: int(described.Endpoint.ImagePort),
			ImageTLS: int(described.Endpoint.ImageTLSPort),
		},
		Files:           files(),
		Images:          []string{ironic.KernelFile, ironic.RamdiskFile},
		ArmedAnnotation: vip.Annotation{Name: ironic.ArmedAnnotation, Value: ironic.ArmedValue},
	}
	if text := described.Endpoint.InterfaceCIDR; text != "" {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return settings, fmt.Errorf("endpoint.interfaceCIDR is %q; write a network like 192.0.2.0/24", text)
		}
		settings.InterfaceCIDR = network.Masked()
	}
	if interval := described.VRRP.AdvertisementInterval; interval != nil {
		settings.AdvertisementInterval = vip.Duration(interval.Duration)
	}
	if silence := described.TakeoverAfterSilence; silence != nil {
		settings.TakeoverAfterSilence = vip.Duration(silence.Duration)
	}
	if kubelet := e.kubelet(role); kubelet != nil {
		settings.Files.Kubeconfig = kubelet.Kubeconfig
	}
	if described.VRRP.Mode == infrav1.VRRPUnicast {
		members, err := vip.Members(described.VRRP.Peers, addresses)
		settings.Peers = members
		return settings, err
	}
	return settings, nil
}

// plainMACs returns the addresses sorted, in the form of the settings. It keeps invalid ones: vip.NodeSettings.Encode
// returns an error for them.
func plainMACs(texts []string) []string {
	plain := slices.Clone(texts)
	for i, text := range plain {
		if read, err := vip.MACAddress(text); err == nil {
			plain[i] = read
		}
	}
	slices.Sort(plain)
	return slices.Compact(plain)
}

// kubelet returns the credentials with which the guard reads its Node. Nil means that the guard does not read it.
func (e Endpoint) kubelet(role vip.Role) *ironic.Kubelet {
	if role != vip.ControlPlane || e.Ironic.Takeover != infrav1.TakeoverAfterMove {
		return nil
	}
	described := e.Ironic.Kubelet
	if described == nil {
		return ironic.KubeletOfKubeadm()
	}
	return &ironic.Kubelet{
		Kubeconfig: described.Kubeconfig, Files: described.CredentialFiles, Directories: described.CredentialDirectories,
	}
}

func files() vip.Files {
	return vip.Files{
		Socket:    path.Join(ironic.SharedDirectory, ironic.SocketFile),
		Authority: path.Join(ironic.NodeDirectory, ironic.AuthorityFile),
		State:     ironic.StateDirectory,
	}
}

// config returns the configuration of the pods, without the hash.
func (e Endpoint) config(role vip.Role, addresses []vip.Address) (ironic.Config, error) {
	described := e.Ironic
	config := ironic.Config{
		ClusterID: described.ClusterID,
		Interface: described.Endpoint.Interface,
		Ports: ironic.Ports{
			API: described.Endpoint.Port, Image: described.Endpoint.ImagePort, ImageTLS: described.Endpoint.ImageTLSPort,
		},
		Cold:    described.Standby == infrav1.StandbyCold,
		Kubelet: e.kubelet(role),
		Images: ironic.Images{
			Guard: described.Images.Keepalived, Ironic: described.Images.Ironic,
			Downloader: described.Images.RamdiskDownloader, PullPolicy: described.Images.PullPolicy,
		},
		Ramdisk: ramdisk(described.Ramdisk),
	}
	orElse(&config.Images.Guard, e.GuardImage)
	for _, address := range addresses {
		config.VirtualIPs = append(config.VirtualIPs, address.Address)
	}
	var err error
	if config.Settings, err = operatorSettings(described, addresses); err != nil || described.DHCP == nil {
		return config, err
	}
	config.DHCP, err = dhcp(*described.DHCP, addresses)
	return config, err
}

// dhcp finds the network of the range: that of the VIP of its family.
func dhcp(described infrav1.IronicDHCP, addresses []vip.Address) (*ironic.DHCP, error) {
	var problems []error
	read := func(field, text string) netip.Addr {
		address, err := netip.ParseAddr(text)
		if err != nil {
			problems = append(problems, fmt.Errorf("dhcp.%s is %q; write an address like 192.0.2.2", field, text))
		}
		return address
	}
	result := &ironic.DHCP{
		Range: ironic.Range{Begin: read("rangeBegin", described.RangeBegin), End: read("rangeEnd", described.RangeEnd)},
		Hosts: described.Hosts, Ignore: described.Ignore,
	}
	for i, extra := range described.ExtraRanges {
		at := fmt.Sprintf("extraRanges[%d].", i)
		one := ironic.Range{Begin: read(at+"rangeBegin", extra.RangeBegin), End: read(at+"rangeEnd", extra.RangeEnd)}
		if extra.GatewayAddress != "" {
			one.Gateway = read(at+"gatewayAddress", extra.GatewayAddress)
		}
		network, err := netip.ParsePrefix(extra.NetworkCIDR)
		if err != nil {
			problems = append(problems, fmt.Errorf("dhcp.%snetworkCIDR is %q; write a network like 192.0.2.0/24",
				at, extra.NetworkCIDR))
		}
		one.Network = network.Masked()
		result.Extra = append(result.Extra, one)
	}
	if described.Gateway != "" {
		result.Gateway = read("gateway", described.Gateway)
	}
	for _, server := range described.DNS {
		result.DNS = append(result.DNS, read("dns", server))
	}
	if described.LeaseTime != nil {
		result.LeaseTime = described.LeaseTime.Duration
	}
	for _, address := range addresses {
		if address.Address.Is4() == result.Begin.Is4() {
			result.Network = address.Network
		}
	}
	return result, errors.Join(problems...)
}
