package address

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Disconnect ends the TCP connections of addresses that have left the node, if the node does not reach the client
// through the interface with the index. It returns the clients: they are pods of the node.
//
// Without it, such a client waits for minutes. The kernel gives the packets of the client to the old connection, and
// does not forward them to the next holder of the address, which would reset the connection. The kernel keeps the
// connection until its program ends, and then up to two minutes longer, because the client cannot be told.
func Disconnect(index int, addresses []netip.Addr) ([]netip.AddrPort, error) {
	var ended []netip.AddrPort
	var failures []error
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		sockets, err := netlink.SocketDiagTCP(family)
		if err != nil {
			failures = append(failures, fmt.Errorf("listing TCP connections: %w", err))
		}
		for _, socket := range sockets {
			server, client := endpoint(socket.ID.Source, socket.ID.SourcePort),
				endpoint(socket.ID.Destination, socket.ID.DestinationPort)
			if !slices.Contains(addresses, server.Addr()) || !isOpen(socket) || isThrough(index, client.Addr()) {
				continue
			}
			if err := destroy(socket); errors.Is(err, syscall.ENOENT) {
				continue
			} else if err != nil {
				failures = append(failures, fmt.Errorf("ending the connection of %s to %s: %w", client, server, err))
				continue
			}
			ended = append(ended, client)
		}
	}
	return ended, errors.Join(failures...)
}

// endpoint returns one end of a connection. A socket for both IP families has IPv4 addresses in IPv6 form.
func endpoint(address net.IP, port uint16) netip.AddrPort {
	parsed, _ := netip.AddrFromSlice(address)
	return netip.AddrPortFrom(parsed.Unmap(), port)
}

// isOpen returns true for a connection that can be destroyed. A connection that its program has closed is excluded:
// kernels before 6.12 keep it for ever after the request.
func isOpen(socket *netlink.Socket) bool {
	switch socket.State {
	case unix.BPF_TCP_ESTABLISHED, unix.BPF_TCP_SYN_RECV, unix.BPF_TCP_CLOSE_WAIT:
		return true
	case unix.BPF_TCP_FIN_WAIT1, unix.BPF_TCP_FIN_WAIT2, unix.BPF_TCP_CLOSING, unix.BPF_TCP_LAST_ACK:
		return socket.INode != 0
	default:
		return false
	}
}

// isThrough returns true if the node reaches the address through the interface with the index.
func isThrough(index int, address netip.Addr) bool {
	routes, err := netlink.RouteGet(address.AsSlice())
	return err == nil && len(routes) > 0 && routes[0].LinkIndex == index
}

// destroy ends a connection, as ss --kill does.
func destroy(socket *netlink.Socket) error {
	request := nl.NewNetlinkRequest(nl.SOCK_DESTROY, unix.NLM_F_ACK)
	request.AddData((*socketRequest)(socket))
	_, err := request.Execute(unix.NETLINK_INET_DIAG, 0)
	return err
}

// socketRequest is inet_diag_req_v2 of the kernel. The one of the netlink library supports IPv4 only.
type socketRequest netlink.Socket

// socketRequestSize is the size of inet_diag_req_v2.
const socketRequestSize = 56

// Len returns the size of the request in bytes.
func (r *socketRequest) Len() int { return socketRequestSize }

// Serialize returns the request as the kernel reads it.
func (r *socketRequest) Serialize() []byte {
	addresses := [2]net.IP{r.ID.Source, r.ID.Destination}
	if r.Family == unix.AF_INET {
		addresses = [2]net.IP{r.ID.Source.To4(), r.ID.Destination.To4()}
	}
	data := append(make([]byte, 0, socketRequestSize), r.Family, unix.IPPROTO_TCP, 0, 0, 0, 0, 0, 0)
	data = binary.BigEndian.AppendUint16(data, r.ID.SourcePort)
	data = binary.BigEndian.AppendUint16(data, r.ID.DestinationPort)
	for _, address := range addresses {
		data = append(data, append(address, make(net.IP, net.IPv6len-len(address))...)...)
	}
	for _, number := range []uint32{r.ID.Interface, r.ID.Cookie[0], r.ID.Cookie[1]} {
		data = binary.NativeEndian.AppendUint32(data, number)
	}
	return data
}
