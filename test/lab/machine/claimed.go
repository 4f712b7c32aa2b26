package machine

// Claimed tells whether a process, or the guard of one that has ended, has a claim on the name of a lab.
func Claimed(lab string) (bool, error) {
	found, err := leftClaim(lab)
	return len(found) > 0, err
}
