package keepalived_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
)

// story is a group of the management side m and the control-plane nodes a and b.
type story struct {
	*world
	family  string
	unicast bool

	// each is how many addresses a holder has.
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

// holder is how the world says that a node holds all addresses.
func (s *story) holder(name string) string {
	return fmt.Sprintf("%s:%d", name, s.each)
}

func (s *story) sayAll(file, word string) {
	for name := range s.nodes {
		s.say(name, file, word)
	}
}

// calm is an interval for a busy machine: no node counts as dead in less than a second and a half. A while
// is longer than any node would wait.
const (
	calm  = 500 * time.Millisecond
	while = 5 * calm
)

// TestBehaviour tells the handover with the real keepalived: its own check of the file does not find what it ignores.
func TestBehaviour(t *testing.T) {
	for _, family := range []string{"v4", "v6", "dual"} {
		for mode, unicast := range map[string]bool{"unicast": true, "multicast": false} {
			t.Run(family+"-"+mode, func(t *testing.T) {
				if testing.Short() && family != "dual" {
					t.Skip("the nightly tests run each family alone, the short ones both together")
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

// TestTimersOfARollout has nodes that miss three advertisements of one second beside nodes with the defaults, as the
// rollout of another interval does. A standby counts in intervals of the holder, so it takes over from a dead holder only.
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
			s.sayAll("ironic-ok", "1")
			s.say("a", "armed", "1")
			s.until("the first one takes the addresses", s.holder("a"))
			s.say("b", "armed", "1")
			s.stays("the standby hears the holder", s.holder("a"), 3*before.DownTime(1))
			s.crash("a")
			s.until("the holder loses power", s.holder("b"))
		})
	}
}

// build is the time before the move: no node may hold a VIP, then the management side alone.
func (s *story) build() {
	s.stays("nothing is said", "", while)
	s.sayAll("ironic-ok", "1")
	s.stays("Ironic is healthy everywhere and no node is armed", "", while)
	s.sayAll("ironic-ok", "0")
	s.sayAll("armed", "1")
	s.stays("all are armed and Ironic is healthy nowhere", "", while)
	s.sayAll("armed", "0")
	s.sayAll("ironic-ok", "1")
	s.say("m", "armed", "1")
	s.until("management alone is armed", s.holder("m"))
	s.stays("and no other node follows", s.holder("m"), while)
}

// one waits until a or b holds the addresses and says who it is. Their ranks lie so few milliseconds apart that a busy
// machine may turn them around, which does no harm. Two that miss the holder at the same moment may both take the
// addresses until they hear one another, so who it is shows when nothing changes any longer.
func (s *story) one(what string) (holder, other string) {
	s.until(what, s.holder("a"), s.holder("b"))
	s.settled(while)
	if s.until(what+" and all agree", s.holder("a"), s.holder("b")); s.holding() == s.holder("a") {
		return "a", "b"
	}
	return "b", "a"
}

// handOver is the move, with a step back, and the loss of the management side.
func (s *story) handOver() (holder, other string) {
	s.sayAll("armed", "1")
	s.stays("all are armed", s.holder("m"), while)
	s.say("m", "armed", "0")
	s.one("management is demoted")
	s.say("m", "armed", "1")
	s.until("management is armed again and reclaims the VIP after its delay", s.holder("m"))
	s.crash("m")
	return s.one("management loses power")
}

// failOver loses one thing after the other on the control plane. No node reclaims a VIP. It ends where it began, with
// the other node lost.
func (s *story) failOver(a, b string) (holder string) {
	s.remove(a, "ironic-ok")
	s.until("the health of the holder is not known", s.holder(b))
	s.say(a, "ironic-ok", "1")
	s.stays("it is healthy again", s.holder(b), while)
	s.say(b, "armed", "perhaps")
	s.until("the holder is armed with garbage", s.holder(a))
	s.say(b, "armed", "1")
	s.stays("it is armed again", s.holder(a), while)
	s.kill(a, syscall.SIGTERM)
	s.until("keepalived of the holder is stopped", s.holder(b))
	s.start(a, s.configs()[a])
	s.stays("it is started, and Ironic was not looked at yet", s.holder(b), while)
	s.say(a, "ironic-ok", "1")
	s.stays("it is back", s.holder(b), while)
	s.crash(b)
	s.until("the holder loses power", s.holder(a))
	return a
}

// goBack is the way back to a management side, which begins with an Ironic of its own.
func (s *story) goBack(holder string) {
	s.add("n", 10)
	s.start("n", s.configs()["m"])
	s.say("n", "armed", "1")
	s.stays("a new management side whose Ironic is not up", s.holder(holder), while)
	s.say("n", "ironic-ok", "1")
	s.until("its Ironic is up", s.holder("n"))
}
