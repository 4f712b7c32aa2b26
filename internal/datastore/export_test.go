package datastore

import infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"

// Show passes an event of the cache to the store.
func (s *Store) Show(data *infrav1.Metal3Data, deleted bool) {
	if deleted {
		observe(data, s.ledger.gone)
	} else {
		observe(data, s.ledger.seen)
	}
}
