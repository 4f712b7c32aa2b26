// Package computer is a machine for tests that require Ironic and no operating system: it has a BMC and the real agent
// of the ramdisk, but its disk only records the written image.
package computer

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/agent"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/bmc"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// Options are the settings of a computer. All are required.
type Options struct {
	// MAC is the hardware address of its card.
	MAC string

	// Address is the address of the agent.
	Address netip.Addr

	// Network is the network of the BMCs and of the agent.
	Network *Network

	// Log receives the log of the agent. Failed receives its error if it ends before the ramdisk is off.
	Log    *slog.Logger
	Failed func(error)
}

// Computer is one machine. It is safe for concurrent use.
type Computer struct {
	options Options

	mutex        sync.Mutex
	withoutAgent bool
	// cards are the hardware addresses of additional network cards.
	cards []string
	// breaks has the failures of the agent by step.
	breaks map[Step]Failure
	// wire is the network of the running agent, and kill ends only the agent.
	wire *wire
	kill context.CancelFunc
	// end powers the ramdisk off. Nil while none runs.
	end    func()
	on     bool
	image  string
	drive  map[string][]byte
	events []string
}

var (
	_ bmc.Machine   = &Computer{}
	_ agent.Machine = &Computer{}
)

// New returns a computer that is off.
func New(options Options) *Computer { return &Computer{options: options} }

// SetMute prevents the agents of all following ramdisks from starting, or permits it.
func (c *Computer) SetMute(muted bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.withoutAgent = muted
}

// AddCard adds a network card, which each following inspection finds.
func (c *Computer) AddCard(mac string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.cards = append(c.cards, mac)
}

// Step is a step in which an agent can fail.
type Step string

// Values of Step.
const (
	StepErase Step = "erase"
	StepWrite Step = "write image"
)

// Failure is a failure of an agent.
type Failure string

// Values of Failure.
const (
	// Dies ends the agent. The machine stays on.
	Dies Failure = "dies"
	// Silent disconnects the agent from Ironic. The step never ends.
	Silent Failure = "silent"
	// Hangs never ends the step. Heartbeats continue.
	Hangs Failure = "hangs"
)

// Break makes the agents of all following ramdisks fail in a step. An empty failure removes that.
func (c *Computer) Break(step Step, failure Failure) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.breaks == nil {
		c.breaks = map[Step]Failure{}
	}
	c.breaks[step] = failure
}

// fail causes the failure of a step, if there is one.
func (c *Computer) fail(ctx context.Context, step Step) error {
	c.mutex.Lock()
	failure, kill, wire := c.breaks[step], c.kill, c.wire
	c.mutex.Unlock()
	switch failure {
	case "":
		return nil
	case Dies:
		kill()
	case Silent:
		wire.cut()
	case Hangs:
		// Only the step never ends.
	}
	<-ctx.Done()
	return fmt.Errorf("%s: %w", step, ctx.Err())
}

func (c *Computer) note(event string) { c.events = append(c.events, event) }

// Powered implements bmc.Power.
func (c *Computer) Powered() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.on
}

// PowerOn implements bmc.Power.
func (c *Computer) PowerOn(context.Context) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if !c.on {
		c.on = true
		c.note("boot disk")
	}
	return nil
}

// PowerOnFrom implements bmc.Power.
func (c *Computer) PowerOnFrom(ctx context.Context, medium map[string][]byte) error {
	parameters, err := agent.ReadParameters(medium)
	if err != nil {
		return err
	}
	connected := &wire{network: c.options.Network}
	made, err := agent.New(agent.Options{
		Parameters: parameters, Machine: c, MAC: c.options.MAC, Address: c.options.Address,
		Listen: c.options.Network.Listen, Dial: connected.Dial, Log: c.options.Log,
	})
	if err != nil {
		return err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.on = true
	c.note("boot ramdisk")
	if c.withoutAgent {
		return nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := made.Run(ctx); err != nil {
			c.options.Failed(err)
		}
	}()
	c.wire, c.kill = connected, cancel
	c.end = func() {
		cancel()
		<-ended
	}
	return nil
}

// PowerOff implements bmc.Power and agent.Machine.
func (c *Computer) PowerOff(context.Context) error {
	c.mutex.Lock()
	end := c.end
	if c.on {
		c.note("off")
	}
	c.on, c.end = false, nil
	c.mutex.Unlock()
	if end != nil {
		end()
	}
	return nil
}

// Shutdown implements bmc.Power.
func (c *Computer) Shutdown(ctx context.Context) error { return c.PowerOff(ctx) }

// Port implements bmc.Machine. Only an inspection by the BMC uses it.
func (c *Computer) Port() network.Port { return network.Port{} }

// Inventory implements agent.Machine.
func (c *Computer) Inventory() (any, error) {
	c.mutex.Lock()
	cards := append([]string{c.options.MAC}, c.cards...)
	c.mutex.Unlock()
	interfaces := make([]any, len(cards))
	for i, mac := range cards {
		interfaces[i] = map[string]any{"name": fmt.Sprintf("eth%d", i), "mac_address": mac, "has_carrier": true}
	}
	return map[string]any{"inventory": map[string]any{
		"interfaces": interfaces,
		"cpu":        map[string]any{"architecture": "x86_64", "count": 4}, "memory": map[string]any{"physical_mb": 8192},
		"disks":       []any{map[string]any{"name": "/dev/sda", "size": 107374182400}},
		"boot":        map[string]any{"current_boot_mode": "uefi", "pxe_interface": c.options.MAC},
		"bmc_address": nil, "system_vendor": map[string]any{"manufacturer": "Lab", "product_name": "m", "serial_number": "1"},
	}}, nil
}

// Erase implements agent.Machine.
func (c *Computer) Erase(ctx context.Context) error {
	if err := c.fail(ctx, StepErase); err != nil {
		return err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.image, c.drive = "", nil
	c.note(string(StepErase))
	return nil
}

// Write implements agent.Machine.
func (c *Computer) Write(ctx context.Context, image []byte, drive map[string][]byte) error {
	if err := c.fail(ctx, StepWrite); err != nil {
		return err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.image, c.drive = string(image), drive
	c.note(string(StepWrite))
	return nil
}

// Disk returns the last written image, and the files of the config drive. It is empty after an erasure.
func (c *Computer) Disk() (image string, drive map[string][]byte) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.image, c.drive
}

// Happened returns the events since the last call: "boot ramdisk", "boot disk", "write image", "erase", "off".
func (c *Computer) Happened() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	defer func() { c.events = nil }()
	return strings.Join(c.events, ", ")
}
