package keepalived

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Limits of the advertisement interval. VRRP counts it in hundredths of a second, with twelve bits.
const (
	advertisementStep = 10 * time.Millisecond
	maxAdvertisement  = 40 * time.Second
)

// Role decides how a node competes.
type Role int

// Values of Role.
const (
	// ControlPlane takes the VIPs when no node holds them, and keeps them.
	ControlPlane Role = iota

	// Management has the highest priority, and takes the addresses back from a node of the control plane.
	Management

	// HandedOver is a management side that gave its cluster to the control plane. It keeps addresses that it holds, but
	// any node of the control plane wins against it: when a divided network is one again, the database of the control
	// plane is the one in use.
	HandedOver
)

// Config is what a node says to keepalived.
type Config struct {
	// Name of the node in the messages of keepalived, without spaces.
	Name string

	// Role of the node.
	Role Role

	// Ordinal ranks nodes of the control plane: 0 takes over first. See Priority.
	Ordinal int

	// Interface carries the addresses and the advertisements.
	Interface string

	// VirtualRouterID tells the group from others on the network, 1 to 255.
	VirtualRouterID int

	// Instances are one or two, of different families.
	Instances []Instance

	// Unicast sends advertisements to the peers alone. All nodes of a group agree on it.
	Unicast bool

	// Timers with an Interval that is a multiple of 10 ms. Zero means the defaults.
	Timers

	// Resume makes a node that held the addresses a moment ago take them back before the others miss it. It is for a few
	// seconds after the start: such a node takes the addresses after one advertisement that it did not hear.
	Resume bool

	// HealthFile and ArmedFile hold "1" while Ironic on the node is healthy, and while the node may hold the addresses.
	// Each lies in a directory that exists before keepalived starts and stays: the directory is watched.
	HealthFile, ArmedFile string
}

// Instance is one virtual address.
type Instance struct {
	// Address with the length of the prefix that it has on the interface.
	Address netip.Prefix

	// Source is the node's own address, in mode unicast.
	Source netip.Addr

	// Peers are the own addresses of the other members, in mode unicast. Those of the other family and Source are left
	// out by Render, so the whole list of members can be given.
	Peers []netip.Addr
}

// Priorities. keepalived turns the gap between two ranks into time: with the default interval a gap of 20 is 23 ms.
// Guards tell members of a group from others by their priorities, so all releases have the same ones.
const (
	managementPriority = 150
	handedOverPriority = 10
	highestPriority    = 100
	priorityGap        = 20
	lowestPriority     = highestPriority - 4*priorityGap
)

// Priority is how strongly a node competes: 150 for management, and 10 after the handover; 100, 80, 60, 40 and 20 for
// the control plane. Ordinals past the fourth share the lowest one.
func Priority(role Role, ordinal int) int {
	switch role {
	case Management:
		return managementPriority
	case HandedOver:
		return handedOverPriority
	case ControlPlane:
	}
	return max(highestPriority-priorityGap*max(ordinal, 0), lowestPriority)
}

// Priorities are all that members of a group have.
func Priorities() []int {
	return append([]int{managementPriority, handedOverPriority}, ControlPlanePriorities()...)
}

// ControlPlanePriorities are those that nodes of the control plane have, in order of their ranks.
func ControlPlanePriorities() []int {
	var all []int
	for priority := highestPriority; priority >= lowestPriority; priority -= priorityGap {
		all = append(all, priority)
	}
	return all
}

// withDefaults also brings instances and peers into the form that is rendered.
func (c Config) withDefaults() Config {
	if c.Interval == 0 {
		c.Timers = Timers{Interval: DefaultAdvertisementInterval, Within: DefaultTakeoverWithin}
	}
	c.Instances = slices.Clone(c.Instances)
	for i, instance := range c.Instances {
		peers := slices.DeleteFunc(slices.Clone(instance.Peers), func(peer netip.Addr) bool {
			return peer == instance.Source || peer.Is4() != instance.Address.Addr().Is4()
		})
		slices.SortFunc(peers, netip.Addr.Compare)
		c.Instances[i].Peers = slices.Compact(peers)
	}
	return c
}

func (c Config) check() error {
	words := map[string]string{
		"name": c.Name, "interface": c.Interface, "health file": c.HealthFile, "armed file": c.ArmedFile,
	}
	for name, word := range words {
		if word == "" || strings.ContainsFunc(word, notPlain) {
			return fmt.Errorf("%s is %q; use letters, digits and the characters . _ / : - only", name, word)
		}
	}
	interval := c.Interval
	switch {
	case !path.IsAbs(c.HealthFile) || !path.IsAbs(c.ArmedFile):
		return fmt.Errorf("track files are %q and %q; use absolute paths", c.HealthFile, c.ArmedFile)
	case c.HealthFile == c.ArmedFile:
		return fmt.Errorf("track files are both %q; use two", c.HealthFile)
	case c.VirtualRouterID < 1 || c.VirtualRouterID > 255:
		return fmt.Errorf("virtual router ID is %d; use 1 to 255", c.VirtualRouterID)
	case interval < advertisementStep || interval > maxAdvertisement || interval%advertisementStep != 0:
		return fmt.Errorf("advertisement interval is %s; use a multiple of %s up to %s",
			interval, advertisementStep, maxAdvertisement)
	default:
		return c.checkInstances()
	}
}

// notPlain finds characters that mean something to the parser of keepalived.
func notPlain(char rune) bool {
	letterOrDigit := char < unicode.MaxASCII && (unicode.IsLetter(char) || unicode.IsDigit(char))
	return !letterOrDigit && !strings.ContainsRune("._/:-", char)
}

func (c Config) checkInstances() error {
	if len(c.Instances) == 0 || len(c.Instances) > 2 {
		return fmt.Errorf("there are %d virtual addresses; give one or two", len(c.Instances))
	}
	if slices.ContainsFunc(c.Instances, func(i Instance) bool { return !i.Address.IsValid() }) {
		return errors.New("a virtual address is empty; give the address and its prefix")
	}
	if len(c.Instances) == 2 && c.Instances[0].Address.Addr().Is4() == c.Instances[1].Address.Addr().Is4() {
		return fmt.Errorf("virtual addresses %s and %s are of one family; give at most one of each family",
			c.Instances[0].Address, c.Instances[1].Address)
	}
	for _, instance := range c.Instances {
		if c.Unicast {
			if err := instance.checkUnicast(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (i Instance) checkUnicast() error {
	switch {
	case !i.Source.IsValid() || i.Source.Is4() != i.Address.Addr().Is4():
		return fmt.Errorf("own address beside %s is %q; unicast needs one of the same family", i.Address, i.Source)
	case len(i.Peers) == 0:
		// keepalived would go on in multicast mode, where the other members do not listen.
		return fmt.Errorf("%s has no peers beside the node itself, %s; list all members, or use multicast",
			i.Address, i.Source)
	default:
		return nil
	}
}
