package computer

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// Network maps the addresses of BMCs to ports of one address, which Ironic reaches without a network of a lab.
type Network struct {
	host   string
	inside func(do func() error) error

	mutex sync.Mutex
	// addresses are the listening addresses by the addresses of a lab.
	addresses map[string]string
}

// NewNetwork returns a network on the loopback interface.
func NewNetwork() *Network {
	return NewNetworkAt("127.0.0.1", func(do func() error) error { return do() })
}

// NewNetworkAt returns a network on an address. Inside calls a function in the network namespace of the address.
func NewNetworkAt(host string, inside func(do func() error) error) *Network {
	return &Network{host: host, inside: inside, addresses: map[string]string{}}
}

// Listen implements bmc.Network. It does not map an address outside of the switch of a lab.
func (n *Network) Listen(ctx context.Context, kind, address string) (listener net.Listener, err error) {
	place := address
	if host, _, err := net.SplitHostPort(address); err == nil && host == network.Gateway4 {
		place = net.JoinHostPort(n.host, "0")
	}
	err = n.inside(func() error {
		listener, err = (&net.ListenConfig{}).Listen(ctx, kind, place)
		return err
	})
	if err == nil && place != address {
		n.mutex.Lock()
		defer n.mutex.Unlock()
		n.addresses[address] = listener.Addr().String()
	}
	return listener, err
}

// Dial implements bmc.Network.
func (n *Network) Dial(ctx context.Context, kind, address string) (connection net.Conn, err error) {
	err = n.inside(func() error {
		connection, err = (&net.Dialer{}).DialContext(ctx, kind, n.Actual(address))
		return err
	})
	return connection, err
}

// Actual replaces an address of a lab in a text by the listening one.
func (n *Network) Actual(text string) string {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for planned, actual := range n.addresses {
		text = strings.Replace(text, planned, actual, 1)
	}
	return text
}

// wire connects one agent to a network until it is cut.
type wire struct {
	network *Network

	mutex sync.Mutex
	isCut bool
	open  []net.Conn
}

// errCut is the error of a wire that was cut.
var errCut = errors.New("the wire is cut")

func (w *wire) Dial(ctx context.Context, kind, address string) (net.Conn, error) {
	connection, err := w.network.Dial(ctx, kind, address)
	if err != nil {
		return nil, err
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.isCut {
		return nil, errors.Join(errCut, connection.Close())
	}
	w.open = append(w.open, connection)
	return connection, nil
}

// cut closes all connections of the agent, and refuses new ones.
func (w *wire) cut() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.isCut = true
	for _, connection := range w.open {
		// Close fails only the second time.
		_ = connection.Close()
	}
	w.open = nil
}
