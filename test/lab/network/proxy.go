package network

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
)

// Proxy is a TCP port outside of a lab that leads to one inside.
type Proxy struct {
	listener net.Listener
	inside   *Switch
	target   string
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// Proxy listens outside of the lab, such as on 127.0.0.1:0, and passes every connection on to the target inside, until
// the context ends or Close is called. The target need not listen yet: then a connection is closed at once.
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

// Address is where the proxy listens, with the port that it got.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Close ends the proxy and its connections, and waits for them.
func (p *Proxy) Close() {
	p.stop()
	p.running.Wait()
}

func (p *Proxy) accept(ctx context.Context) {
	for {
		outer, err := p.listener.Accept()
		if err != nil {
			// The listener was closed; there is nothing else that a listener on TCP refuses for good.
			return
		}
		p.running.Go(func() { p.serve(ctx, outer) })
	}
}

// serve passes bytes both ways until both ends have said that they send no more, or the proxy is closed.
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

// forward copies one direction and passes its end on. When it breaks, the other direction has to break as well.
func forward(to, from net.Conn) {
	_, err := io.Copy(to, from)
	half, canClose := to.(interface{ CloseWrite() error })
	if err != nil || !canClose || half.CloseWrite() != nil {
		_ = to.Close()
		_ = from.Close()
	}
}
