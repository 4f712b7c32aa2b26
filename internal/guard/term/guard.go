package term

import "time"

// Sight is the input of the guard about the VIP and the other nodes.
type Sight struct {
	// Holding is true if the VIP is on the node with a lease that was renewed in time, since Stamp.
	Holding bool
	Stamp   uint32

	// Doubt is true if this node may not have heard another holder yet: the lease was renewed too late a moment ago.
	Doubt bool

	// Well is true if the Ironic of the node counts as healthy.
	Well bool

	// MayHaveHeld is when another node last held the VIP, or could have held it without being heard.
	MayHaveHeld time.Time

	// Margin is how long before the VIP leaves its next holder may be heard.
	Margin time.Duration
}

// Book keeps the term of a node. The zero value has no term.
type Book struct {
	record Record

	// kept is when the VIP was last on the node in the term.
	kept time.Time
}

// Resume returns the book of a guard that starts on a node that still has the VIP.
func Resume(record Record, now time.Time) Book {
	return Book{record: record, kept: now}
}

// Record returns the record for the gate.
func (b *Book) Record() Record {
	return b.record
}

// Pending returns true if the VIP has left and may return in its term. Ironic is then frozen.
func (b *Book) Pending(seen Sight) bool {
	return b.record.Term != 0 && !b.has(seen)
}

func (b *Book) has(seen Sight) bool {
	return seen.Holding && seen.Stamp == b.record.Stamp
}

// Enter updates the term:
//
//	VIP                  Ironic     others                                        term
//	here, same stamp     any        any                                           goes on
//	left, may be back    well       silent, and could have been heard, for Grace  goes on
//	left, may be back    well       else                                          ends
//	left, may be back    not well   any                                           ends
//	here, in doubt       well       silent                                        goes on, and is not confirmed yet
//	here, of no term     well       any                                           begins
func (b *Book) Enter(now time.Time, seen Sight) {
	switch {
	case b.record.Term == 0:
	case b.has(seen):
		b.kept = now
		return
	case !seen.Well, now.Sub(b.kept) >= Grace, seen.MayHaveHeld.After(b.kept.Add(-seen.Margin)):
		b.record = Record{}
	}
	if !seen.Holding || !seen.Well || seen.Doubt {
		return
	}
	if b.record.Term == 0 {
		b.record.Term = now.UnixNano()
	}
	b.record.Stamp, b.kept = seen.Stamp, now
}
