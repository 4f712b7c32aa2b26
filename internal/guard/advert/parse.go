// Package advert listens to VRRP advertisements on the network of the VIP of Ironic. keepalived implements VRRP. This
// package only observes which peers advertise, whether the management cluster is alive, and whether a conflicting
// router uses the virtual router ID or the VIP.
//
// The package does not authenticate advertisements, and neither does keepalived: who can forge them in the network of
// the VIP can take the VIP. They affect reports, the wait for the silence of the management cluster, which a forged one
// can only extend, and the term of the VIP, which it can only end.
package advert

import "net/netip"

// Advertisement is the content of one VRRP packet.
type Advertisement struct {
	// Version of VRRP, 2 or 3.
	Version uint8

	// RouterID is the virtual router ID.
	RouterID uint8

	// Priority of the speaker. 0 means that it releases the VIP.
	Priority uint8

	// Addresses that the speaker holds.
	Addresses []netip.Addr

	// HopLimit of the packet. Routers decrease it. Parse does not set it.
	HopLimit uint8
}

// headerSize is the same in VRRP 2 and 3.
const headerSize = 8

// Parse reads the payload of an IP packet of protocol 112, VRRP 2 or 3. It returns false for any other payload.
func Parse(payload []byte, isIPv4 bool) (Advertisement, bool) {
	if len(payload) < headerSize {
		return Advertisement{}, false
	}
	version, kind := payload[0]>>4, payload[0]&0x0f
	if kind != 1 || (version != 2 && version != 3) {
		return Advertisement{}, false
	}
	size := 16
	if isIPv4 {
		size = 4
	}
	count := int(payload[3])
	if len(payload) < headerSize+count*size {
		return Advertisement{}, false
	}
	parsed := Advertisement{Version: version, RouterID: payload[1], Priority: payload[2]}
	for i := range count {
		raw := payload[headerSize+i*size : headerSize+(i+1)*size]
		address, _ := netip.AddrFromSlice(raw)
		parsed.Addresses = append(parsed.Addresses, address)
	}
	return parsed, true
}
