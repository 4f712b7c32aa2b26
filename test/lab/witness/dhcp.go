package witness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	"golang.org/x/sys/unix"
)

// newcomer is a DHCP client without an address. It sends discoveries and never accepts an offer.
type newcomer struct {
	connection net.PacketConn
	card       net.HardwareAddr

	// mutex guards the fields below.
	mutex sync.Mutex
	// transaction is that of the last discovery, and offers has the answers to it.
	transaction dhcpv4.TransactionID
	offers      []offer
}

// offer is the offer of a server, with the address to boot from.
type offer struct {
	server, next netip.Addr
}

// newNewcomer opens the DHCP client port on the interface with address beside in the current namespace. Any thread can
// use the client.
func newNewcomer(ctx context.Context, beside netip.Addr) (*newcomer, error) {
	found, err := interfaceOf(beside)
	if err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failure error
		err := raw.Control(func(fd uintptr) { failure = unix.BindToDevice(int(fd), found.Name) })
		return errors.Join(err, failure)
	}}
	connection, err := config.ListenPacket(ctx, "udp4", fmt.Sprintf(":%d", dhcpv4.ClientPort))
	if err != nil {
		return nil, fmt.Errorf("listening to DHCP on %s: %w", found.Name, err)
	}
	return &newcomer{connection: connection, card: found.HardwareAddr}, nil
}

// discover broadcasts a DHCP discovery and discards the offers to the previous one.
func (n *newcomer) discover() error {
	discovery, err := dhcpv4.NewDiscovery(n.card, dhcpv4.WithBroadcast(true), dhcpv4.WithNetboot,
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient")), dhcpv4.WithOption(dhcpv4.OptClientArch(iana.EFI_X86_64)))
	if err != nil {
		return fmt.Errorf("creating a DHCP discovery: %w", err)
	}
	n.mutex.Lock()
	n.transaction, n.offers = discovery.TransactionID, nil
	n.mutex.Unlock()
	broadcast := &net.UDPAddr{IP: net.IPv4bcast, Port: dhcpv4.ServerPort}
	if _, err := n.connection.WriteTo(discovery.ToBytes(), broadcast); err != nil {
		return fmt.Errorf("sending a DHCP discovery: %w", err)
	}
	return nil
}

// answers returns the offers to the last discovery so far.
func (n *newcomer) answers() []offer {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.offers
}

// listen collects offers until the port is closed.
func (n *newcomer) listen() {
	packet := make([]byte, dhcpv4.MaxMessageSize)
	for {
		length, _, err := n.connection.ReadFrom(packet)
		if err != nil {
			return
		}
		if message, err := dhcpv4.FromBytes(packet[:length]); err == nil {
			n.note(message)
		}
	}
}

// note records an offer to the last discovery and ignores other messages.
func (n *newcomer) note(message *dhcpv4.DHCPv4) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if message.TransactionID != n.transaction || message.MessageType() != dhcpv4.MessageTypeOffer {
		return
	}
	server, _ := netip.AddrFromSlice(message.ServerIdentifier().To4())
	next, _ := netip.AddrFromSlice(message.ServerIPAddr.To4())
	n.offers = append(n.offers, offer{server: server, next: next})
}

func (n *newcomer) close() error { return n.connection.Close() }
