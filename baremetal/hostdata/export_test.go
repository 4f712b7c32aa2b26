package hostdata

// Remembered returns how many indexes are in memory.
func (x *Indexes) Remembered() int { return len(x.used) + len(x.gaps) }
