package process

import (
	"fmt"
	"net"
	"syscall"
)

// reservePort binds a socket that never listens. The bind is exclusive, because SO_REUSEADDR is still off: no other
// reservation gets the port, and the kernel gives it to no outgoing connection. Switched on afterwards, SO_REUSEADDR
// lets a child, whose listener sets it as well, bind and listen.
func reservePort() (port, descriptor int, err error) {
	descriptor, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		if err != nil {
			releasePort(descriptor)
		}
	}()
	if err = syscall.Bind(descriptor, &syscall.SockaddrInet4{Addr: [4]byte(net.IPv4(127, 0, 0, 1).To4())}); err != nil {
		return 0, 0, err
	}
	if err = syscall.SetsockoptInt(descriptor, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, 0, err
	}
	name, err := syscall.Getsockname(descriptor)
	if err != nil {
		return 0, 0, err
	}
	address, isIPv4 := name.(*syscall.SockaddrInet4)
	if !isIPv4 {
		return 0, 0, fmt.Errorf("unexpected address %v", name)
	}
	return address.Port, descriptor, nil
}

func releasePort(descriptor int) {
	// The kernel closes the descriptor at the end of the process in any case.
	_ = syscall.Close(descriptor)
}
