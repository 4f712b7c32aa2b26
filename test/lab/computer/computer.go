// Package computer is a machine for tests that need Ironic and no operating system: a board controller turns it on and
// off and the agent of its ramdisk is real, but its disk is a note of what was written.
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

// Options are what a computer needs. All of them are required.
type Options struct {
	// MAC is the hardware address of its card.
	MAC string

	// Address is that of the agent.
	Address netip.Addr

	// Network is that of the board controllers and of the agent.
	Network *Network

	// Log takes what the agent does, and Failed why it ended before the ramdisk was turned off.
	Log    *slog.Logger
	Failed func(error)
}

// Computer is one machine. Its methods may be called at the same time.
type Computer struct {
	options Options

	mutex sync.Mutex
	mute  bool
	// breaks says how the agent fails in the middle of a step.
	breaks map[Step]Failure
	// wire is the network of the agent that runs, and kill ends the agent and nothing else.
	wire *wire
	kill context.CancelFunc
	// end turns the ramdisk off. It is nil while none runs.
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

// New makes a computer that is off.
func New(options Options) *Computer { return &Computer{options: options} }

// Mute lets the agents of all ramdisks from now on never begin.
func (c *Computer) Mute() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.mute = true
}

// Step is a step in whose middle an agent can fail.
type Step string

// Values of Step.
const (
	StepErase Step = "erase"
	StepWrite Step = "write image"
)

// Failure is how an agent fails.
type Failure string

// Values of Failure.
const (
	// Dies ends the agent. The machine stays on.
	Dies Failure = "dies"
	// Silent cuts the agent off from Ironic. The step never ends.
	Silent Failure = "silent"
	// Hangs never ends the step. Heartbeats go on.
	Hangs Failure = "hangs"
)

// Break makes the agents of all ramdisks from now on fail in the middle of a step. An empty failure ends that.
func (c *Computer) Break(step Step, failure Failure) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.breaks == nil {
		c.breaks = map[Step]Failure{}
	}
	c.breaks[step] = failure
}

// fail fails as it was told to, and returns at once if it was not.
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
		// The step only never ends.
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
	if c.mute {
		return nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := made.Run(ctx); err != nil && ctx.Err() == nil {
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

// Port implements bmc.Machine. Only an inspection that asks the board controller would want it.
func (c *Computer) Port() network.Port { return network.Port{} }

// Inventory implements agent.Machine.
func (c *Computer) Inventory() (any, error) {
	return map[string]any{"inventory": map[string]any{
		"interfaces": []any{map[string]any{"name": "eth0", "mac_address": c.options.MAC, "has_carrier": true}},
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

// Disk is the image that was written last, and the files of the config drive beside it. It is empty after an erasure.
func (c *Computer) Disk() (image string, drive map[string][]byte) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.image, c.drive
}

// Happened is what the computer did since the last call: "boot ramdisk", "boot disk", "write image", "erase", "off".
func (c *Computer) Happened() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	defer func() { c.events = nil }()
	return strings.Join(c.events, ", ")
}
