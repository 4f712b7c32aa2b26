package advert

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// The multicast groups of VRRP. The listener joins them in both modes: a foreign speaker may use another mode.
var (
	group4 = netip.AddrFrom4([4]byte{224, 0, 0, 18})
	group6 = netip.MustParseAddr("ff02::12")
)

// Device is the interface to listen on.
type Device struct {
	// Name of the interface.
	Name string

	// Index of the interface. The kernel keeps it in 31 bits.
	Index int32
}

// Listen calls the function for each advertisement that arrives on the interface. It blocks until the context ends.
// It requires CAP_NET_RAW.
func Listen(ctx context.Context, device Device, isIPv4 bool, heard func(netip.Addr, Advertisement)) error {
	network, everywhere := "ip6:112", "::"
	if isIPv4 {
		network, everywhere = "ip4:112", "0.0.0.0"
	}
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failure error
		err := raw.Control(func(descriptor uintptr) { failure = attach(int(descriptor), device, isIPv4) })
		return errors.Join(err, failure)
	}}
	connection, err := config.ListenPacket(ctx, network, everywhere)
	if err != nil {
		return fmt.Errorf("listening to VRRP on %s: %w", device.Name, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer func() {
		if stop() {
			_ = connection.Close()
		}
	}()
	buffer := make([]byte, 1500)
	for {
		size, source, err := connection.ReadFrom(buffer)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading VRRP from %s: %w", device.Name, err)
		}
		address, ok := source.(*net.IPAddr)
		if !ok {
			continue
		}
		from, ok := netip.AddrFromSlice(address.IP)
		if !ok {
			continue
		}
		if parsed, err := Parse(buffer[:size], isIPv4); err == nil {
			heard(from.Unmap(), parsed)
		}
	}
}

func attach(descriptor int, device Device, isIPv4 bool) error {
	err := syscall.SetsockoptString(descriptor, syscall.SOL_SOCKET, syscall.SO_BINDTODEVICE, device.Name)
	if err != nil {
		return fmt.Errorf("binding to %s: %w", device.Name, err)
	}
	if isIPv4 {
		request := &syscall.IPMreqn{Multiaddr: group4.As4(), Ifindex: device.Index}
		return syscall.SetsockoptIPMreqn(descriptor, syscall.IPPROTO_IP, syscall.IP_ADD_MEMBERSHIP, request)
	}
	index := uint32(device.Index) //nolint:gosec // An index is positive.
	request := &syscall.IPv6Mreq{Multiaddr: group6.As16(), Interface: index}
	return syscall.SetsockoptIPv6Mreq(descriptor, syscall.IPPROTO_IPV6, syscall.IPV6_JOIN_GROUP, request)
}
