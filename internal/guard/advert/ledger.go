package advert

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
)

// Group is the VRRP group of this node.
type Group struct {
	// RouterID is the virtual router ID of the group.
	RouterID int

	// Virtual are the addresses of the group.
	Virtual []netip.Addr

	// Own are the addresses of this node.
	Own []netip.Addr

	// Peers are the other members. Empty means unknown: any speaker may be a member.
	Peers []netip.Addr
}

// Classify returns whether a speaker is a member of the group, and how a foreign one collides with it. Other speakers
// have another virtual router ID and other addresses.
func (g Group) Classify(source netip.Addr, heard Advertisement) (isMember bool, collision string) {
	shares := slices.ContainsFunc(heard.Addresses, func(address netip.Addr) bool {
		return slices.Contains(g.Virtual, address)
	})
	switch {
	case slices.Contains(g.Own, source):
		return false, ""
	case int(heard.RouterID) != g.RouterID && shares:
		return false, fmt.Sprintf("holds our VIP under virtual router ID %d", heard.RouterID)
	case int(heard.RouterID) != g.RouterID:
		return false, ""
	case !shares:
		return false, fmt.Sprintf("uses our virtual router ID %d for %v", heard.RouterID,
			heard.Addresses[:min(1, len(heard.Addresses))])
	case heard.isDropped():
		return false, fmt.Sprintf("speaks for our VIP with version %d of VRRP and the hop limit %d; members use %d and %d",
			heard.Version, heard.HopLimit, vrrpVersion, hopLimit)
	case slices.Contains(g.Peers, source):
		return true, ""
	// Advertisements over IPv6 multicast come from link-local addresses, which no list of peers names.
	case len(g.Peers) > 0 && !source.IsLinkLocalUnicast():
		return false, "speaks for our VIP and is not in the list of peers"
	case heard.Priority > 0 && !slices.Contains(keepalived.Priorities(), int(heard.Priority)):
		return false, fmt.Sprintf("speaks for our VIP with priority %d, which no member has", heard.Priority)
	default:
		return true, ""
	}
}

// Version and hop limit of the packets of members.
const (
	vrrpVersion = 3
	hopLimit    = 255
)

// isDropped returns true if keepalived drops the packet. Packets with a lower hop limit may come from another network.
func (a Advertisement) isDropped() bool {
	return a.Version != vrrpVersion || a.HopLimit != hopLimit
}

// Limits of the ledger.
const (
	// foreignMemory is for how long a foreign speaker is reported after its last advertisement.
	foreignMemory = 30 * time.Second

	// maxSpeakers bounds the memory for a flood of forged sources.
	maxSpeakers = 128
)

// ForeignSpeaker is a VRRP speaker with the virtual router ID or the VIP of the group that is no member of it.
type ForeignSpeaker struct {
	// Source address.
	Source netip.Addr

	// Collision describes the conflict.
	Collision string
}

// Ledger records when each speaker was heard. It is safe for concurrent use.
type Ledger struct {
	mutex       sync.Mutex
	peers       map[netip.Addr]time.Time
	foreign     map[netip.Addr]foreigner
	management  time.Time
	holder      time.Time
	conflict    time.Time
	unreachable time.Time
}

type foreigner struct {
	collision string
	seen      time.Time
}

// NewLedger returns a ledger that starts to listen now. The silence of the management cluster counts from now.
func NewLedger(now time.Time) *Ledger {
	return &Ledger{peers: map[netip.Addr]time.Time{}, foreign: map[netip.Addr]foreigner{}, management: now}
}

// Record records an advertisement.
func (l *Ledger) Record(now time.Time, group Group, source netip.Addr, heard Advertisement) {
	isMember, collision := group.Classify(source, heard)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if _, known := l.foreign[source]; collision != "" && (known || len(l.foreign) < maxSpeakers) {
		l.foreign[source] = foreigner{collision, now}
	}
	if !isMember {
		return
	}
	if _, known := l.peers[source]; known || len(l.peers) < maxSpeakers {
		l.peers[source] = now
	}
	if heard.Priority > 0 {
		l.holder = now
	}
	if slices.Contains(keepalived.ControlPlanePriorities(), int(heard.Priority)) {
		l.conflict = now
	}
	if int(heard.Priority) >= keepalived.Priority(keepalived.Management, 0) {
		l.management = now
	}
}

// CannotHear records that no advertisement can arrive now, so that silence does not count. A silence that has reached
// the limit ends only with an advertisement of the management cluster. A limit of zero is never reached.
func (l *Ledger) CannotHear(now time.Time, limit time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.unreachable = now
	if limit <= 0 || now.Sub(l.management) < limit {
		l.management = now
	}
}

// HolderHeard returns when a peer last advertised as the VIP holder.
func (l *Ledger) HolderHeard() time.Time {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.holder
}

// ConflictHeard returns when another control-plane node last advertised as the VIP holder.
func (l *Ledger) ConflictHeard() time.Time {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.conflict
}

// MayHaveHeld returns when a peer last advertised as the VIP holder, or could have done so without being heard.
func (l *Ledger) MayHaveHeld() time.Time {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.unreachable.After(l.holder) {
		return l.unreachable
	}
	return l.holder
}

// Silence returns how long the management cluster was not heard.
func (l *Ledger) Silence(now time.Time) time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return now.Sub(l.management)
}

// Peers returns when each peer was last heard.
func (l *Ledger) Peers() map[netip.Addr]time.Time {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return maps.Clone(l.peers)
}

// ForeignSpeakers returns the speakers that conflict with the group, sorted by address.
func (l *Ledger) ForeignSpeakers(now time.Time) []ForeignSpeaker {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var speakers []ForeignSpeaker
	for source, entry := range l.foreign {
		if now.Sub(entry.seen) > foreignMemory {
			delete(l.foreign, source)
			continue
		}
		speakers = append(speakers, ForeignSpeaker{source, entry.collision})
	}
	slices.SortFunc(speakers, func(a, b ForeignSpeaker) int { return a.Source.Compare(b.Source) })
	return speakers
}
