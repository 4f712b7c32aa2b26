// Package term decides how long the database of an Ironic is valid: from the moment its node claims the VIP until
// another node has held the VIP, or could have held it without being heard. It is pure.
//
// The guard listens to the other nodes, and the gate in the container of Ironic controls the process. Both observe
// the VIP. The guard writes a Record of the term into the state directory, and the gate follows it:
//
//	the VIP leaves                     the gate freezes Ironic
//	its lease was not renewed for      the gate freezes Ironic: no standby has claimed the VIP yet
//	  Record.Patience
//	it returns, or is renewed, in the  the guard confirms the term with a new Record, and the gate thaws Ironic
//	  same term
//	another holder was heard, the      the guard ends the term, and the gate kills Ironic: the database is out of date
//	  node was deaf, or Grace is over
//	another node of the control plane  the guard ends the term and releases the VIP, and the gate kills Ironic
//	  is heard that holds the VIP too
//	Ironic ends during its term        the gate starts it again with its database
//	Ironic hangs without the VIP, for  the gate kills Ironic, which has no database to keep
//	  HungAfter
//
// By default the database is lost: an unreadable Record has no term.
package term

import (
	"fmt"
	"time"
)

// Grace is how long a frozen Ironic waits for the VIP. Ironic is not available meanwhile: a longer wait delays a new
// database on the only node that can hold the VIP.
const Grace = 30 * time.Second

// HungAfter is how long an Ironic without the VIP may run and fail the checks of the guard. It is much longer than a
// start, which creates an empty database.
const HungAfter = 10 * time.Minute

// Record identifies a term, and the VIP that belongs to it.
type Record struct {
	// Term is when the term began, in nanoseconds since 1970. Zero is no term.
	Term int64

	// Stamp is the time since which the VIP has been on the node with a lease that was renewed in time, in hundredths
	// of a second since boot.
	Stamp uint32

	// Patience is the maximum time between renewals before another node may hold the VIP. Zero means no limit.
	Patience time.Duration

	// Failing is for how long Ironic has failed all checks of the guard, at most HungAfter.
	Failing time.Duration
}

// String returns the record in the format of Parse.
func (r Record) String() string {
	return fmt.Sprintf("%d %d %d %d\n", r.Term, r.Stamp, r.Patience.Milliseconds(), r.Failing.Milliseconds())
}

// Parse parses a record. An invalid one has no term. A later guard may write more: the guard of a node is not updated
// at the same moment as its gates.
func Parse(text string) Record {
	var read Record
	var patience, failing uint32
	if _, err := fmt.Sscan(text, &read.Term, &read.Stamp, &patience, &failing); err != nil {
		return Record{}
	}
	read.Patience = time.Duration(patience) * time.Millisecond
	read.Failing = time.Duration(failing) * time.Millisecond
	return read
}
