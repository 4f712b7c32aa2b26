package advert

import "time"

// Contest tells a node whether another one goes on speaking as the holder while the address is here. One advertisement
// proves nothing: it may be the last of a node that gave the address away, or of one that is about to give in.
type Contest struct {
	// Interval between two advertisements.
	Interval time.Duration

	// since is when the other one began to speak; zero while it is silent.
	since time.Time
}

// Lost enters when the other holder was heard last and since when the address is here, and returns whether the other
// one has spoken all that time, without a pause, for longer than any take-over lasts. What it said before is how a
// holder speaks. It has to be asked more often than once in two intervals, or twice a second.
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
