package ironic

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// firmware is the folder of the boot loaders in the image of Ironic, with these names since v34. Files of the node in
// customFirmware replace them.
const (
	firmware       = "/tftpboot"
	customFirmware = "/shared/" + FirmwareFolder

	firmwareBIOS = "undionly.kpxe"
	firmwareX86  = "snponly-x86_64.efi"
	firmwareARM  = "snponly-arm64.efi"
)

// routerIsNone is the end of an ra-param that keeps the interval of dnsmasq and says that the sender is no router.
const routerIsNone = ",0,0"

// leases is a file on the node, so that a restart of the container keeps it. Its folder is the only one that the DHCP
// server may write.
const (
	leasesFolder    = "dhcp"
	leasesDirectory = StateDirectory + "/" + leasesFolder
	leases          = leasesDirectory + "/leases"
)

// DNSMasq returns the configuration of the DHCP server. It returns an error without a DHCP configuration.
//
// The configuration of the image of Ironic is not used: it answers on every node, sends clients to the address of the
// node instead of the VIP, and rejects clients with a lease of another node. Instead:
//
//   - With dhcp-authoritative, a new VIP holder renews unknown leases. With IPv6 it ignores RENEW, which names the DUID
//     of the previous holder. The client keeps its address, and sends REBIND after 7/8 of its lease, which any holder
//     answers. The option requires a single server on the network, so the process runs only on the VIP holder.
//   - dhcp-boot has a third field, the address of the next server. The second field is only a name.
//   - The root of TFTP is an argument: it depends on whether the node has boot loaders.
//   - Option 54, the identifier of the server, has its default: with the VIP, dnsmasq would refuse its own clients.
func DNSMasq(config Config) ([]byte, error) {
	if config.DHCP == nil {
		return nil, fmt.Errorf("rendering %s: there is no DHCP server", DHCPFile)
	}
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("rendering %s: %w", DHCPFile, err)
	}
	var out lines
	out.add("port=0")
	if config.Interface != "" {
		out.add("interface=%s", config.Interface)
	}
	out.add("bind-dynamic")
	out.add("dhcp-authoritative")
	out.add("dhcp-leasefile=%s", leases)
	out.add("enable-tftp")
	if config.DHCP.Begin.Is4() {
		config.dhcp4(&out)
	} else {
		config.dhcp6(&out)
	}
	for _, reserved := range config.DHCP.Hosts {
		out.add("dhcp-host=%s", reserved)
	}
	for _, tags := range config.DHCP.Ignore {
		out.add("dhcp-ignore=%s", tags)
	}
	return out.Bytes(), nil
}

func (c Config) dhcp4(out *lines) {
	server := c.serverOf(c.DHCP.Begin)
	out.add("dhcp-range=%s,%s,%s,%s", c.DHCP.Begin, c.DHCP.End, mask(c.DHCP.Network), c.DHCP.lease())
	// An option without a value is not sent. Without the line, dnsmasq would send its own address.
	out.add("dhcp-option=%s", join("option:router", c.DHCP.Gateway))
	out.add("dhcp-option=%s", join("option:dns-server", c.DHCP.DNS...))
	for i, extra := range c.DHCP.Extra {
		out.add("dhcp-range=set:range%d,%s,%s,%s,%s", i+1, extra.Begin, extra.End, mask(extra.Network), c.DHCP.lease())
		// An option for the tag of the range replaces the option for all ranges.
		out.add("dhcp-option=tag:range%d,%s", i+1, join("option:router", extra.Gateway))
	}
	out.add("dhcp-match=set:ipxe,175")
	out.add("dhcp-match=set:efi,option:client-arch,7")
	out.add("dhcp-match=set:efi,option:client-arch,9")
	out.add("dhcp-match=set:efi-arm,option:client-arch,11")
	out.add("dhcp-boot=tag:ipxe,%s/boot.ipxe,%s,%s", c.imagesOn(server), server, server)
	out.add("dhcp-boot=tag:efi,tag:!ipxe,%s,%s,%s", firmwareX86, server, server)
	out.add("dhcp-boot=tag:efi-arm,tag:!ipxe,%s,%s,%s", firmwareARM, server, server)
	out.add("dhcp-boot=tag:!efi,tag:!efi-arm,tag:!ipxe,%s,%s,%s", firmwareBIOS, server, server)
}

