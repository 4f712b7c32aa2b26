package guard_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/computer"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// powerSpan is the time from a power request until the BMC has changed the power and answers.
const powerSpan = 2 * time.Second

// slowMachine is a computer that changes its power in powerSpan, also if the client of its BMC disconnects.
type slowMachine struct {
	*computer.Computer
	// received has room for one notification of a power request.
	received chan struct{}
}

// PowerOn implements bmc.Power.
func (m *slowMachine) PowerOn(ctx context.Context) error {
	m.delay()
	return m.Computer.PowerOn(ctx)
}

// PowerOff implements bmc.Power.
func (m *slowMachine) PowerOff(ctx context.Context) error {
	m.delay()
	return m.Computer.PowerOff(ctx)
}

func (m *slowMachine) delay() {
	select {
	case m.received <- struct{}{}:
	default:
	}
	<-time.After(powerSpan)
}

// inFlight are two hosts that Ironic manages during a storm.
type inFlight struct {
	*cluster
	// powered is the host of power commands, with its machine.
	powered *computed
	machine *slowMachine
	// deploying is a host with an agent that writes an image without end, and sends heartbeats.
	deploying *computed
	// heartbeats are the times at which Ironic recorded heartbeats, some of them several times.
	heartbeats census
}

// newInFlight serves the BMCs of the hosts at the client, and records heartbeats until the test ends.
func (s *stage) newInFlight(client *node) *inFlight {
	bmcs := client.startBMCs()
	f := &inFlight{
		cluster: &cluster{lab: s.lab, all: s.nodes, client: client, api: s.api}, deploying: bmcs.compute(1),
		powered: &computed{bmcs: bmcs, name: "powered", mac: network.HardwareAddress(2).String()},
		machine: &slowMachine{computer.New(computer.Options{}), make(chan struct{}, 1)},
	}
	must(s.t, bmcs.Add(f.powered.name, bmcUser, bmcPassword, f.machine))
	f.deploying.Break(computer.StepWrite, computer.Hangs)
	api := client.api(vip4)
	api.HTTPClient.Timeout = time.Second
	stop := make(chan struct{})
	var observer sync.WaitGroup
	observer.Go(func() {
		every(500*time.Millisecond, stop, func() {
			node, err := nodes.Get(context.Background(), api, f.deploying.node().Name).Extract()
			if err != nil {
				return
			}
			f.heartbeats.mutex.Lock()
			defer f.heartbeats.mutex.Unlock()
			f.heartbeats.claims = append(f.heartbeats.claims, claim{at: lastHeartbeat(node)})
		})
	})
	s.t.Cleanup(func() {
		close(stop)
		observer.Wait()
	})
	return f
}

// lastHeartbeat returns the zero time before the first heartbeat.
func lastHeartbeat(node *nodes.Node) time.Time {
	value, _ := node.DriverInternalInfo["agent_last_heartbeat"].(string)
	at, _ := time.Parse("2006-01-02T15:04:05.999999", value)
	return at
}

// find returns the node of a host from the Ironic at the VIP. Nil if this Ironic has not registered the host.
func (f *inFlight) find(b *testing.B, of *computed) (found *nodes.Node) {
	b.Helper()
	eventually(b, time.Minute, "Ironic answers for the host", func() string {
		var err error
		found, err = nodes.Get(b.Context(), f.api, of.node().Name).Extract()
		if gophercloud.ResponseCodeIs(err, 404) {
			found = nil
			return ""
		}
		return text(err)
	})
	return found
}

// heartbeat waits for a heartbeat after a time, in the state wait call-back, and returns its time.
func (f *inFlight) heartbeat(b *testing.B, after time.Time) (at time.Time) {
	b.Helper()
	eventually(b, time.Minute, "a heartbeat of the host that writes the image", func() string {
		node := f.find(b, f.deploying)
		if node == nil {
			return "the host is not registered"
		}
		at = lastHeartbeat(node)
		if !at.After(after) || node.ProvisionState != string(nodes.DeployWait) || node.DeployStep["step"] != "write_image" {
			return fmt.Sprintf("%s, step %v, last heartbeat %s, error %q", node.ProvisionState, node.DeployStep["step"], at,
				node.LastError)
		}
		return ""
	})
	return at
}

