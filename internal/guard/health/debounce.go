package health

// How many checks in a row change the verdict. It falls faster than it rises: an Ironic that comes and goes must not
// take the address with it.
//
// An Ironic that is merely slow still serves, and on a busy node the others are slow too. Taking the address from it
// would cost its database, so that is left until there is no hope.
const (
	downAfter = 2
	slowAfter = 15
	upAfter   = 3
)

// Debounce turns checks into a verdict. The zero value says that Ironic is not well.
type Debounce struct {
	well bool
	// good counts the checks in a row that succeeded, bad those that failed since the last one that did, and missed
	// those and the slow ones.
	good, bad, missed int
}

// Add enters the result of a check and returns the verdict.
func (d *Debounce) Add(failure error) bool {
	switch {
	case failure == nil:
		d.good, d.bad, d.missed = d.good+1, 0, 0
	case IsSlow(failure):
		d.good, d.missed = 0, d.missed+1
	default:
		d.good, d.bad, d.missed = 0, d.bad+1, d.missed+1
	}
	d.well = d.good >= upAfter || d.well && d.bad < downAfter && d.missed < slowAfter
	return d.well
}

// Reset says that Ironic is not well, until enough checks say otherwise.
func (d *Debounce) Reset() {
	*d = Debounce{}
}
