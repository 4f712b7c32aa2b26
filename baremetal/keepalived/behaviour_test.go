package keepalived_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
)

// story is a group of the management side m and the control-plane nodes a and b.
type story struct {
	*world
	family  string
	unicast bool

	// each is the number of VIPs of a holder.
	each int
}

func newStory(t *testing.T, family string, unicast bool, interval time.Duration) *story {
	t.Helper()
	s := &story{world: newWorld(t), family: family, unicast: unicast, each: len(addresses(family))}
	s.add("m", 10)
	s.add("a", 21)
	s.add("b", 22)
	for name, config := range s.configs() {
		config.Interval = interval
		s.start(name, config)
	}
	return s
}

func (s *story) configs() map[string]keepalived.Config {
	configs := map[string]keepalived.Config{
		"m": node(s.family, s.unicast, keepalived.Management, 10),
		"a": node(s.family, s.unicast, keepalived.ControlPlane, 21),
		"b": node(s.family, s.unicast, keepalived.ControlPlane, 22),
	}
	second := configs["b"]
	second.Ordinal = 1
	configs["b"] = second
	return configs
}

// holder returns the result of holding if the node holds all VIPs.
func (s *story) holder(name string) string {
	return fmt.Sprintf("%s:%d", name, s.each)
}

func (s *story) trackAll(file, word string) {
	for name := range s.nodes {
		s.track(name, file, word)
	}
}

// calm is an interval for a busy machine: a takeover takes at least a second and a half. The constant while is longer
// than any takeover.
const (
	calm  = 500 * time.Millisecond
	while = 5 * calm
)

// TestBehaviour runs the handover with the real keepalived: its check of the file does not report ignored options.
func TestBehaviour(t *testing.T) {
	for _, family := range []string{"v4", "v6", "dual"} {
		for mode, unicast := range map[string]bool{"unicast": true, "multicast": false} {
			t.Run(family+"-"+mode, func(t *testing.T) {
				if testing.Short() && family != "dual" {
					t.Skip("a short test runs only both families together")
				}
				t.Parallel()
				s := newStory(t, family, unicast, calm)
				s.build()
				holder, other := s.handOver()
				s.goBack(s.failOver(holder, other))
			})
		}
	}
}

// TestTimersOfARollout mixes nodes with an interval of one second and nodes with the defaults, as in a rollout of
// another interval. A standby counts in intervals of the holder, so it takes over only from a holder that lost power.
func TestTimersOfARollout(t *testing.T) {
	before := keepalived.Timers{Interval: time.Second}
	now := keepalived.Timers{Interval: keepalived.DefaultAdvertisementInterval, Within: keepalived.DefaultTakeoverWithin}
	for name, timers := range map[string]map[string]keepalived.Timers{
		"holder before the rollout":  {"a": before, "b": now},
		"standby before the rollout": {"a": now, "b": before},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &story{world: newWorld(t), family: "v4", unicast: true, each: 1}
			s.add("a", 21)
			s.add("b", 22)
			for node, config := range s.configs() {
				if config.Timers = timers[node]; node != "m" {
					s.start(node, config)
				}
			}
			s.trackAll("ironic-ok", "1")
			s.track("a", "armed", "1")
			s.until("the first armed node takes the VIP", s.holder("a"))
			s.track("b", "armed", "1")
			s.stays("the standby receives advertisements", s.holder("a"), 3*before.DownTime(1))
			s.crash("a")
			s.until("the holder loses power", s.holder("b"))
		})
	}
}

// build is the state before the move: at first no node may hold a VIP, then only the management side.
func (s *story) build() {
	s.stays("no track file is written", "", while)
	s.trackAll("ironic-ok", "1")
	s.stays("Ironic is healthy everywhere and no node is armed", "", while)
	s.trackAll("ironic-ok", "0")
	s.trackAll("armed", "1")
	s.stays("all are armed and Ironic is healthy nowhere", "", while)
	s.trackAll("armed", "0")
	s.trackAll("ironic-ok", "1")
	s.track("m", "armed", "1")
	s.until("management alone is armed", s.holder("m"))
	s.stays("no other node holds the VIP", s.holder("m"), while)
}

