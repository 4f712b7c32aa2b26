package advert

import (
	"context"
	"encoding/binary"
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

// Listen calls ready when it listens, and heard for each advertisement that arrives on the interface. It blocks until
// the context ends or an error occurs. It requires CAP_NET_RAW.
func Listen(
	ctx context.Context, device net.Interface, isIPv4 bool, ready func(), heard func(netip.Addr, Advertisement),
) error {
	network, everywhere := "ip6:112", "::"
	if isIPv4 {
		network, everywhere = "ip4:112", "0.0.0.0"
	}
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failure error
		err := raw.Control(func(descriptor uintptr) { failure = attach(int(descriptor), device, isIPv4) })
		return errors.Join(err, failure)
	}}
	listener, err := config.ListenPacket(ctx, network, everywhere)
	if err != nil {
		return fmt.Errorf("listening to VRRP on %s: %w", device.Name, err)
	}
	connection, is := listener.(*net.IPConn)
	if !is {
		return fmt.Errorf("listening to VRRP on %s: the connection is a %T", device.Name, listener)
	}
	end := func() { _ = connection.Close() }
	defer end()
	defer context.AfterFunc(ctx, end)()
	ready()
	buffer, control := make([]byte, 1500), make([]byte, 64)
	for {
		size, controlSize, _, source, err := connection.ReadMsgIP(buffer, control)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading VRRP from %s: %w", device.Name, err)
		}
		from, valid := netip.AddrFromSlice(source.IP)
		payload, limit := buffer[:size], hopLimit6(control[:controlSize])
		if isIPv4 {
			payload, limit = split4(payload)
		}
		if parsed, is := Parse(payload, isIPv4); is && valid {
			parsed.HopLimit = limit
			heard(from.Unmap(), parsed)
		}
	}
}

// split4 returns the payload and the TTL of an IPv4 packet. It returns no payload if the packet is too short.
func split4(packet []byte) (payload []byte, limit uint8) {
	const shortest, ttlAt = 20, 8
	if len(packet) < shortest {
		return nil, 0
	}
	size := 4 * int(packet[0]&0x0f)
	if size < shortest || size > len(packet) {
		return nil, 0
	}
	return packet[size:], packet[ttlAt]
}

// hopLimit6 returns the hop limit of an IPv6 packet from its control messages, and 0 if there is none.
func hopLimit6(control []byte) uint8 {
	messages, _ := syscall.ParseSocketControlMessage(control)
	for _, message := range messages {
		kind := message.Header.Type
		if message.Header.Level == syscall.IPPROTO_IPV6 && kind == syscall.IPV6_HOPLIMIT && len(message.Data) >= 4 {
			return uint8(binary.NativeEndian.Uint32(message.Data)) //nolint:gosec // A hop limit is at most 255.
		}
	}
	return 0
}

func attach(descriptor int, device net.Interface, isIPv4 bool) error {
	err := syscall.SetsockoptString(descriptor, syscall.SOL_SOCKET, syscall.SO_BINDTODEVICE, device.Name)
	if err != nil {
		return fmt.Errorf("binding to %s: %w", device.Name, err)
	}
	if isIPv4 {
		index := int32(device.Index) //nolint:gosec // The kernel keeps an index in 31 bits.
		request := &syscall.IPMreqn{Multiaddr: group4.As4(), Ifindex: index}
		return syscall.SetsockoptIPMreqn(descriptor, syscall.IPPROTO_IP, syscall.IP_ADD_MEMBERSHIP, request)
	}
	index := uint32(device.Index) //nolint:gosec // An index is positive.
	err = syscall.SetsockoptInt(descriptor, syscall.IPPROTO_IPV6, syscall.IPV6_RECVHOPLIMIT, 1)
	if err != nil {
		return fmt.Errorf("requesting hop limits: %w", err)
	}
	request := &syscall.IPv6Mreq{Multiaddr: group6.As16(), Interface: index}
	return syscall.SetsockoptIPv6Mreq(descriptor, syscall.IPPROTO_IPV6, syscall.IPV6_JOIN_GROUP, request)
}
