package keepalived

import "time"

const (
	// DefaultAdvertisementInterval is the time between two advertisements.
	DefaultAdvertisementInterval = 300 * time.Millisecond

	// DefaultTakeoverWithin is the time in which a silent holder is replaced.
	DefaultTakeoverWithin = 4 * time.Second
)

// Limits of the number of advertisements that a standby misses before it takes the VIPs: VRRP requires 3, and
// keepalived reads at most 100.
const (
	leastAdverts = 3
	mostAdverts  = 100
)

// Timers decide when a standby takes the VIPs from a silent holder. A takeover costs the database of the holder, so a
// standby waits as long as the limit permits:
//
//	interval   limit   advertisements   tolerated  taken over after, ranks 0 to 4   after a handover
//	300ms      4s      12               3.3s       3.78s to 3.88s                   0.18s to 0.28s
//	500ms      4s       7               3s         3.80s to 3.96s                   0.30s to 0.46s
//	1s         4s       3               2s         3.61s to 3.92s                   0.61s to 0.92s
//	2s         4s       3               4s         7.22s to 7.84s                   1.22s to 1.84s
//	200ms      none     3               0.4s       0.72s to 0.78s                   0.12s to 0.18s
//
// keepalived multiplies the interval in the advertisements of the holder by the number of advertisements of the
// standby.
type Timers struct {
	// Interval between two advertisements.
	Interval time.Duration

	// Within is the limit of a takeover. Zero means that a standby takes over after three advertisements. A limit that
	// is too short for three has no effect.
	Within time.Duration
}

// Adverts is the number of advertisements that a standby misses before it takes the VIPs. The standby waits for less
// than one interval more, by its rank.
func (t Timers) Adverts() int {
	return min(max(int(t.Within/t.Interval)-1, leastAdverts), mostAdverts)
}

// Missed is the time that each standby waits for a silent holder, independent of its rank.
func (t Timers) Missed() time.Duration {
	return time.Duration(t.Adverts()) * t.Interval
}

// Tolerated is the silence of a holder that no standby takes over: the last advertisement was sent at most one interval
// before the silence began.
func (t Timers) Tolerated() time.Duration {
	return t.Missed() - t.Interval
}

// DownTime is the time without advertisements after which a node of the priority takes the VIPs.
func (t Timers) DownTime(priority int) time.Duration {
	return t.Missed() + t.SkewTime(priority)
}

// SkewTime is the time that a node of the priority waits after the holder handed the VIPs over.
func (t Timers) SkewTime(priority int) time.Duration {
	return time.Duration(256-priority) * t.Interval / 256
}