// one waits until either a or b holds the VIPs, and returns the holder first. On a busy machine, the lower rank may
// win, because the delays differ by a few milliseconds. Both may hold the VIPs until they receive the advertisements of
// each other, so one waits for a settled state.
func (s *story) one(what string) (holder, other string) {
	s.until(what, s.holder("a"), s.holder("b"))
	s.settled(while)
	if s.until(what+", settled", s.holder("a"), s.holder("b")); s.holding() == s.holder("a") {
		return "a", "b"
	}
	return "b", "a"
}

// handOver is the move, with a step back, and the loss of the management side.
func (s *story) handOver() (holder, other string) {
	s.trackAll("armed", "1")
	s.stays("all are armed", s.holder("m"), while)
	s.track("m", "armed", "0")
	s.one("management is demoted")
	s.track("m", "armed", "1")
	s.until("management is armed again and reclaims the VIP after its delay", s.holder("m"))
	s.crash("m")
	return s.one("management loses power")
}

// failOver breaks the holder in several ways. No node reclaims a VIP. At the end, the first holder has the VIPs again
// and the other node has lost power.
func (s *story) failOver(a, b string) (holder string) {
	s.remove(a, "ironic-ok")
	s.until("the health file of the holder is missing", s.holder(b))
	s.track(a, "ironic-ok", "1")
	s.stays("the first holder is healthy again", s.holder(b), while)
	s.track(b, "armed", "perhaps")
	s.until("the armed file of the holder is invalid", s.holder(a))
	s.track(b, "armed", "1")
	s.stays("the second holder is armed again", s.holder(a), while)
	s.kill(a, syscall.SIGTERM)
	s.until("keepalived of the holder is stopped", s.holder(b))
	s.start(a, s.configs()[a])
	s.stays("keepalived is started, and the health is unknown", s.holder(b), while)
	s.track(a, "ironic-ok", "1")
	s.stays("the first holder is healthy again", s.holder(b), while)
	s.crash(b)
	s.until("the holder loses power", s.holder(a))
	return a
}

// goBack hands the VIPs back to a new management side.
func (s *story) goBack(holder string) {
	s.add("n", 10)
	s.start("n", s.configs()["m"])
	s.track("n", "armed", "1")
	s.stays("Ironic of the new management side is not healthy", s.holder(holder), while)
	s.track("n", "ironic-ok", "1")
	s.until("Ironic of the new management side is healthy", s.holder("n"))
}

// TestOwnAddress removes the own IPv4 address of the holder, as systemd-networkd does when the carrier is lost. In mode
// Multicast the address is also absent when keepalived starts.
func TestOwnAddress(t *testing.T) {
	for mode, unicast := range map[string]bool{"unicast": true, "multicast": false} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := &story{world: newWorld(t), family: "dual", unicast: unicast, each: 2}
			s.add("a", 21)
			s.add("b", 22)
			if !unicast {
				s.own("a", (*netlink.Handle).AddrDel)
			}
			for node, config := range s.configs() {
				if config.Interval = calm; node != "m" {
					s.start(node, config)
				}
			}
			s.trackAll("ironic-ok", "1")
			s.track("a", "armed", "1")
			s.until("the only armed node takes the VIP", s.holder("a"))
			s.track("b", "armed", "1")
			s.stays("the standby receives advertisements", s.holder("a"), while)
			if !unicast {
				s.own("a", (*netlink.Handle).AddrAdd)
				s.stays("the address arrives", s.holder("a"), while)
			}
			s.own("a", (*netlink.Handle).AddrDel)
			s.stays("the address is removed", s.holder("a"), calm)
			s.own("a", (*netlink.Handle).AddrAdd)
			s.stays("the address is back", s.holder("a"), while)
			s.crash("a")
			s.until("the holder loses power", s.holder("b"))
		})
	}
}
