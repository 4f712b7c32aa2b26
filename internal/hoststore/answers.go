package hoststore

// request is what a machine requires of a host in its namespace.
type request struct {
	namespace string
	wish      wish
}

// answers holds the messages for machines that found no host, until a host or an assumption changes: machines with the
// same request share one. The zero value is ready to use.
type answers struct {
	messages map[request]string

	// changes counts the changes of hosts and assumptions.
	changes uint64
}

// of returns the message for a request, empty if a host has changed since, and the number of changes so far.
func (a *answers) of(asked request) (message string, changes uint64) {
	return a.messages[asked], a.changes
}

// keep stores a message that is true after that many changes.
func (a *answers) keep(asked request, message string, changes uint64) {
	if changes != a.changes {
		return
	}
	if a.messages == nil {
		a.messages = map[request]string{}
	}
	a.messages[asked] = message
}

// changed drops the messages, which count hosts.
func (a *answers) changed() {
	a.changes++
	clear(a.messages)
}
