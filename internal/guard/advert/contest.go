package advert

import "time"

// Contest detects another node that keeps advertising as the holder while this node holds the VIP. One advertisement
// is not enough: it may be the last one of a node that released the VIP or is about to.
type Contest struct {
	// Interval between two advertisements.
	Interval time.Duration

	// since is when the other holder began to advertise. Zero while it is silent.
	since time.Time
}

// Lost takes the times when the other holder was last heard and when the VIP arrived on this node. It returns true if
// the other holder has advertised since then, without a pause, for longer than any takeover lasts. Earlier
// advertisements do not count. The caller must call Lost at least twice a second and more than once in two intervals.
func (c *Contest) Lost(now, heard, arrived time.Time) bool {
	if now.Sub(heard) > 2*c.Interval+time.Second/2 {
		c.since = time.Time{}
		return false
	}
	if c.since.IsZero() {
		c.since = heard
	}
	if c.since.Before(arrived) {
		c.since = arrived
	}
	return heard.Sub(c.since) > 3*c.Interval+time.Second
}
