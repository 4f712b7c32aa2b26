package health

import "time"

// Numbers of consecutive checks that change the verdict of a node without the VIP. The verdict falls faster than it
// rises, so that an unstable Ironic does not get the VIP.
const (
	downAfter = 2
	upAfter   = 3
)

// SlowPatience is how long the Ironic of a node without the VIP may be slow.
const SlowPatience = 15 * time.Second

// Patience is how long the Ironic of the VIP holder may fail: it may be slow, or its web server may restart. The loss
// of the VIP would cost its database.
const Patience = 10 * time.Second

// Debounce computes a verdict from checks. The zero value is unhealthy.
type Debounce struct {
	well bool
	// good counts the consecutive successful checks, bad the failed ones since the last success. Slow ones are neither.
	good, bad int

	// last is the time of the last successful check, or of the arrival of the VIP with a healthy Ironic.
	last time.Time

	// held is true if the node held the VIP at the last check.
	held bool
}

// Add adds the result of a check that ended now, and whether the node holds the VIP. It returns the verdict.
func (d *Debounce) Add(failure error, now time.Time, holding bool) bool {
	if holding && !d.held && d.well {
		// A node without the VIP may be slow for longer than its holder.
		d.last = now
	}
	d.held = holding
	switch {
	case failure == nil:
		d.good, d.bad, d.last = d.good+1, 0, now
	case IsSlow(failure):
		d.good = 0
	default:
		d.good, d.bad = 0, d.bad+1
	}
	stays := d.bad < downAfter && now.Sub(d.last) < SlowPatience
	if holding {
		stays = now.Sub(d.last) < Patience
	}
	d.well = d.good >= upAfter || d.well && stays
	return d.well
}

// Continue counts an interval until now without checks as a success, if Ironic was healthy.
func (d *Debounce) Continue(now time.Time) {
	if d.well {
		d.bad, d.last = 0, now
	}
}

// Resume starts with a healthy Ironic, for a node that still held the VIP.
func (d *Debounce) Resume(now time.Time) {
	*d = Debounce{well: true, last: now}
}

// Reset starts with an unhealthy Ironic.
func (d *Debounce) Reset() {
	*d = Debounce{}
}
