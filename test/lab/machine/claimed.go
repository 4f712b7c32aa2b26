package machine

// Claimed returns true if a process, or the guard of an ended one, has the claim on the name of a lab.
func Claimed(lab string) (bool, error) {
	found, err := leftClaim(lab)
	return len(found) > 0, err
}
