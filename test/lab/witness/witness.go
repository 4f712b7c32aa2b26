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
	// interval is the time between two ARP requests.
	interval = 100 * time.Millisecond

	// serviceInterval is the time between two requests of a client. Ironic needs some hundredths of a second of a
	// processor for each, which the machines of a lab share.
	serviceInterval = 500 * time.Millisecond

	// patience is the time limit for an answer.
	patience = time.Second

	// bootInterval is the time between two DHCP requests, and the time limit for offers.
	bootInterval = time.Second
)

// Options configures a Witness.
type Options struct {
	// Switch is the network of the lab.
	Switch *network.Switch

	// Address is the IPv4 address to observe.
	Address netip.Addr

	// Name returns the name of the machine with a network card. Nil uses the MAC address.
	Name func(net.HardwareAddr) string

	// Ask sends a request to the address as a client and returns the name of the server. Nil sends no request.
	Ask func(context.Context) (string, error)

	// Server returns the name of the machine with an address. Nil sends no DHCP request.
	Server func(netip.Addr) string
}

// Witness observes an address until it is stopped.
type Witness struct {
	// Held records the machines that answer ARP for the address. Answered records the servers that answer Ask. Offered
	// records the machines that offer DHCP.
	Held, Answered, Offered Journal

	options  Options
	wire     *wire
	newcomer *newcomer
	stop     context.CancelFunc
	work     sync.WaitGroup

	// mutex guards the fields below.
	mutex sync.Mutex
	// seen has the machines that have answered the last ARP request.
	seen []string
}

// Start observes from the namespace of the switch.
func Start(ctx context.Context, options Options) (*Witness, error) {
	if !options.Address.Is4() {
		return nil, fmt.Errorf("watching %s: an IPv4 address is required", options.Address)
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
	witness.work.Go(func() { witness.probeARP(ctx) })
	if options.Ask != nil {
		witness.work.Go(func() { witness.probeService(ctx) })
	}
	if witness.newcomer != nil {
		witness.work.Go(witness.newcomer.listen)
		witness.work.Go(func() { witness.probeDHCP(ctx) })
	}
	return witness, nil
}

// open opens the sockets in the namespace of the current thread.
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

// Stop ends the observation and keeps the journals.
func (w *Witness) Stop() error {
	w.stop()
	err := w.close()
	w.work.Wait()
	return err
}

// listen collects ARP replies until the socket is closed.
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

func (w *Witness) probeARP(ctx context.Context) {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		requested := time.Now()
		err := w.wire.request()
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
		w.Held.add(requested, seen...)
	}
}

func (w *Witness) probeService(ctx context.Context) {
	ticks := time.NewTicker(serviceInterval)
	defer ticks.Stop()
	for {
		requested := time.Now()
		limited, cancel := context.WithTimeout(ctx, patience)
		who, err := w.options.Ask(limited)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.Answered.add(requested)
		default:
			w.Answered.add(requested, who)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// probeDHCP sends DHCP requests until ctx ends.
func (w *Witness) probeDHCP(ctx context.Context) {
	ticks := time.NewTicker(bootInterval)
	defer ticks.Stop()
	for {
		requested := time.Now()
		err := w.newcomer.discover()
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
		w.Offered.add(requested, seen...)
	}
}

// Check returns an error if several machines held the address for longer than limit after since.
func (w *Witness) Check(since time.Time, limit time.Duration) error {
	var failures []error
	for _, span := range w.Held.Since(since) {
		if span.Shared() && span.Length() > limit {
			failures = append(failures, fmt.Errorf("several machines hold %s: %s", w.options.Address, span))
		}
	}
	return errors.Join(failures...)
}
