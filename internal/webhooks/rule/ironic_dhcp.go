package rule

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// minLeaseTime is the minimum of dnsmasq.
const minLeaseTime = 2 * time.Minute

func dhcp(path *field.Path, dhcp *infrav1.IronicDHCP, networks []virtualNetwork) field.ErrorList {
	if dhcp == nil {
		return nil
	}
	first, wrong := readRange(path, dhcp.RangeBegin, dhcp.RangeEnd)
	errs := nameServers(path.Child("dns"), dhcp.DNS, first.begin)
	errs = append(errs, lease(path.Child("leaseTime"), dhcp)...)
	errs = append(errs, reservations(path, dhcp, networks)...)
	if len(wrong) > 0 {
		return append(errs, wrong...)
	}
	virtual, found := inFamily(networks, first.begin)
	if !found {
		return append(errs, field.Invalid(path.Child("rangeBegin"), dhcp.RangeBegin, fmt.Sprintf(
			"is an %s address and none of the virtualIPs is; hand out addresses of a network of the endpoint",
			Family(first.begin))))
	}
	errs = append(errs, first.check(virtual,
		fmt.Sprintf("%s, the network of %s", virtual.network, virtual.address))...)
	errs = append(errs, extraRanges(path.Child("extraRanges"), dhcp.ExtraRanges, first, virtual.address)...)
	return append(errs, gateway(path.Child("gateway"), dhcp.Gateway, virtual)...)
}

// dhcpFamily warns of a range of the IP family of the second VIP: URLs of the ramdisk contain only the first VIP.
func dhcpFamily(path *field.Path, ironic *infrav1.Ironic) Findings {
	virtual := ironic.Endpoint.VirtualIPs
	if ironic.DHCP == nil || len(virtual) < 2 {
		return Findings{}
	}
	begin, beginErr := netip.ParseAddr(ironic.DHCP.RangeBegin)
	first, firstErr := netip.ParseAddr(virtual[0])
	if beginErr != nil || firstErr != nil || begin.Is4() == first.Is4() {
		return Findings{}
	}
	return Warn(path.Child("dhcp", "rangeBegin"), "is the %s address %s, and the URLs of kernel, ramdisk and callbacks "+
		"contain %s, the first of endpoint.virtualIPs; list the %[1]s address first in virtualIPs and cidrs. Otherwise "+
		"hosts without an %[4]s address do not boot the ramdisk", Family(begin), begin, first, Family(first))
}

// addressRange is a range of the DHCP server.
type addressRange struct {
	path       *field.Path
	begin, end netip.Addr
}

func readRange(path *field.Path, first, last string) (addressRange, field.ErrorList) {
	begin, beginErr := nodeAddress(path.Child("rangeBegin"), first)
	end, endErr := nodeAddress(path.Child("rangeEnd"), last)
	return addressRange{path, begin, end}, Refusals(beginErr, endErr).Errors
}

// minPrefix is the minimum length of the prefix of an IPv6 network for dnsmasq.
const minPrefix = 64

// check validates the range with its network, which has the given name, and the VIP.
func (r addressRange) check(within virtualNetwork, name string) field.ErrorList {
	var errs field.ErrorList
	first, last := r.path.Child("rangeBegin"), r.path.Child("rangeEnd")
	outside := fmt.Sprintf("is not in %s; hand out addresses of that network", name)
	if !within.network.Contains(r.begin) {
		errs = append(errs, field.Invalid(first, r.begin.String(), outside))
	}
	if !within.network.Contains(r.end) {
		errs = append(errs, field.Invalid(last, r.end.String(), outside))
	}
	switch {
	case len(errs) > 0:
		return errs
	case r.end.Less(r.begin):
		return field.ErrorList{field.Invalid(last, r.end.String(),
			fmt.Sprintf("comes before rangeBegin %s; swap them", r.begin))}
	case r.begin.Is6() && within.network.Bits() < minPrefix:
		return field.ErrorList{field.Invalid(first, r.begin.String(), fmt.Sprintf(
			"is in %s, which is larger than dnsmasq can serve; use a network with a prefix of %d or longer",
			within.network, minPrefix))}
	case r.overlaps(addressRange{begin: within.address, end: within.address}):
		return field.ErrorList{field.Invalid(first, r.begin.String(), fmt.Sprintf(
			"begins a range up to %s that contains the address %s of Ironic itself; choose a range beside it",
			r.end, within.address))}
	default:
		return nil
	}
}

