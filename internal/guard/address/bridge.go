package address

import (
	"fmt"
	"net"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const bridgeType = "bridge"

// guestTypes are the types of ports that lead to guests and containers of the node.
var guestTypes = []string{"tuntap", "veth"}

// isUp returns true if the interface is up and has a carrier.
func isUp(link netlink.Link) bool {
	return link.Attrs().Flags&net.FlagUp != 0 && link.Attrs().RawFlags&unix.IFF_RUNNING != 0
}

// observeUplinks clears the carrier of a bridge if no uplink has one. The kernel keeps it while a guest has one.
func (i *Interface) observeUplinks() error {
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	master := uint32(i.Index) //nolint:gosec // An index is positive.
	request.AddData(nl.NewRtAttr(unix.IFLA_MASTER, nl.Uint32Attr(master)))
	messages, err := uninterrupted(func() ([][]byte, error) { return ask(request) })
	if err != nil {
		return fmt.Errorf("listing the ports of bridge %d: %w", i.Index, err)
	}
	working := false
	for _, message := range messages {
		port, err := netlink.LinkDeserialize(nil, message)
		if err != nil {
			return fmt.Errorf("reading a port of bridge %d: %w", i.Index, err)
		}
		// A kernel without this filter lists all interfaces.
		if port.Attrs().MasterIndex != i.Index || slices.Contains(guestTypes, port.Type()) {
			continue
		}
		i.uplinks = append(i.uplinks, port.Attrs().Index)
		working = working || isUp(port)
	}
	i.Up = i.Up && (working || len(i.uplinks) == 0)
	return nil
}
