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

// Disconnect ends the TCP connections of the node and of its pods to addresses that have left the interface. It returns
// the clients.
//
// Without it, such a pod waits for minutes. The kernel gives the packets of the pod to the old connection, and does not
// forward them to the next holder of the address, which would reset the connection. The kernel keeps the connection
// until its program ends, and then up to two minutes longer, because no packet with the address can leave the node.
func (i Interface) Disconnect(addresses []netip.Addr) ([]netip.AddrPort, error) {
	var ended []netip.AddrPort
	var failures []error
	gone := flows{}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		sockets, err := netlink.SocketDiagTCP(family)
		if err != nil {
			failures = append(failures, fmt.Errorf("listing TCP connections: %w", err))
		}
		for _, socket := range sockets {
			one := flow{
				client: endpoint(socket.ID.Destination, socket.ID.DestinationPort),
				server: endpoint(socket.ID.Source, socket.ID.SourcePort),
			}
			if !isOpen(socket) || !i.cutsOff(one, addresses) {
				continue
			}
			if err := destroy(socket); errors.Is(err, syscall.ENOENT) {
				continue
			} else if err != nil {
				failures = append(failures, fmt.Errorf("ending the connection of %s to %s: %w", one.client, one.server, err))
				continue
			}
			ended, gone[one] = append(ended, one.client), true
		}
	}
	return ended, errors.Join(append(failures, gone.forget())...)
}

// cutsOff returns true for a connection to one of the addresses that cannot continue elsewhere: of a pod, or of the
// node itself, where both ends are the address.
func (i Interface) cutsOff(one flow, addresses []netip.Addr) bool {
	client := one.client.Addr()
	return slices.Contains(addresses, one.server.Addr()) && (slices.Contains(addresses, client) || !i.leadsTo(client))
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

// leadsTo returns true if the client is outside of the node, or if this is not known. The packets of such a client
// reach the next holder. A pod is reached by a route of its own, through another interface.
func (i Interface) leadsTo(client netip.Addr) bool {
	if slices.ContainsFunc(i.Addresses, func(prefix netip.Prefix) bool { return prefix.Contains(client) }) {
		return true
	}
	routes, err := netlink.RouteGet(client.AsSlice())
	if err != nil || len(routes) == 0 || routes[0].LinkIndex == i.Index {
		return true
	}
	entries, err := netlink.RouteGetWithOptions(client.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
	if err != nil || len(entries) == 0 || entries[0].Dst == nil {
		return true
	}
	length, _ := entries[0].Dst.Mask.Size()
	return length == 0
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
		var field [net.IPv6len]byte
		copy(field[:], address)
		data = append(data, field[:]...)
	}
	for _, number := range []uint32{r.ID.Interface, r.ID.Cookie[0], r.ID.Cookie[1]} {
		data = binary.NativeEndian.AppendUint32(data, number)
	}
	return data
}

// flow is a TCP connection, as the server has it.
type flow struct{ client, server netip.AddrPort }

// flows are connections whose entries in the connection tracking of the kernel must be deleted. An entry of a pod and
// an address of the node has no masquerading, and the answer of the next holder would not reach the pod.
type flows map[flow]bool

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (f flows) MatchConntrackFlow(tracked *netlink.ConntrackFlow) bool {
	answer := tracked.Reverse
	return answer.Protocol == unix.IPPROTO_TCP &&
		f[flow{endpoint(answer.DstIP, answer.DstPort), endpoint(answer.SrcIP, answer.SrcPort)}]
}

// forget deletes the entries. A kernel without connection tracking has none.
func (f flows) forget() error {
	if len(f) == 0 {
		return nil
	}
	var failures []error
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		_, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, f)
		if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EPROTONOSUPPORT) {
			failures = append(failures, fmt.Errorf("deleting tracked connections: %w", err))
		}
	}
	return errors.Join(failures...)
}
