package stage

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

// Line is a connection to an API server that can be cut or hang to simulate an outage. A line that is cut refuses new
// connections, and existing ones end. A line that hangs accepts connections and carries nothing.
type Line struct {
	// Config reaches the API server over the line.
	Config *rest.Config

	target  string
	address string
	hangs   atomic.Bool

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
	if l.listener == nil {
		return
	}
	// A listener that serves is closed here only.
	_ = l.listener.Close()
	l.listener = nil
	for connection := range l.connections {
		_ = connection.Close()
	}
	clear(l.connections)
}

// Hang keeps all connections open, accepts new ones, and drops what they carry until the end of the spec.
func (l *Line) Hang() { l.hangs.Store(true) }

// end is the connection that one half of a line writes to.
type end struct {
	io.Writer
	line *Line
}

func (e end) Write(content []byte) (int, error) {
	if e.line.hangs.Load() {
		return len(content), nil
	}
	return e.Writer.Write(content)
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
		if !l.keep(listener, near, far) {
			_, _ = near.Close(), far.Close()
			return
		}
		go l.carry(near, far)
		go l.carry(far, near)
	}
}

func (l *Line) carry(from, to net.Conn) {
	// The end of a connection ends its other half.
	_, _ = io.Copy(end{to, l}, from)
	_ = from.Close()
	_ = to.Close()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	delete(l.connections, from)
	delete(l.connections, to)
}

// keep returns false if the line was cut since it accepted the connections.
func (l *Line) keep(through net.Listener, connections ...net.Conn) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.listener != through {
		return false
	}
	for _, connection := range connections {
		l.connections[connection] = true
	}
	return true
}
