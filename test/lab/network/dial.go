package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// dialLimit is the time limit of Dial without a deadline.
const dialLimit = 10 * time.Second

// Dial opens a connection from the gateway, such as to an API server of the lab. The network is tcp, tcp4, tcp6, udp,
// udp4 or udp6. The address is an IP address with a port. Without a deadline it returns an error after ten seconds.
func (s *Switch) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := checkAddress(address); err != nil {
		return nil, err
	}
	var connection net.Conn
	err := Within(Name(s.lab), func() (err error) {
		dialer := net.Dialer{Timeout: dialLimit}
		connection, err = dialer.DialContext(ctx, network, address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("dialling %s in lab %s: %w", address, s.lab, err)
	}
	return connection, nil
}

// Listen opens a port of the gateway for machines. The address is one of the gateway with a port.
func (s *Switch) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	if err := checkAddress(address); err != nil {
		return nil, err
	}
	var listener net.Listener
	err := Within(Name(s.lab), func() (err error) {
		listener, err = new(net.ListenConfig).Listen(ctx, network, address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listening on %s in lab %s: %w", address, s.lab, err)
	}
	return listener, nil
}

func checkAddress(address string) error {
	if _, err := netip.ParseAddrPort(address); err != nil {
		return fmt.Errorf("the address is %q: use a literal IP address and a port, because a lab has no DNS: %w",
			address, err)
	}
	return nil
}
