package address

import (
	"net"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
)

const (
	bridgeType = "bridge"

	// runningFlag is IFF_RUNNING: the interface has a carrier.
	runningFlag = 0x40
)

// guestTypes are the types of ports that lead to guests and containers of the node.
var guestTypes = []string{"tuntap", "veth"}

func isUp(link netlink.Link) bool {
	return link.Attrs().Flags&net.FlagUp != 0 && link.Attrs().RawFlags&runningFlag != 0
}

// observeUplinks clears the carrier of a bridge if no uplink has one. The kernel keeps it while a guest has one.
func (k *kernel) observeUplinks(bridge *Interface) error {
	working := false
	err := uninterrupted(func() error {
		bridge.uplinks, working = nil, false
		request := nl.NewNetlinkRequest(syscall.RTM_GETLINK, syscall.NLM_F_DUMP)
		request.AddData(nl.NewIfInfomsg(syscall.AF_UNSPEC))
		master := uint32(bridge.Index) //nolint:gosec // An index is positive.
		request.AddData(nl.NewRtAttr(syscall.IFLA_MASTER, nl.Uint32Attr(master)))
		return k.send(request, func(message []byte) error {
			port, err := netlink.LinkDeserialize(nil, message)
			// A kernel without this filter lists all interfaces.
			if err != nil || port.Attrs().MasterIndex != bridge.Index || slices.Contains(guestTypes, port.Type()) {
				return err
			}
			bridge.uplinks = append(bridge.uplinks, port.Attrs().Index)
			working = working || isUp(port)
			return nil
		})
	})
	bridge.Up = bridge.Up && (working || len(bridge.uplinks) == 0)
	return err
}
