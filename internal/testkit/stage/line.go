package stage

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

// Line is a connection to an API server that can be cut to simulate an outage: new connections are refused, and
// existing ones end.
type Line struct {
	// Config reaches the API server over the line.
	Config *rest.Config

	target  string
	address string

	mutex       sync.Mutex
	listener    net.Listener
	connections map[net.Conn]bool
}

// NewLine returns a line to an API server. The end of the spec removes it.
func NewLine(to *rest.Config) *Line {
	GinkgoHelper()
	line := &Line{
		Config: rest.CopyConfig(to), target: strings.TrimPrefix(to.Host, "https://"), address: "127.0.0.1:0",
		connections: map[net.Conn]bool{},
	}
	Expect(line.Mend()).To(Succeed())
	line.Config.Host = "https://" + line.address
	DeferCleanup(line.Cut)
	return line
}

// Mend accepts connections again.
func (l *Line) Mend() error {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", l.address)
	if err != nil {
		return fmt.Errorf("laying a line to %s: %w", l.target, err)
	}
	l.mutex.Lock()
	l.listener, l.address = listener, listener.Addr().String()
	l.mutex.Unlock()
	go l.serve(listener)
	return nil
}

// Cut ends all connections and refuses new ones.
func (l *Line) Cut() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	// Closing fails only the second time.
	_ = l.listener.Close()
	for connection := range l.connections {
		_ = connection.Close()
	}
	clear(l.connections)
}

func (l *Line) serve(listener net.Listener) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		far, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", l.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		l.keep(near, far)
		go l.carry(near, far)
		go l.carry(far, near)
	}
}

func (l *Line) carry(from, to net.Conn) {
	// The end of a connection ends its other half.
	_, _ = io.Copy(to, from)
	_ = from.Close()
	_ = to.Close()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	delete(l.connections, from)
	delete(l.connections, to)
}

func (l *Line) keep(connections ...net.Conn) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, connection := range connections {
		l.connections[connection] = true
	}
}
