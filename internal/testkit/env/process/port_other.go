//go:build !linux

package process

import "net"

// reservePort returns a port that is free now. Other kernels do not let a child listen on a reserved port.
func reservePort() (port, descriptor int, err error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0") //nolint:noctx // nothing to cancel: it binds and closes
	if err != nil {
		return 0, 0, err
	}
	defer listener.Close() //nolint:errcheck // it accepted nothing
	return listener.Addr().(*net.TCPAddr).Port, 0, nil
}

func releasePort(int) {}