// powerCommand is a power command during a storm.
type powerCommand struct {
	*inFlight
	storm  storm
	target nodes.TargetPowerState
	began  time.Time
	// heard is the time of the last heartbeat before the storm. Zero if the storm ends the database.
	heard time.Time
	// took is the time from the request until Ironic has no target power state, and failure is the error in Ironic then.
	took    time.Duration
	failure string
	// power is the power state in Ironic in the end. Empty if its database is new.
	power string
}

// begin requests a change of the power, and returns when the BMC has received the request and not answered it.
func (f *inFlight) begin(b *testing.B, what storm) *powerCommand {
	b.Helper()
	c := &powerCommand{inFlight: f, storm: what, target: nodes.PowerOn}
	if f.find(b, f.powered) == nil {
		f.enrol(f.powered)
	}
	if what.keeps {
		if f.find(b, f.deploying) == nil {
			f.beginDeploy(f.deploying)
		}
		c.heard = f.heartbeat(b, time.Time{})
	}
	if f.machine.Powered() {
		c.target = nodes.PowerOff
	}
	c.began = time.Now()
	c.request(b)
	select {
	case <-f.machine.received:
	case <-time.After(generous):
		b.Fatal("the BMC has received no power request")
	}
	return c
}

// request requests the power state. Ironic refuses the request while it reads the power state of the host.
func (c *powerCommand) request(b *testing.B) {
	b.Helper()
	eventually(b, generous, "Ironic accepts the power command", func() string {
		return text(nodes.ChangePowerState(b.Context(), c.api, c.powered.node().Name,
			nodes.PowerStateOpts{Target: c.target}).ExtractErr())
	})
}

// end waits until the BMC and Ironic have ended the command. If Ironic reports an error, it repeats the command once,
// as BMO does.
func (c *powerCommand) end(b *testing.B) {
	b.Helper()
	eventually(b, time.Minute, "the BMC changes the power", func() string {
		return differs(fmt.Sprint(c.target == nodes.PowerOn), fmt.Sprint(c.machine.Powered()))
	})
	node := c.idle(b)
	if node == nil {
		return
	}
	c.took, c.failure = time.Since(c.began), node.LastError
	if c.failure != "" {
		c.request(b)
		node = c.idle(b)
	}
	if node != nil {
		c.power = node.PowerState
	}
}

// idle returns the node when Ironic has no target power state. Nil if the database is new.
func (c *powerCommand) idle(b *testing.B) (node *nodes.Node) {
	b.Helper()
	eventually(b, time.Minute, "the power command ends", func() string {
		if node = c.find(b, c.powered); node == nil {
			return ""
		}
		return node.TargetPowerState
	})
	return node
}

// record adds the results to the measurements of the storm, after the recovery.
func (c *powerCommand) record(b *testing.B, entered *measured, kept bool) {
	b.Helper()
	requests := 0
	for _, operation := range c.powered.bmcs.OperationsSince(c.began) {
		if operation.Machine == c.powered.name && operation.Resource == "reset" {
			requests++
		}
	}
	entered.requests = max(entered.requests, requests)
	if requests != 1 {
		b.Errorf("%s: the BMC received %d power requests for one command", c.storm.name, requests)
	}
	if !kept {
		return
	}
	entered.took = append(entered.took, c.took)
	if c.failure != "" {
		entered.failed++
		b.Logf("%s: the power command: %s", c.storm.name, c.failure)
	}
	if c.power != string(c.target) {
		b.Errorf("%s: the power state in Ironic is %q instead of %q", c.storm.name, c.power, c.target)
	}
	if c.storm.keeps {
		entered.silence = append(entered.silence, c.heartbeats.gap(c.heard, c.heartbeat(b, time.Now())))
	}
}
