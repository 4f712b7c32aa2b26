package guard

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// DefaultSettings is the path of the settings of a node.
const DefaultSettings = "/etc/kubernetes/metal3-ironic/guard.json"

// DefaultState is the state directory without settings.
const DefaultState = "/run/metal3-ironic"

// Variables of the environment that replace the settings file, for a VIP without Ironic.
const (
	variableAddress   = "PROVISIONING_IP"
	variablePrefix    = "PROVISIONING_CIDR"
	variableInterface = "PROVISIONING_INTERFACE"
)

// defaultInterface is also the default of the images of Ironic.
const defaultInterface = "provisioning"

// loadSettings reads the file, or the environment if there is no file and PROVISIONING_IP is set.
func loadSettings(options Options) (vip.NodeSettings, error) {
	content, err := os.ReadFile(options.Settings)
	if os.IsNotExist(err) && options.Getenv(variableAddress) != "" {
		return settingsFromEnvironment(options.Getenv, options.State)
	}
	if err != nil {
		return vip.NodeSettings{}, fmt.Errorf("reading the settings of the guard: %w; write them, or set %s",
			err, variableAddress)
	}
	return vip.Decode(content)
}

// settingsFromEnvironment returns settings that hold PROVISIONING_IP on the first node that claims it, without checks
// of Ironic. The nodes with the same VIP form a group, because the virtual router ID is derived from the VIP.
func settingsFromEnvironment(getenv func(string) string, state string) (vip.NodeSettings, error) {
	address, err := netip.ParseAddr(getenv(variableAddress))
	if err != nil {
		return vip.NodeSettings{}, fmt.Errorf("%s is %q; give one address like 192.0.2.2",
			variableAddress, getenv(variableAddress))
	}
	prefix, err := prefixLength(address, getenv(variablePrefix))
	if err != nil {
		return vip.NodeSettings{}, err
	}
	routerID, err := vip.RouterID(address.String())
	if err != nil {
		return vip.NodeSettings{}, err
	}
	device := getenv(variableInterface)
	if device == "" {
		device = defaultInterface
	}
	network := netip.PrefixFrom(address, prefix).Masked()
	return vip.NodeSettings{
		Role:                  vip.ControlPlane,
		Interface:             device,
		VirtualIPs:            []vip.Address{{Address: address, Prefix: prefix, Network: network}},
		VirtualRouterID:       routerID,
		Mode:                  vip.Multicast,
		AdvertisementInterval: vip.Duration(keepalived.DefaultAdvertisementInterval),
		TakeoverWithin:        vip.Duration(keepalived.DefaultTakeoverWithin),
		Takeover:              vip.Always,
		Standby:               vip.Warm,
		Files:                 vip.Files{State: state},
	}, nil
}

// prefixLength parses "24" or "192.0.2.0/24". Without a text the VIP has a prefix of its full length.
func prefixLength(address netip.Addr, text string) (int, error) {
	if text == "" {
		return address.BitLen(), nil
	}
	digits := text
	if _, after, found := strings.Cut(text, "/"); found {
		network, err := netip.ParsePrefix(text)
		if err != nil || !network.Masked().Contains(address) {
			return 0, fmt.Errorf("%s is %q, which is no network that contains %s; give that network or the length of its "+
				"prefix", variablePrefix, text, address)
		}
		digits = after
	}
	length, err := strconv.Atoi(digits)
	if err != nil || length < 1 || length > address.BitLen() {
		return 0, fmt.Errorf("%s is %q; give the length of the prefix, 1 to %d", variablePrefix, text, address.BitLen())
	}
	return length, nil
}

// withPeers adds addresses to a sorted list of peers of VIPs. After an error the list is unchanged.
func withPeers(peers, virtual []netip.Addr, text string) ([]netip.Addr, error) {
	all := slices.Clone(peers)
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		address, err := netip.ParseAddr(word)
		if err != nil || !isOfNode(address, virtual) {
			return peers, fmt.Errorf("%q is not the address of a node; write addresses like 192.0.2.21,192.0.2.22 of the "+
				"IP families of the VIPs %v", word, virtual)
		}
		all = append(all, address)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all), nil
}

// isOfNode returns true if a node can have the address as its own one, beside the VIPs.
func isOfNode(address netip.Addr, virtual []netip.Addr) bool {
	hasFamily := slices.ContainsFunc(virtual, func(one netip.Addr) bool { return one.Is4() == address.Is4() })
	return hasFamily && address.IsGlobalUnicast() && address.Zone() == "" && !address.Is4In6() &&
		!slices.Contains(virtual, address)
}

// checksIronic returns true if the settings name an Ironic to check.
func checksIronic(settings vip.NodeSettings) bool {
	return settings.Files.Socket != ""
}

// virtualAddresses returns the VIPs without prefixes.
func virtualAddresses(settings vip.NodeSettings) []netip.Addr {
	addresses := make([]netip.Addr, len(settings.VirtualIPs))
	for i, address := range settings.VirtualIPs {
		addresses[i] = address.Address
	}
	return addresses
}
