package term

import "time"

// Sight is what the guard knows of the VIP and of the other nodes.
type Sight struct {
	// Holding says that the VIP is here with a lease that was renewed in time, since Stamp.
	Holding bool
	Stamp   uint32

	// Doubt says that this node may not have heard another holder yet: the lease was renewed too late a moment ago.
	Doubt bool

	// Well says that Ironic of the node counts as well.
	Well bool

	// MayHaveHeld is when another node last held the VIP, or could have held it without this node hearing that.
	MayHaveHeld time.Time

	// Margin is how long before the VIP leaves its next holder may be heard.
	Margin time.Duration
}

// Book keeps the term of a node. The zero value is of no term.
type Book struct {
	record Record

	// kept is when the VIP was last here and of the term.
	kept time.Time
}

// Resume returns the book of a guard that starts on a node that still has the VIP.
func Resume(record Record, now time.Time) Book {
	return Book{record: record, kept: now}
}

// Record is what the gate is told.
func (b *Book) Record() Record {
	return b.record
}

// Pending says whether the VIP has left and may return in its term. Ironic is frozen then.
func (b *Book) Pending(seen Sight) bool {
	return b.record.Term != 0 && !b.has(seen)
}

func (b *Book) has(seen Sight) bool {
	return seen.Holding && seen.Stamp == b.record.Stamp
}

// Enter keeps the book:
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
