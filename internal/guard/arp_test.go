package guard_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// requestInterval is the interval of the ARP requests of a client, and the resolution of its measurements.
const requestInterval = 10 * time.Millisecond

// claim is one answer to an ARP request for the VIP.
type claim struct {
	at  time.Time
	who string
}

// census continuously sends ARP requests for the IPv4 VIP, and keeps all answers. Unlike an ARP cache, it records
// answers of two nodes.
type census struct {
	names  map[string]string
	every  time.Duration
	mutex  sync.Mutex
	claims []claim
}

// takeCensus sends requests from a client until the test ends. It also keeps the answers of other nodes.
func (l *lab) takeCensus(tb testing.TB, client *node, nodes ...*node) *census {
	tb.Helper()
	c := &census{names: map[string]string{}, every: requestInterval}
	for _, n := range nodes {
		link, err := n.links.LinkByName("eth0")
		must(tb, err)
		c.names[string(link.Attrs().HardwareAddr)] = n.name
	}
	link, err := client.links.LinkByName("eth0")
	must(tb, err)
	var socket int
	must(tb, within(client.space, func() error {
		var err error
		// The protocol is in network byte order.
		protocol := int(binary.BigEndian.Uint16([]byte{unix.ETH_P_ARP & 0xff, unix.ETH_P_ARP >> 8}))
		socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, protocol)
		return err
	}))
	must(tb, unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}))
	request := arpRequest(link.Attrs().HardwareAddr, client.address4.AsSlice())
	broadcast := &unix.SockaddrLinklayer{
		Protocol: binary.BigEndian.Uint16([]byte{unix.ETH_P_ARP & 0xff, unix.ETH_P_ARP >> 8}), Ifindex: link.Attrs().Index,
		Halen: 6, Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	}
	stop := make(chan struct{})
	var both sync.WaitGroup
	both.Go(func() {
		ticks := time.NewTicker(requestInterval)
		defer ticks.Stop()
		for {
			_ = unix.Sendto(socket, request, 0, broadcast)
			select {
			case <-stop:
				return
			case <-ticks.C:
			}
		}
	})
	both.Go(func() { c.collect(socket, client.address4.AsSlice(), stop) })
	tb.Cleanup(func() {
		close(stop)
		both.Wait()
		_ = unix.Close(socket)
	})
	return c
}

func arpRequest(hardware net.HardwareAddr, own []byte) []byte {
	packet := []byte{0, 1, 8, 0, 6, 4, 0, 1}
	packet = append(append(packet, hardware...), own...)
	packet = append(packet, make([]byte, 6)...)
	return append(packet, vip4.AsSlice()...)
}

// collect keeps the answers to the own requests, without announcements.
func (c *census) collect(socket int, own []byte, stop <-chan struct{}) {
	packet := make([]byte, 128)
	for {
		select {
		case <-stop:
			return
		default:
		}
		size, _, err := unix.Recvfrom(socket, packet, 0)
		if err != nil && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR) {
			return
		}
		if err != nil || size < 28 || packet[7] != 2 || !bytes.Equal(packet[14:18], vip4.AsSlice()) ||
			!bytes.Equal(packet[24:28], own) {
			continue
		}
		who, known := c.names[string(packet[8:14])]
		if !known {
			who = net.HardwareAddr(packet[8:14]).String()
		}
		c.mutex.Lock()
		c.claims = append(c.claims, claim{time.Now(), who})
		c.mutex.Unlock()
	}
}

func (c *census) since(then time.Time) []claim {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for i := range c.claims {
		if !c.claims[i].at.Before(then) {
			return append([]claim(nil), c.claims[i:]...)
		}
	}
	return nil
}

// arrival returns when a node other than the old one answered first.
func (c *census) arrival(then time.Time, old string) (time.Time, string, bool) {
	for _, claim := range c.since(then) {
		if claim.who != old {
			return claim.at, claim.who, true
		}
	}
	return time.Time{}, "", false
}