func (r addressRange) overlaps(other addressRange) bool {
	return !r.end.Less(other.begin) && !other.end.Less(r.begin)
}

// extraRanges validates the ranges after the first one.
func extraRanges(path *field.Path, described []infrav1.IronicDHCPRange, first addressRange, virtual netip.Addr,
) field.ErrorList {
	var errs field.ErrorList
	taken := []addressRange{first}
	names := []string{"rangeBegin to rangeEnd"}
	for i, extra := range described {
		at := path.Index(i)
		own, wrong := extraRange(at, extra, virtual)
		if len(wrong) > 0 {
			errs = append(errs, wrong...)
			continue
		}
		for j, other := range taken {
			if own.overlaps(other) {
				errs = append(errs, field.Invalid(at.Child("rangeBegin"), extra.RangeBegin,
					fmt.Sprintf("begins a range that overlaps %s; give each address to one range", names[j])))
			}
		}
		taken, names = append(taken, own), append(names, at.String())
	}
	return errs
}

func extraRange(path *field.Path, extra infrav1.IronicDHCPRange, virtual netip.Addr) (addressRange, field.ErrorList) {
	network, err := netip.ParsePrefix(extra.NetworkCIDR)
	if err != nil || network.Addr().Is4() != virtual.Is4() {
		return addressRange{}, field.ErrorList{field.Invalid(path.Child("networkCIDR"), extra.NetworkCIDR, fmt.Sprintf(
			"is not an %s network, as the first range is; write it like 192.0.2.0/24 or 2001:db8::/64", Family(virtual)))}
	}
	within := virtualNetwork{virtual, network.Masked()}
	own, errs := readRange(path, extra.RangeBegin, extra.RangeEnd)
	if len(errs) > 0 {
		return own, errs
	}
	errs = own.check(within, "networkCIDR "+within.network.String())
	return own, append(errs, gateway(path.Child("gatewayAddress"), extra.GatewayAddress, within)...)
}

func gateway(path *field.Path, value string, virtual virtualNetwork) field.ErrorList {
	if value == "" {
		return nil
	}
	address, err := nodeAddress(path, value)
	switch {
	case err != nil:
		return field.ErrorList{err}
	case virtual.address.Is6():
		return field.ErrorList{field.Invalid(path, value,
			"cannot be handed out over IPv6; omit it and let the router announce itself")}
	case !virtual.network.Contains(address):
		return field.ErrorList{field.Invalid(path, value, fmt.Sprintf(
			"is not in %s, the network of the range; give a gateway that its addresses can reach", virtual.network))}
	case address == virtual.address:
		return field.ErrorList{field.Invalid(path, value, "is the VIP of Ironic itself, which is no router; give the "+
			"address of the router, or omit it")}
	default:
		return nil
	}
}

// nameServers validates the DNS servers of a range. A range that is invalid itself has no address family.
func nameServers(path *field.Path, values []string, begin netip.Addr) field.ErrorList {
	var errs field.ErrorList
	for i, value := range values {
		address, err := nodeAddress(path.Index(i), value)
		switch {
		case err != nil:
			errs = append(errs, err)
		case begin.IsValid() && address.Is4() != begin.Is4():
			errs = append(errs, field.Invalid(path.Index(i), value, fmt.Sprintf(
				"is an %s address and the range has %s addresses; list only DNS servers with %[2]s addresses",
				Family(address), Family(begin))))
		}
	}
	return errs
}

func lease(path *field.Path, dhcp *infrav1.IronicDHCP) field.ErrorList {
	if dhcp.LeaseTime == nil || dhcp.LeaseTime.Duration >= minLeaseTime {
		return nil
	}
	return field.ErrorList{field.Invalid(path, dhcp.LeaseTime.Duration.String(), fmt.Sprintf(
		"is shorter than dnsmasq allows; use at least %s, or omit it for 15m", minLeaseTime))}
}

