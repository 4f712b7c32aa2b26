package computer

import (
	"context"
	"net"
	"strings"
	"sync"
)

// Network gives the board controllers ports of the loopback interface, which Ironic reaches without a network of a lab.
type Network struct {
	mutex sync.Mutex
	// addresses are those that listen, by those of a lab.
	addresses map[string]string
}

// NewNetwork makes a network on which nobody listens.
func NewNetwork() *Network { return &Network{addresses: map[string]string{}} }

// Listen implements bmc.Network.
func (n *Network) Listen(ctx context.Context, kind, address string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, kind, "127.0.0.1:0")
	if err == nil {
		n.mutex.Lock()
		defer n.mutex.Unlock()
		n.addresses[address] = listener.Addr().String()
	}
	return listener, err
}

// Dial implements bmc.Network.
func (n *Network) Dial(ctx context.Context, kind, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, kind, n.Actual(address))
}

// Actual replaces an address of a lab in a text by the one that listens.
func (n *Network) Actual(text string) string {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for planned, actual := range n.addresses {
		text = strings.Replace(text, planned, actual, 1)
	}
	return text
}
