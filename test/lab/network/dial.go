package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// dialLimit is how long Dial tries when its context sets no limit.
const dialLimit = 10 * time.Second

// Dial opens a connection from the gateway, such as to an API server of the lab. The network is one of tcp, tcp4, tcp6,
// udp, udp4 and udp6, and the address has a literal IP address and a port. Without a deadline it returns an error
// after ten seconds. The connection can be used anywhere.
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

// Listen opens a port of the gateway, which the machines can reach. The address is one of the gateway's with a port.
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
