package hoststore

// namespacedRequest is a request in one namespace.
type namespacedRequest struct {
	namespace string
	request   request
}

// messageCache holds the messages for machines that found no host. Machines with the same request share a message. A
// change of a host or an assumption clears the cache. The zero value is ready to use.
type messageCache struct {
	messages map[namespacedRequest]string

	// changes counts the changes of hosts and assumptions.
	changes uint64
}

// get returns the message for a request, empty if there is none, and the number of changes so far.
func (c *messageCache) get(key namespacedRequest) (message string, changes uint64) {
	return c.messages[key], c.changes
}

// set stores a message that was computed after the given number of changes. It drops the message if a change followed.
func (c *messageCache) set(key namespacedRequest, message string, changes uint64) {
	if changes != c.changes {
		return
	}
	if c.messages == nil {
		c.messages = map[namespacedRequest]string{}
	}
	c.messages[key] = message
}

// invalidate clears the cache after a change of a host or an assumption.
func (c *messageCache) invalidate() {
	c.changes++
	clear(c.messages)
}
