package health

// How many checks in a row change the verdict. It falls faster than it rises: an Ironic that comes and goes must not
// take the address with it.
const (
	downAfter = 2
	upAfter   = 3
)

// Debounce turns checks into a verdict. The zero value says that Ironic is not well.
type Debounce struct {
	well bool
	row  int
}

// Add enters the result of a check and returns the verdict.
func (d *Debounce) Add(succeeded bool) bool {
	if succeeded == d.well {
		d.row = 0
		return d.well
	}
	d.row++
	if (d.well && d.row >= downAfter) || (!d.well && d.row >= upAfter) {
		d.well, d.row = succeeded, 0
	}
	return d.well
}

// Reset says that Ironic is not well, until enough checks say otherwise.
func (d *Debounce) Reset() {
	*d = Debounce{}
}
