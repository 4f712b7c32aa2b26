package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env/certificates"
)

// Port is the port for commands.
const Port = 9999

// Version is the version of ironic-python-agent that the agent imitates, from OpenStack 2025.1.
const Version = "10.2.3"

// Machine is the machine of the agent.
type Machine interface {
	// Inventory returns the report of an inspection, with the JSON keys of ironic-python-agent.
	Inventory() (any, error)
	// Erase erases the disk.
	Erase(ctx context.Context) error
	// Write writes an image to the disk, and the files of a config drive.
	Write(ctx context.Context, image []byte, drive map[string][]byte) error
	// PowerOff powers the machine off, which ends the agent.
	PowerOff(ctx context.Context) error
}

// Options are the settings of an agent.
type Options struct {
	Parameters Parameters
	Machine    Machine
	// MAC is the hardware address of the machine in Ironic.
	MAC string
	// Node is the URL of the image for InstallStep. Empty if no host uses that step.
	Node string
	// Address of the machine. It must exist before Run.
	Address netip.Addr
	// Listen and Dial use the network of the machine. Nil means that of this process.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	// Log receives the log. Nil discards it.
	Log *slog.Logger
	// Retry is the time between two tries. Zero means a second.
	Retry time.Duration
}

// Agent is one boot of a ramdisk.
type Agent struct {
	Options
	ironic   ironicClient
	commands *commands
	// book is the log of the agent, for Ironic.
	book *logbook
}

// New returns an agent.
func New(options Options) (*Agent, error) {
	if options.Listen == nil {
		options.Listen = (&net.ListenConfig{}).Listen
	}
	if options.Dial == nil {
		options.Dial = (&net.Dialer{}).DialContext
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.Retry == 0 {
		options.Retry = time.Second
	}
	client, err := newIronicClient(options)
	if err != nil {
		return nil, err
	}
	book := &logbook{}
	options.Log = slog.New(slog.NewMultiHandler(options.Log.Handler(), slog.NewTextHandler(book, nil)))
	return &Agent{Options: options, ironic: client, book: book}, nil
}

// Run blocks until the context ends, as an agent does until the loss of power. It returns earlier only after an error.
func (a *Agent) Run(ctx context.Context) error {
	if err := a.run(ctx); ctx.Err() == nil {
		return err
	}
	// A request that the end of the context interrupted is no failure of the agent.
	return nil
}

func (a *Agent) run(ctx context.Context) error {
	if a.Parameters.Inspection != "" {
		if err := a.inspect(ctx); err != nil {
			return err
		}
	}
	if a.Parameters.API == "" {
		// Ironic powers the machine off.
		<-ctx.Done()
		return nil
	}
	serving, trust, err := certificates.Serving(a.Address.String())
	if err != nil {
		return err
	}
	node, err := a.lookUp(ctx)
	if err != nil {
		return err
	}
	address := net.JoinHostPort(a.Address.String(), strconv.Itoa(Port))
	listener, err := a.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serving commands on %s: %w", address, err)
	}
	a.commands = newCommands(steps{a.Machine, a.download, a.book, a.Node}, a.Parameters.Token, a.Log)
	server := &http.Server{Handler: a.commands.handler(), ReadHeaderTimeout: time.Minute, TLSConfig: serving}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	defer func() {
		_ = server.Close()
		a.commands.close()
	}()
	return a.beat(ctx, node, heartbeat{
		CallbackURL: "https://" + address, Version: Version, Token: a.Parameters.Token,
		Authority: string(trust),
	}, ended)
}

// inspect posts the inventory. Ironic answers 404 until it is ready for it.
func (a *Agent) inspect(ctx context.Context) error {
	report, err := a.Machine.Inventory()
	if err != nil {
		return fmt.Errorf("reading the inventory: %w", err)
	}
	return a.until(ctx, "posting the inventory", func() error {
		return a.ironic.post(ctx, a.Parameters.Inspection, "", report)
	})
}

// lookUp reads the node of the machine from Ironic. If the medium has no token, the first response has it. An agent
// without a token returns an error, because Ironic refuses its heartbeats.
func (a *Agent) lookUp(ctx context.Context) (node, error) {
	var found lookup
	err := a.until(ctx, "looking the machine up", func() error {
		var err error
		found, err = a.ironic.lookUp(ctx, a.MAC)
		return err
	})
	if err == nil && a.Parameters.Token == "" {
		if a.Parameters.Token = found.Config.Token; a.Parameters.Token == "" {
			err = errors.New("looking the machine up: the medium has no token, and Ironic has sent the token to an earlier boot")
		}
	}
	return node{uuid: found.Node.UUID, timeout: time.Duration(found.Config.HeartbeatTimeout) * time.Second}, err
}

// node is the node of the machine in Ironic.
type node struct {
	uuid string
	// timeout is the time without heartbeats after which Ironic fails the agent.
	timeout time.Duration
}

// longestPause is the maximum time between two heartbeats. Ironic ignores a heartbeat while it works on the node, so
// the next one delays the step.
const longestPause = 2 * time.Second

// beat sends heartbeats in intervals and when a command ends.
func (a *Agent) beat(ctx context.Context, node node, message heartbeat, ended <-chan error) error {
	pause := min(node.timeout*3/10, longestPause)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return fmt.Errorf("serving commands: %w", err)
		case <-timer.C:
		case <-a.commands.finished:
		}
		if err := a.ironic.beat(ctx, node.uuid, message); err != nil && ctx.Err() == nil {
			a.Log.Info("heartbeat failed", "error", err.Error())
		}
		timer.Reset(pause)
	}
}

// until retries until success or the end of the context.
func (a *Agent) until(ctx context.Context, what string, try func() error) error {
	last := ""
	for {
		err := try()
		if err == nil {
			a.Log.Info(what + ": done")
			return nil
		}
		if text := err.Error(); text != last && ctx.Err() == nil {
			a.Log.Info(what+" failed, trying again", "error", text)
			last = text
		}
		timer := time.NewTimer(a.Retry)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(fmt.Errorf("%s: %w", what, ctx.Err()), err)
		}
	}
}
