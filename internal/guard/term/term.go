// Package term decides for how long the database of an Ironic is valid: from the moment its node takes the VIP until
// another node has held the VIP, or could have held it without this node hearing that. It is pure.
//
// The guard hears the other nodes, and the gate in the container of Ironic controls the process. Both see the VIP. The
// guard writes a Record of the term into the state directory, and the gate follows it:
//
//	the VIP leaves                     the gate freezes Ironic
//	it returns in the same term        the guard confirms the term with a new Record, and the gate thaws Ironic
//	another holder was heard, the      the guard ends the term, and the gate kills Ironic: the database is out of date
//	  node was deaf, or Grace is over
//	Ironic ends during its term        the gate starts it again with its database
//
// In doubt the database is lost: a Record that cannot be read is of no term.
package term

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Grace is how long a frozen Ironic waits for the VIP. Ironic is not available meanwhile: a longer wait delays a new
// database on the one node that can hold the VIP.
const Grace = 30 * time.Second

// Record names a term, and the VIP that belongs to it.
type Record struct {
	// Term is when the term began, in nanoseconds since 1970. Zero is no term.
	Term int64

	// Stamp is when the kernel added the VIP, in hundredths of a second since the node started.
	Stamp uint32
}

// String writes the record as Parse reads it.
func (r Record) String() string {
	return fmt.Sprintf("%d %d\n", r.Term, r.Stamp)
}

// Parse reads a record. What it cannot read is of no term.
func Parse(text string) Record {
	begin, stamp, _ := strings.Cut(strings.TrimSpace(text), " ")
	began, beginErr := strconv.ParseInt(begin, 10, 64)
	added, stampErr := strconv.ParseUint(stamp, 10, 32)
	if beginErr != nil || stampErr != nil {
		return Record{}
	}
	return Record{Term: began, Stamp: uint32(added)}
}
