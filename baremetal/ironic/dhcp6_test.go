package ironic_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/thread"
)

// Options of DHCPv6, with the numbers of RFC 8415 and RFC 5970.
const (
	optionClientID     = 1
	optionAddress      = 3
	optionRequest      = 6
	optionElapsed      = 8
	optionVendorClass  = 16
	optionBootFile     = 59
	optionArchitecture = 61
)

// TestDHCP6Behaviour requests a boot program from the real dnsmasq over IPv6.
func TestDHCP6Behaviour(t *testing.T) {
	for name, device := range map[string]string{"named": "provisioning", "chosen": ""} {
		t.Run(name, func(t *testing.T) { dhcp6Behaviour(t, device) })
	}
}

func dhcp6Behaviour(t *testing.T, device string) {
	t.Helper()
	program := dnsmasq(t)
	server, client := cable(t, "fd00:172:22::21/64", "fd00:172:22::2/64")
	config := full()
	config.DHCP, config.Interface = dhcp6(), device
	config.VirtualIPs = []netip.Addr{netip.MustParseAddr("fd00:172:22::2")}
	serve(t, server, program, config)
	for architecture, want := range map[uint16]string{
		7: "snponly-x86_64.efi", 9: "snponly-x86_64.efi", 11: "snponly-arm64.efi",
	} {
		if got, want := bootFile(t, client, architecture), "tftp://[fd00:172:22::2]/"+want; got != want {
			t.Errorf("architecture %d: boot file is %q, want %q", architecture, got, want)
		}
	}
}

// bootFile returns the boot file that the server offers for an architecture.
func bootFile(t *testing.T, namespace netns.NsHandle, architecture uint16) string {
	t.Helper()
	packet := solicit(architecture)
	var answer []byte
	err := thread.Own(func() error {
		if err := netns.Set(namespace); err != nil {
			return err
		}
		link, err := net.InterfaceByName("client")
		if err != nil {
			return err
		}
		socket, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(socket) }()
		err = errors.Join(
			unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}),
			unix.Bind(socket, &unix.SockaddrInet6{Port: 546}),
		)
		if err != nil {
			return err
		}
		servers := &unix.SockaddrInet6{Port: 547, ZoneId: uint32(link.Index), Addr: netip.MustParseAddr("ff02::1:2").As16()}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		answer, err = solicitUntilAnswered(ctx, socket, servers, packet)
		return err
	})
	if err != nil {
		t.Fatalf("requesting an address: %v", err)
	}
	for rest := answer[4:]; len(rest) >= 4; {
		length := int(binary.BigEndian.Uint16(rest[2:]))
		if binary.BigEndian.Uint16(rest) == optionBootFile {
			return string(rest[4 : 4+length])
		}
		rest = rest[4+length:]
	}
	return ""
}

// solicitUntilAnswered sends until the answer to this packet arrives. At first, the client may have no address,
// and the server may not be up.
func solicitUntilAnswered(ctx context.Context, socket int, servers unix.Sockaddr, packet []byte) ([]byte, error) {
	answer := make([]byte, 1500)
	var sent, received error
	for ctx.Err() == nil {
		sent = unix.Sendto(socket, packet, 0, servers)
		var length int
		length, _, received = unix.Recvfrom(socket, answer, 0)
		if received == nil && length >= 4 && [3]byte(answer[1:4]) == [3]byte(packet[1:4]) {
			return answer[:length], nil
		}
	}
	return nil, fmt.Errorf("no answer: %w", errors.Join(ctx.Err(), sent, received))
}

func solicit(architecture uint16) []byte {
	const kind, enterprise = 1, 343
	packet := binary.BigEndian.AppendUint32(nil, questions.Add(1)|kind<<24)
	option := func(code uint16, content ...byte) {
		packet = binary.BigEndian.AppendUint16(packet, code)
		packet = binary.BigEndian.AppendUint16(packet, uint16(len(content)))
		packet = append(packet, content...)
	}
	option(optionClientID, 0, 3, 0, 1, 0x02, 0x22, 0, 0, 0, 0x77)
	option(optionAddress, make([]byte, 12)...)
	option(optionRequest, 0, optionBootFile)
	option(optionElapsed, 0, 0)
	class := fmt.Sprintf("PXEClient:Arch:%05d", architecture)
	option(optionVendorClass, append([]byte{0, 0, enterprise >> 8, enterprise & 0xff, 0, byte(len(class))}, class...)...)
	option(optionArchitecture, byte(architecture>>8), byte(architecture))
	return packet
}
