package health

import "time"

// How many checks in a row change the verdict of a node without the address. It falls faster than it rises: an Ironic
// that comes and goes must not get the address.
const (
	downAfter = 2
	slowAfter = 15
	upAfter   = 3
)

// Patience is for how long the Ironic of the holder may fail: it may be slow, or its web server may start again. Taking
// the address from it would cost its database.
const Patience = 10 * time.Second

// Debounce turns checks into a verdict. The zero value says that Ironic is not well.
type Debounce struct {
	well bool
	// good counts the checks in a row that succeeded, bad those that failed since the last one that did, and missed
	// those and the slow ones.
	good, bad, missed int

	// last is when a check succeeded last.
	last time.Time
}

// Add enters the result of a check, and whether the node holds the address. It returns the verdict.
func (d *Debounce) Add(failure error, now time.Time, holding bool) bool {
	switch {
	case failure == nil:
		d.good, d.bad, d.missed, d.last = d.good+1, 0, 0, now
	case IsSlow(failure):
		d.good, d.missed = 0, d.missed+1
	default:
		d.good, d.bad, d.missed = 0, d.bad+1, d.missed+1
	}
	stays := d.bad < downAfter && d.missed < slowAfter
	if holding {
		stays = now.Sub(d.last) < Patience
	}
	d.well = d.good >= upAfter || d.well && stays
	return d.well
}

// Resume says that Ironic was well when the node still held the address, until checks say otherwise.
func (d *Debounce) Resume(now time.Time) {
	*d = Debounce{well: true, last: now}
}

// Reset says that Ironic is not well, until enough checks say otherwise.
func (d *Debounce) Reset() {
	*d = Debounce{}
}