// overlap returns how long the old holder answered after the first answer of another node.
func (c *census) overlap(then time.Time, old string) time.Duration {
	began, _, moved := c.arrival(then, old)
	longest := time.Duration(0)
	for _, claim := range c.since(then) {
		if moved && claim.who == old {
			longest = max(longest, claim.at.Sub(began))
		}
	}
	return longest
}

// gap returns the longest time between two answers of any node.
func (c *census) gap(from, to time.Time) time.Duration {
	longest, last := time.Duration(0), from
	for _, claim := range c.since(from) {
		if claim.at.After(to) {
			break
		}
		longest, last = max(longest, claim.at.Sub(last)), claim.at
	}
	return max(longest, to.Sub(last))
}

// stretch is a time in which a node answered nearly every request.
type stretch struct {
	who      string
	from, to time.Time
}

// stretches returns the stretches since a time. A busy machine may lose a few answers; a takeover takes longer.
func (c *census) stretches(then time.Time) []stretch {
	var all []stretch
	latest := map[string]int{}
	for _, claim := range c.since(then) {
		i, known := latest[claim.who]
		if !known || claim.at.Sub(all[i].to) > 5*c.every {
			i = len(all)
			all = append(all, stretch{who: claim.who, from: claim.at})
			latest[claim.who] = i
		}
		// An answer holds until the next request.
		all[i].to = claim.at.Add(c.every)
	}
	return all
}

// shared returns how long two nodes answered at the same time.
func (c *census) shared(then time.Time) time.Duration {
	sum := time.Duration(0)
	all := c.stretches(then)
	for i, one := range all {
		for _, other := range all[:i] {
			from, to := one.from, one.to
			if other.from.After(from) {
				from = other.from
			}
			if other.to.Before(to) {
				to = other.to
			}
			if one.who != other.who && to.After(from) {
				sum += to.Sub(from)
			}
		}
	}
	return sum
}

// settled returns nothing when only one node has answered for a time.
func (c *census) settled(while time.Duration) func() string {
	return func() string {
		claims := c.since(time.Now().Add(-while))
		if len(claims) < int(while/requestInterval)/2 {
			return fmt.Sprintf("%d answers in %s", len(claims), while)
		}
		for _, claim := range claims {
			if claim.who != claims[0].who {
				return fmt.Sprintf("%s and %s answer", claims[0].who, claim.who)
			}
		}
		return ""
	}
}

// holder returns the node that answered last.
func (c *census) holder() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if len(c.claims) == 0 {
		return ""
	}
	return c.claims[len(c.claims)-1].who
}

func TestShared(t *testing.T) {
	t.Parallel()
	began := time.Now()
	// Each letter is the answer to one request. A dot is no answer, and 2 is an answer of a and of b.
	heard := func(text string) *census {
		c := &census{every: requestInterval}
		for i, letter := range text {
			at := began.Add(time.Duration(i) * requestInterval)
			switch letter {
			case '.':
			case '2':
				c.claims = append(c.claims, claim{at, "a"}, claim{at.Add(time.Millisecond), "b"})
			default:
				c.claims = append(c.claims, claim{at, string(letter)})
			}
		}
		return c
	}
	for name, test := range map[string]struct {
		reason, in string
		want       int
	}{
		"no answer":  {reason: "nothing is shared", in: "..."},
		"one":        {reason: "one node, and a lost answer", in: "aaa.aaa"},
		"moves":      {reason: "no node has it while it moves", in: "aaa..........bbb"},
		"comes back": {reason: "one node at a time", in: "aaa..........bbb..........aaa"},
		"two":        {reason: "from the first answer of the second to the last of the first", in: "aaa2222bbb", want: 4},
		"in turns":   {reason: "two nodes answer, and answers are lost", in: "aababbabb", want: 5},
		"once":       {reason: "one answer counts", in: "aaaabaaaa", want: 1},
	} {
		got := heard(test.in).shared(began)
		if want := time.Duration(test.want) * requestInterval; got > want || got < want-2*time.Millisecond {
			t.Errorf("%s: %s: got %s, want %s", name, test.reason, got, want)
		}
	}
}
