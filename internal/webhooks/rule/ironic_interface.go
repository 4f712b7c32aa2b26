package rule

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// interfaceChoice validates the choice of the interface of the VIPs: exactly one of three fields. It refuses values
// that no interface can have, because they would fail only on the nodes.
func interfaceChoice(
	path *field.Path, endpoint infrav1.IronicEndpoint, networks []virtualNetwork,
) field.ErrorList {
	var given []string
	for name, isGiven := range map[string]bool{
		"interface": endpoint.Interface != "", "macAddresses": len(endpoint.MACAddresses) > 0,
		"interfaceCIDR": endpoint.InterfaceCIDR != "",
	} {
		if isGiven {
			given = append(given, name)
		}
	}
	slices.Sort(given)
	var errs field.ErrorList
	switch len(given) {
	case 0:
		errs = append(errs, field.Required(path.Child("interface"), "name the interface or bridge that carries the "+
			"addresses, or set macAddresses or interfaceCIDR"))
	case 1:
	default:
		errs = append(errs, field.Forbidden(path.Child(given[1]),
			fmt.Sprintf("is set together with %s; keep one of interface, macAddresses and interfaceCIDR", given[0])))
	}
	errs = append(errs, interfaceName(path.Child("interface"), endpoint.Interface)...)
	errs = append(errs, macAddresses(path.Child("macAddresses"), endpoint.MACAddresses)...)
	return append(errs, interfaceCIDR(path.Child("interfaceCIDR"), endpoint.InterfaceCIDR, networks)...)
}

// interfaceName repeats length and characters of the schema, and refuses the names of folders.
func interfaceName(path *field.Path, name string) field.ErrorList {
	if name == "." || name == ".." || len(name) > 15 || strings.ContainsFunc(name, notInterfaceName) {
		return field.ErrorList{field.Invalid(path, name, "is not the name of a network interface; use at most 15 "+
			"letters, digits, dots, dashes and underscores")}
	}
	return nil
}

func notInterfaceName(char rune) bool {
	letterOrDigit := char < unicode.MaxASCII && (unicode.IsLetter(char) || unicode.IsDigit(char))
	return !letterOrDigit && !strings.ContainsRune("._-", char)
}

func macAddresses(path *field.Path, addresses []string) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, text := range addresses {
		address, err := vip.MACAddress(text)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(path.Index(i), text,
				"is not the MAC address of an interface; write it like 52:54:00:00:00:0a"))
		case seen[address]:
			errs = append(errs, field.Duplicate(path.Index(i), text))
		}
		seen[address] = true
	}
	return errs
}

// interfaceCIDR refuses networks without addresses of nodes, and a single address, which at most one node has.
func interfaceCIDR(path *field.Path, text string, networks []virtualNetwork) field.ErrorList {
	if text == "" {
		return nil
	}
	network, err := netip.ParsePrefix(text)
	isOfFamily := func(one virtualNetwork) bool { return one.network.Addr().Is4() == network.Addr().Is4() }
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(path, text, "is not a network; write it like 192.0.2.0/24 or 2001:db8::/64")}
	case network.IsSingleIP():
		return field.ErrorList{field.Invalid(path, text, "is one address, which at most one node has; give the network of "+
			"all control-plane nodes")}
	case network.Addr().IsLoopback() || network.Addr().IsMulticast() || network.Addr().IsLinkLocalUnicast():
		return field.ErrorList{field.Invalid(path, text, "is loopback, multicast or link-local; give the network of the "+
			"addresses of the nodes")}
	case len(networks) > 0 && !slices.ContainsFunc(networks, isOfFamily):
		return field.ErrorList{field.Invalid(path, text, "is of another IP family than the VIPs; give a network of theirs")}
	default:
		return nil
	}
}