// dhcp6 also enables router advertisements, because DHCPv6 has no routes. A lifetime of zero says that the sender is no
// router. BIOS machines do not boot over IPv6. Option 61 is the architecture of the client (RFC 5970).
func (c Config) dhcp6(out *lines) {
	server := c.serverOf(c.DHCP.Begin)
	out.add("enable-ra")
	if c.Interface != "" {
		out.add("ra-param=%s", c.Interface+routerIsNone)
	}
	out.add("dhcp-range=%s,%s,%d,%s", c.DHCP.Begin, c.DHCP.End, c.DHCP.Network.Bits(), c.DHCP.lease())
	for _, extra := range c.DHCP.Extra {
		out.add("dhcp-range=%s,%s,%d,%s", extra.Begin, extra.End, extra.Network.Bits(), c.DHCP.lease())
	}
	out.add("dhcp-option=%s", join("option6:dns-server", c.DHCP.DNS...))
	out.add("dhcp-vendorclass=set:pxe6,enterprise:343,PXEClient")
	out.add("dhcp-userclass=set:ipxe6,iPXE")
	out.add("dhcp-option=tag:ipxe6,option6:bootfile-url,%s/boot.ipxe", c.imagesOn(server))
	out.add("dhcp-match=set:efi-arm,option6:61,11")
	out.add("dhcp-option=tag:pxe6,tag:!ipxe6,tag:!efi-arm,option6:bootfile-url,tftp://[%s]/%s", server, firmwareX86)
	out.add("dhcp-option=tag:pxe6,tag:!ipxe6,tag:efi-arm,option6:bootfile-url,tftp://[%s]/%s", server, firmwareARM)
}

// mask returns the length of the prefix as an address.
func mask(network netip.Prefix) string {
	return net.IP(net.CIDRMask(network.Bits(), 32)).String()
}

// imagesOn returns the URL of the boot scripts.
func (c Config) imagesOn(server netip.Addr) string {
	return "http://" + net.JoinHostPort(server.String(), strconv.Itoa(int(c.Ports.Image)))
}

// serverOf returns the VIP of the family.
func (c Config) serverOf(family netip.Addr) netip.Addr {
	for _, address := range c.VirtualIPs {
		if address.Is4() == family.Is4() {
			return address
		}
	}
	return netip.Addr{}
}

func (c Config) checkDHCP() error {
	dhcp := c.DHCP
	all := append([]netip.Addr{dhcp.Begin, dhcp.End}, dhcp.options()...)
	for _, extra := range dhcp.Extra {
		all = append(all, extra.Begin, extra.End)
	}
	for _, address := range all {
		if !address.IsValid() || address.Is4() != dhcp.Begin.Is4() {
			return fmt.Errorf("DHCP addresses %s are not of one family; use one", all)
		}
	}
	server := c.serverOf(dhcp.Begin)
	if !server.IsValid() {
		return fmt.Errorf("DHCP range from %s has no VIP of its family; add one", dhcp.Begin)
	}
	if !dhcp.Network.Contains(server) {
		return fmt.Errorf("DHCP network %s does not contain the VIP %s; use one network", dhcp.Network, server)
	}
	var problems []error
	for _, one := range append([]Range{dhcp.Range}, dhcp.Extra...) {
		problems = append(problems, one.check(server))
	}
	if dhcp.LeaseTime < 0 || dhcp.LeaseTime > 0 && dhcp.LeaseTime < 2*time.Minute {
		problems = append(problems, fmt.Errorf("DHCP lease time %s is shorter than dnsmasq allows; use at least 2m0s",
			dhcp.LeaseTime))
	}
	return errors.Join(problems...)
}

// check returns an error for settings that dnsmasq and DHCPv6 do not support, and for a range that contains the VIP.
func (r Range) check(server netip.Addr) error {
	switch {
	case !r.Network.Contains(r.Begin) || !r.Network.Contains(r.End):
		return fmt.Errorf("DHCP range %s to %s is not in %s; use one network", r.Begin, r.End, r.Network)
	case r.End.Less(r.Begin):
		return fmt.Errorf("DHCP range ends at %s before it begins at %s; swap them", r.End, r.Begin)
	case !server.Less(r.Begin) && !r.End.Less(server):
		return fmt.Errorf("DHCP range %s to %s contains the VIP %s; choose a range beside it",
			r.Begin, r.End, server)
	case r.Begin.Is6() && r.Network.Bits() < 64:
		return fmt.Errorf("DHCP network %s is larger than dnsmasq can serve; use a prefix of 64 or longer", r.Network)
	case r.Begin.Is6() && r.Gateway.IsValid():
		return fmt.Errorf("DHCP gateway %s cannot be handed out over IPv6; let the router announce itself", r.Gateway)
	default:
		return nil
	}
}

// options returns the addresses in the options of a lease.
func (d DHCP) options() []netip.Addr {
	if d.Gateway.IsValid() {
		return append([]netip.Addr{d.Gateway}, d.DNS...)
	}
	return d.DNS
}

// lease returns the lease time in seconds.
func (d DHCP) lease() string {
	length := d.LeaseTime
	if length == 0 {
		length = DefaultLeaseTime
	}
	return strconv.Itoa(int(length.Seconds()))
}

// join writes an option and its values. IPv6 addresses have brackets.
func join(option string, values ...netip.Addr) string {
	words := []string{option}
	for _, value := range values {
		switch {
		case !value.IsValid():
		case value.Is6():
			words = append(words, "["+value.String()+"]")
		default:
			words = append(words, value.String())
		}
	}
	return strings.Join(words, ",")
}

// lines is a file that is written line by line.
type lines struct {
	bytes.Buffer
}

func (l *lines) add(format string, values ...any) {
	_, _ = fmt.Fprintf(l, format+"\n", values...)
}