// dhcpIgnore matches the values of dhcp-ignore that dnsmasq accepts.
var dhcpIgnore = regexp.MustCompile(`^tag:!?[A-Za-z0-9_-]+(,tag:!?[A-Za-z0-9_-]+)*$`)

// dhcpCard is a hardware address, with its type and with asterisks as dnsmasq accepts it in dhcp-host.
var dhcpCard = regexp.MustCompile(`^([0-9a-fA-F]{1,2}-)?([0-9a-fA-F]{1,2}|\*)(:([0-9a-fA-F]{1,2}|\*))+$`)

// dhcpName is a host name, a lease time or a keyword as dnsmasq accepts it in dhcp-host.
var dhcpName = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]*(\..*)?$`)

// reservations validates the hosts and the tags of the DHCP server.
func reservations(path *field.Path, dhcp *infrav1.IronicDHCP, virtual []virtualNetwork) field.ErrorList {
	var errs field.ErrorList
	taken := map[string]string{}
	for _, one := range virtual {
		taken[one.address.String()] = "which is one of endpoint.virtualIPs; reserve another address"
	}
	for i, reserved := range dhcp.Hosts {
		if problem := reservation(reserved, taken); problem != "" {
			errs = append(errs, field.Invalid(path.Child("hosts").Index(i), reserved, problem))
		}
	}
	for i, tags := range dhcp.Ignore {
		if !dhcpIgnore.MatchString(tags) {
			errs = append(errs, field.Invalid(path.Child("ignore").Index(i), tags,
				"is no set of tags; write it like tag:!known or tag:one,tag:two"))
		}
	}
	return errs
}

// reservedAddresses returns the addresses of a dhcp-host.
func reservedAddresses(reserved string) []netip.Addr {
	var addresses []netip.Addr
	for word := range strings.SplitSeq(reserved, ",") {
		if address, err := netip.ParseAddr(withoutBrackets(word)); err == nil {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

func withoutBrackets(word string) string {
	return strings.TrimSuffix(strings.TrimPrefix(word, "["), "]")
}

// reservation returns why dnsmasq would not start with a dhcp-host, or why an address of it is taken. It adds its
// addresses to the taken ones.
func reservation(reserved string, taken map[string]string) string {
	if strings.ContainsFunc(reserved, unicode.IsSpace) || !strings.Contains(reserved, ",") {
		return "is no reservation; write it like 52:54:00:00:00:01,192.0.2.21 without spaces"
	}
	for word := range strings.SplitSeq(reserved, ",") {
		address, err := netip.ParseAddr(withoutBrackets(word))
		switch {
		case err != nil:
			if problem := otherWord(word); problem != "" {
				return problem
			}
		case taken[address.String()] != "":
			return fmt.Sprintf("reserves %s, %s", address, taken[address.String()])
		case address.Is4():
			// Firmware and system of one host may have two DHCPv6 identifiers.
			taken[address.String()] = "as another entry does; reserve each address once"
		case word == withoutBrackets(word):
			return fmt.Sprintf("has %s without brackets, which dnsmasq reads as a MAC address; write [%[1]s]", word)
		}
	}
	return ""
}

// otherWord returns why dnsmasq would not start with a part of a dhcp-host that is no address.
func otherWord(word string) string {
	kind, _, isKind := strings.Cut(word, ":")
	switch {
	case word != withoutBrackets(word), isKind && slices.Contains([]string{"id", "set", "tag"}, kind):
		return ""
	case isKind && !dhcpCard.MatchString(word):
		return fmt.Sprintf("has %s, which is no MAC address; write it like 52:54:00:00:00:01,192.0.2.21", word)
	case !isKind && !dhcpName.MatchString(word):
		return fmt.Sprintf("has %s, which is no host name, so dnsmasq would not start; begin it with a letter or a digit, "+
			"and use only letters, digits, - and _ up to the first dot", word)
	default:
		return ""
	}
}
