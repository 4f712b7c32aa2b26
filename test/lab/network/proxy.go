package network

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
)

// Proxy is a TCP port outside of a lab that forwards connections into the lab.
type Proxy struct {
	listener net.Listener
	inside   *Switch
	target   string
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// Proxy listens outside of the lab, for example on 127.0.0.1:0, and forwards every connection to target inside the lab,
// until ctx ends or Close is called. While nothing listens on target, Proxy closes new connections.
func (s *Switch) Proxy(ctx context.Context, listen, target string) (*Proxy, error) {
	if err := checkAddress(target); err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("listening on %s for %s in lab %s: %w", listen, target, s.lab, err)
	}
	ctx, stop := context.WithCancel(ctx)
	proxy := &Proxy{listener: listener, inside: s, target: target, stop: stop}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	proxy.running.Go(func() { proxy.accept(ctx) })
	return proxy, nil
}

// Address returns the address and the port that the proxy listens on.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Close ends the proxy and its connections, and blocks until they have ended.
func (p *Proxy) Close() {
	p.stop()
	p.running.Wait()
}

func (p *Proxy) accept(ctx context.Context) {
	for {
		outer, err := p.listener.Accept()
		if err != nil {
			// The listener is closed. No other error of Accept is permanent.
			return
		}
		p.running.Go(func() { p.serve(ctx, outer) })
	}
}

// serve copies bytes in both directions until both ends have closed their direction, or the proxy is closed.
func (p *Proxy) serve(ctx context.Context, outer net.Conn) {
	defer func() { _ = outer.Close() }()
	inner, err := p.inside.Dial(ctx, "tcp", p.target)
	if err != nil {
		return
	}
	defer func() { _ = inner.Close() }()
	release := context.AfterFunc(ctx, func() {
		_ = outer.Close()
		_ = inner.Close()
	})
	defer release()
	var both sync.WaitGroup
	both.Go(func() { forward(inner, outer) })
	both.Go(func() { forward(outer, inner) })
	both.Wait()
}

// forward copies one direction, then closes it for writing. An error closes both directions.
func forward(to, from net.Conn) {
	_, err := io.Copy(to, from)
	half, canClose := to.(interface{ CloseWrite() error })
	if err != nil || !canClose || half.CloseWrite() != nil {
		_ = to.Close()
		_ = from.Close()
	}
}
