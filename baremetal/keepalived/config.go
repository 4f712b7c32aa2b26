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

// Role decides the priority of a node.
type Role int

// Values of Role.
const (
	// ControlPlane takes the VIPs when no node holds them, and does not preempt a holder.
	ControlPlane Role = iota

	// Management has the highest priority, and takes the VIPs from a control-plane node.
	Management

	// HandedOver is a management side after the handover. It keeps VIPs that it holds, but any control-plane node has a
	// higher priority: after a network partition, the database of the control plane is the current one.
	HandedOver
)

// Config is the configuration of keepalived on a node.
type Config struct {
	// Name of the node in the log of keepalived, without spaces.
	Name string

	// Role of the node.
	Role Role

	// Ordinal is the rank of a control-plane node: 0 takes over first. See Priority.
	Ordinal int

	// Interface for the VIPs and the advertisements.
	Interface string

	// VirtualRouterID identifies the group on the network, 1 to 255.
	VirtualRouterID int

	// Instances are one or two, of different address families.
	Instances []Instance

	// Unicast sends advertisements to the peers only. It must be the same on all nodes of a group.
	Unicast bool

	// Timers with an Interval that is a multiple of 10 ms. Zero means the defaults.
	Timers

	// Resume makes a node that held the VIPs take them again after one missed advertisement, before other nodes do. It is
	// set for a few seconds after the start.
	Resume bool

	// HealthFile and ArmedFile contain "1" while Ironic on the node is healthy, and while the node may hold the VIPs.
	// Their directories must exist before keepalived starts, because keepalived watches them.
	HealthFile, ArmedFile string
}

// Instance is one VIP.
type Instance struct {
	// Address is the VIP with the length of its prefix on the interface.
	Address netip.Prefix

	// Source is the node's own address. In mode Multicast it may be empty: keepalived then chooses one, and releases the
	// VIPs if the interface loses it. With IPv6 it chooses a link-local address.
	Source netip.Addr

	// Peers are the own addresses of the other members, in mode Unicast. Render omits those of the other family and
	// Source, so the list may have all members.
	Peers []netip.Addr
}

// Priorities. keepalived waits longer with a lower priority: with the default interval, a gap of 20 is 23 ms. Guards
// recognize members of a group by their priorities, so all releases have the same ones.
const (
	managementPriority = 150
	handedOverPriority = 10
	highestPriority    = 100
	priorityGap        = 20
	lowestPriority     = highestPriority - 4*priorityGap
)

// Priority returns the priority of a node: 150 for management, and 10 after the handover; 100, 80, 60, 40 and 20 for
// the control plane. Ordinals above 4 have the lowest one.
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

// Priorities returns all priorities of members of a group.
func Priorities() []int {
	return append([]int{managementPriority, handedOverPriority}, ControlPlanePriorities()...)
}

// ControlPlanePriorities returns the priorities of control-plane nodes, in order of their ranks.
func ControlPlanePriorities() []int {
	var all []int
	for priority := highestPriority; priority >= lowestPriority; priority -= priorityGap {
		all = append(all, priority)
	}
	return all
}

// withDefaults also normalizes instances and peers.
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

// notPlain matches characters with a meaning in the syntax of keepalived.
func notPlain(char rune) bool {
	letterOrDigit := char < unicode.MaxASCII && (unicode.IsLetter(char) || unicode.IsDigit(char))
	return !letterOrDigit && !strings.ContainsRune("._/:-", char)
}

func (c Config) checkInstances() error {
	if len(c.Instances) == 0 || len(c.Instances) > 2 {
		return fmt.Errorf("there are %d VIPs; set one or two", len(c.Instances))
	}
	if slices.ContainsFunc(c.Instances, func(i Instance) bool { return !i.Address.IsValid() }) {
		return errors.New("a VIP is empty; set the address and its prefix")
	}
	if len(c.Instances) == 2 && c.Instances[0].Address.Addr().Is4() == c.Instances[1].Address.Addr().Is4() {
		return fmt.Errorf("VIPs %s and %s are of one family; set at most one of each family",
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
		return fmt.Errorf("own address beside %s is %q; unicast requires one of the same family", i.Address, i.Source)
	case len(i.Peers) == 0:
		// keepalived would use multicast mode, in which the other members do not listen.
		return fmt.Errorf("%s has no peers beside the node itself, %s; list all members, or use multicast",
			i.Address, i.Source)
	default:
		return nil
	}
}
