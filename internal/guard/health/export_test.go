package health

import "time"

// SetLimit sets the limit of one check.
func (p *Prober) SetLimit(limit time.Duration) { p.limit = limit }
