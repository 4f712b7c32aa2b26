package address

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// answerPatience is the timeout of an answer of the kernel, which usually answers before the request returns.
var answerPatience = unix.Timeval{Sec: 5}

// ask sends a request and returns the parts of its answer. The kernel applies the filter of a list request, which it
// does not do for the connections of the netlink library.
func ask(request *nl.NetlinkRequest) ([][]byte, error) {
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("connecting to the kernel: %w", err)
	}
	defer socket.Close()
	// Kernels before 4.20 have no filter. The reader skips entries that it did not request.
	_ = unix.SetsockoptInt(socket.GetFd(), unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)
	if err := socket.SetReceiveTimeout(&answerPatience); err != nil {
		return nil, err
	}
	request.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: socket}}
	return request.Execute(unix.NETLINK_ROUTE, 0)
}

// listAttempts is the maximum number of reads of a list that changes during the read.
const listAttempts = 10

// uninterrupted repeats a read of a list that changed during the read: the result may lack any entry.
func uninterrupted[T any](list func() ([]T, error)) (found []T, err error) {
	for range listAttempts {
		if found, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return found, err
}
