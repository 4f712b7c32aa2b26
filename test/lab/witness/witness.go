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

	// bootInterval is how often a machine asks for an address, and how long it waits for offers.
	bootInterval = time.Second
)

// Options say what to watch.
type Options struct {
	// Switch is the network of the lab.
	Switch *network.Switch

	// Address is the address that is watched. It is one of IPv4.
	Address netip.Addr

	// Name is how a machine is called that has a network card. Nil calls it by the address of its card.
	Name func(net.HardwareAddr) string

	// Ask asks on the address as a client does and returns who answered. Nil asks no question.
	Ask func(context.Context) (string, error)

	// Server is how a machine is called that has an address. Nil sends no DHCP request.
	Server func(netip.Addr) string
}

// Witness watches an address until it is stopped.
type Witness struct {
	// Held says who answered for the address, Answered who answered the client, Offered who offered an address to a
	// machine that boots from the network.
	Held, Answered, Offered Journal

	options  Options
	wire     *wire
	newcomer *newcomer
	stop     context.CancelFunc
	work     sync.WaitGroup

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
	if err := network.Within(network.Name(options.Switch.Lab()), func() error { return witness.open(ctx) }); err != nil {
		return nil, fmt.Errorf("watching %s: %w", options.Address, errors.Join(err, witness.close()))
	}
	ctx, witness.stop = context.WithCancel(ctx)
	witness.work.Go(witness.listen)
	witness.work.Go(func() { witness.askMachines(ctx) })
	if options.Ask != nil {
		witness.work.Go(func() { witness.askService(ctx) })
	}
	if witness.newcomer != nil {
		witness.work.Go(witness.newcomer.listen)
		witness.work.Go(func() { witness.askServers(ctx) })
	}
	return witness, nil
}

// open opens what is needed in the namespace of the calling thread.
func (w *Witness) open(ctx context.Context) (err error) {
	gateway := netip.MustParseAddr(network.Gateway4)
	if w.wire, err = open(gateway, w.options.Address); err != nil || w.options.Server == nil {
		return err
	}
	w.newcomer, err = newNewcomer(ctx, gateway)
	return err
}

func (w *Witness) close() (err error) {
	if w.wire != nil {
		err = w.wire.close()
	}
	if w.newcomer != nil {
		err = errors.Join(err, w.newcomer.close())
	}
	return err
}

// Stop ends it. What it has seen stays.
func (w *Witness) Stop() error {
	w.stop()
	err := w.close()
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

// askServers asks for an address, again and again.
func (w *Witness) askServers(ctx context.Context) {
	ticks := time.NewTicker(bootInterval)
	defer ticks.Stop()
	for {
		asked := time.Now()
		err := w.newcomer.ask()
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		var seen []string
		if err != nil {
			seen = append(seen, "("+err.Error()+")")
		}
		for _, offer := range w.newcomer.answers() {
			who := w.options.Server(offer.server)
			if offer.next != w.options.Address {
				who += fmt.Sprintf(" (boot from %s)", offer.next)
			}
			seen = append(seen, who)
		}
		w.Offered.add(asked, seen...)
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
