package guard

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
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
	network, err := networkOf(address, getenv(variablePrefix))
	if err != nil {
		return vip.NodeSettings{}, err
	}
	routerID, err := vip.RouterID(address.String())
	if err != nil {
		return vip.NodeSettings{}, err
	}
	return vip.NodeSettings{
		Role:                  vip.ControlPlane,
		Interface:             cmp.Or(getenv(variableInterface), defaultInterface),
		VirtualIPs:            []vip.Address{{Address: address, Prefix: network.Bits(), Network: network}},
		VirtualRouterID:       routerID,
		Mode:                  vip.Multicast,
		AdvertisementInterval: vip.Duration(keepalived.DefaultAdvertisementInterval),
		TakeoverWithin:        vip.Duration(keepalived.DefaultTakeoverWithin),
		Takeover:              vip.Always,
		Standby:               vip.Warm,
		Files:                 vip.Files{State: state},
	}, nil
}

// networkOf parses "24" or "192.0.2.0/24". Without a text the VIP has a prefix of its full length.
func networkOf(address netip.Addr, text string) (netip.Prefix, error) {
	full := text
	switch {
	case text == "":
		full = fmt.Sprintf("%s/%d", address, address.BitLen())
	case !strings.Contains(text, "/"):
		full = address.String() + "/" + text
	}
	network, err := netip.ParsePrefix(full)
	if err != nil || network.Bits() == 0 || !network.Contains(address) {
		return netip.Prefix{}, fmt.Errorf("%s is %q; give a network that contains %s, or the length of its prefix, 1 to %d",
			variablePrefix, text, address, address.BitLen())
	}
	return network.Masked(), nil
}

// withPeers returns the peers of the settings and those of an annotation, sorted. After an error it returns those of
// the settings.
func withPeers(settings vip.NodeSettings, text string) ([]netip.Addr, error) {
	all := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	for _, peer := range settings.Peers {
		all = append(all, peer.String())
	}
	members, err := vip.Members(all, settings.VirtualIPs)
	if err != nil {
		return settings.Peers, err
	}
	return members, nil
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
