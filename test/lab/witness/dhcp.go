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

// newcomer is a machine without an address that boots from the network. It asks for an address and never takes one.
type newcomer struct {
	connection net.PacketConn
	card       net.HardwareAddr

	// mutex guards what is below.
	mutex sync.Mutex
	// asked is the number of the last question, and offers has the answers to it.
	asked  dhcpv4.TransactionID
	offers []offer
}

// offer is of a server, and names the address that the machine is to boot from.
type offer struct {
	server, next netip.Addr
}

// newNewcomer opens the port of DHCP clients on the interface of the calling thread's namespace that has an address. It
// can be used anywhere.
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

// ask broadcasts a DHCP discovery, and drops an earlier one without an answer.
func (n *newcomer) ask() error {
	question, err := dhcpv4.NewDiscovery(n.card, dhcpv4.WithBroadcast(true), dhcpv4.WithNetboot,
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient")), dhcpv4.WithOption(dhcpv4.OptClientArch(iana.EFI_X86_64)))
	if err != nil {
		return fmt.Errorf("making a question for DHCP: %w", err)
	}
	n.mutex.Lock()
	n.asked, n.offers = question.TransactionID, nil
	n.mutex.Unlock()
	broadcast := &net.UDPAddr{IP: net.IPv4bcast, Port: dhcpv4.ServerPort}
	if _, err := n.connection.WriteTo(question.ToBytes(), broadcast); err != nil {
		return fmt.Errorf("asking for an address: %w", err)
	}
	return nil
}

// answers are the offers to the last question so far.
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

// note keeps an offer to the last question, and nothing else.
func (n *newcomer) note(message *dhcpv4.DHCPv4) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if message.TransactionID != n.asked || message.MessageType() != dhcpv4.MessageTypeOffer {
		return
	}
	server, _ := netip.AddrFromSlice(message.ServerIdentifier().To4())
	next, _ := netip.AddrFromSlice(message.ServerIPAddr.To4())
	n.offers = append(n.offers, offer{server: server, next: next})
}

func (n *newcomer) close() error { return n.connection.Close() }
