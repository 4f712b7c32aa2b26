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

// Patience is how long the Ironic of the VIP holder may fail, for example because it is slow. The loss of the VIP would
// cost its database.
const Patience = 10 * time.Second

// WebServerPatience is how long the web server of the VIP holder may refuse connections, break them, or answer with
// errors, while Ironic answers. It is longer than five minutes, the maximum time between two starts of a container by
// the kubelet.
const WebServerPatience = 10 * time.Minute

// Debounce computes a verdict from checks. The zero value is unhealthy, and rises after upAfter successful checks in a
// row. A healthy one falls:
//
//	fails                     with the VIP                        without the VIP
//	Ironic, slow              after Patience                      after SlowPatience
//	Ironic, else              after Patience                      after downAfter checks in a row
//	certificate or image      after Patience                      after downAfter checks in a row
//	web server alone, slow    never                               after SlowPatience
//	web server alone, else    after WebServerPatience + Patience  after downAfter checks in a row
//
// A web server that is slow because Ironic is slow counts as a slow Ironic.
//
// With the VIP, a fall ends the database of Ironic. A slow web server accepts connections. Either it hangs, and the
// kubelet restarts it, or too many clients use it, and they would follow the VIP to the next holder and end its
// database too. A web server that refuses connections has ended. The kubelet starts it again. If the kubelet cannot,
// the API stays away on this node only, so that an empty database on another node is better.
type Debounce struct {
	well bool
	// good counts the consecutive successful checks, bad the failed ones since the last success. Slow ones are neither.
	good, bad int

	// last is the time of the last successful or tolerated check, or of the arrival of the VIP with a healthy Ironic.
	last time.Time

	// served is the time of the last successful check, or of the last one on the VIP holder in which the web server was
	// slow, or of the arrival of the VIP with a healthy Ironic.
	served time.Time

	// held is true if the node held the VIP at the last check.
	held bool
}

// Add adds the result of a check that ended now, and whether the node holds the VIP. It returns the verdict.
func (d *Debounce) Add(failure error, now time.Time, holding bool) bool {
	if holding && !d.held && d.well {
		// A node without the VIP may be slow for longer than its holder.
		d.last, d.served = now, now
	}
	d.held = holding
	switch {
	case failure == nil:
		d.good, d.bad, d.last, d.served = d.good+1, 0, now, now
	case holding && d.tolerates(failure, now):
		d.good, d.bad, d.last = 0, 0, now
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

// tolerates returns true if the VIP holder keeps the VIP, because Ironic has answered and only its web server failed.
func (d *Debounce) tolerates(failure error, now time.Time) bool {
	if PartOf(failure) != WebServer {
		return false
	}
	if IsSlow(failure) {
		d.served = now
	}
	return now.Sub(d.served) < WebServerPatience
}

// Continue counts an interval until now without checks as a success, if Ironic was healthy.
func (d *Debounce) Continue(now time.Time) {
	if d.well {
		d.bad, d.last = 0, now
	}
}

// Resume starts with a healthy Ironic, for a node that still held the VIP.
func (d *Debounce) Resume(now time.Time) {
	*d = Debounce{well: true, last: now, served: now}
}
