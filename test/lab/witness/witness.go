package witness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

const (
	// interval is how often the questions are asked.
	interval = 100 * time.Millisecond

	// patience is how long a client waits for an answer.
	patience = time.Second
)

// Options say what to watch.
type Options struct {
	// Switch is the network of the lab.
	Switch *network.Switch

	// Address is the address that is watched. It is one of IPv4.
	Address netip.Addr

	// Name is how a machine is called that has a network card. Nil calls it by the address of its card.
	Name func(net.HardwareAddr) string

	// Ask asks on the address as a client does and returns who answered. Nil asks nobody.
	Ask func(context.Context) (string, error)
}

// Witness watches an address until it is stopped.
type Witness struct {
	// Held says who answered for the address, Answered who answered the client.
	Held, Answered Journal

	options Options
	wire    *wire
	stop    context.CancelFunc
	work    sync.WaitGroup

	// mutex guards what is below.
	mutex sync.Mutex
	// seen has who answered the last question so far.
	seen []string
}

// Start watches from inside the switch, beside all machines.
func Start(ctx context.Context, options Options) (*Witness, error) {
	if !options.Address.Is4() {
		return nil, fmt.Errorf("watching %s: give an address of IPv4", options.Address)
	}
	if options.Name == nil {
		options.Name = net.HardwareAddr.String
	}
	witness := &Witness{options: options}
	err := network.Within(network.Name(options.Switch.Lab()), func() (err error) {
		witness.wire, err = open(netip.MustParseAddr(network.Gateway4), options.Address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", options.Address, err)
	}
	ctx, witness.stop = context.WithCancel(ctx)
	witness.work.Go(witness.listen)
	witness.work.Go(func() { witness.askMachines(ctx) })
	if options.Ask != nil {
		witness.work.Go(func() { witness.askService(ctx) })
	}
	return witness, nil
}

// Stop ends it. What it has seen stays.
func (w *Witness) Stop() error {
	w.stop()
	err := w.wire.close()
	w.work.Wait()
	return err
}

// listen collects answers until the wire is closed.
func (w *Witness) listen() {
	for {
		card, err := w.wire.next()
		if err != nil {
			return
		}
		w.mutex.Lock()
		w.seen = append(w.seen, w.options.Name(card))
		w.mutex.Unlock()
	}
}

func (w *Witness) askMachines(ctx context.Context) {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		asked := time.Now()
		err := w.wire.ask()
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		w.mutex.Lock()
		seen := w.seen
		w.seen = nil
		w.mutex.Unlock()
		if err != nil {
			seen = append(seen, "("+err.Error()+")")
		}
		w.Held.add(asked, seen...)
	}
}

func (w *Witness) askService(ctx context.Context) {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		asked := time.Now()
		limited, cancel := context.WithTimeout(ctx, patience)
		who, err := w.options.Ask(limited)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.Answered.add(asked)
		default:
			w.Answered.add(asked, who)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// Check fails when several machines held the address for longer than a limit since a time.
func (w *Witness) Check(since time.Time, limit time.Duration) error {
	var failures []error
	for _, span := range w.Held.Since(since) {
		if span.Shared() && span.Length() > limit {
			failures = append(failures, fmt.Errorf("several machines hold %s: %s", w.options.Address, span))
		}
	}
	return errors.Join(failures...)
}
