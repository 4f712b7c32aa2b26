package witness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// The offsets of the fields of an ARP message for IPv4 on Ethernet, and its length.
	operationAt, senderCardAt, senderAddressAt, targetAddressAt, messageLength = 6, 8, 14, 24, 28

	hardwareEthernet, protocolIPv4 = 1, 0x0800
	operationRequest               = 1
	operationReply                 = 2
)

// wire is an ARP socket on one interface.
type wire struct {
	file   *os.File
	fd     int
	to     unix.SockaddrLinklayer
	card   net.HardwareAddr
	own    netip.Addr
	target netip.Addr
}

// open opens a socket on the interface with address own in the current namespace. Any thread can use the socket.
func open(own, target netip.Addr) (*wire, error) {
	found, err := interfaceOf(own)
	if err != nil {
		return nil, err
	}
	const ethernet = unix.ETH_P_ARP<<8&0xff00 | unix.ETH_P_ARP>>8
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, ethernet)
	if err != nil {
		return nil, fmt.Errorf("opening a socket for ARP: %w", err)
	}
	to := unix.SockaddrLinklayer{
		Protocol: ethernet, Ifindex: found.Index, Halen: 6, Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: ethernet, Ifindex: found.Index}); err != nil {
		return nil, errors.Join(fmt.Errorf("listening to ARP on %s: %w", found.Name, err), unix.Close(fd))
	}
	return &wire{
		file: os.NewFile(uintptr(fd), "arp"), fd: fd, to: to, card: found.HardwareAddr, own: own, target: target,
	}, nil
}

func interfaceOf(own netip.Addr) (*net.Interface, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("listing interfaces: %w", err)
	}
	for i := range interfaces {
		addresses, err := interfaces[i].Addrs()
		if err != nil {
			return nil, fmt.Errorf("listing addresses: %w", err)
		}
		for _, address := range addresses {
			prefix, err := netip.ParsePrefix(address.String())
			if err == nil && prefix.Addr() == own {
				return &interfaces[i], nil
			}
		}
	}
	return nil, fmt.Errorf("no interface has the address %s", own)
}

// request broadcasts an ARP request for the address.
func (w *wire) request() error {
	message := make([]byte, messageLength)
	binary.BigEndian.PutUint16(message, hardwareEthernet)
	binary.BigEndian.PutUint16(message[2:], protocolIPv4)
	message[4], message[5] = 6, 4
	binary.BigEndian.PutUint16(message[operationAt:], operationRequest)
	copy(message[senderCardAt:], w.card)
	copy(message[senderAddressAt:], w.own.AsSlice())
	copy(message[targetAddressAt:], w.target.AsSlice())
	if err := unix.Sendto(w.fd, message, 0, &w.to); err != nil {
		return fmt.Errorf("sending an ARP request for %s: %w", w.target, err)
	}
	return nil
}

// next blocks until the next ARP reply and returns the MAC address of its sender. It fails when the socket is closed.
func (w *wire) next() (net.HardwareAddr, error) {
	message := make([]byte, messageLength)
	for {
		length, err := w.file.Read(message)
		if err != nil {
			return nil, err
		}
		if card := w.answer(message[:length]); card != nil {
			return card, nil
		}
	}
}

// answer returns the sender's MAC address of a reply to our request, and nil for any other message. It ignores
// gratuitous ARP: another machine may still have the address.
func (w *wire) answer(message []byte) net.HardwareAddr {
	if len(message) < messageLength || binary.BigEndian.Uint16(message[operationAt:]) != operationReply {
		return nil
	}
	from, _ := netip.AddrFromSlice(message[senderAddressAt : senderAddressAt+4])
	to, _ := netip.AddrFromSlice(message[targetAddressAt : targetAddressAt+4])
	if from != w.target || to != w.own {
		return nil
	}
	return append(net.HardwareAddr(nil), message[senderCardAt:senderCardAt+6]...)
}

func (w *wire) close() error { return w.file.Close() }
