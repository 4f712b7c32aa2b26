// Package datastore finds Metal3Data and Metal3DataClaims in the cache, and creates Metal3Data with the lowest free
// index of their template.
//
// The index is part of the name of the Metal3Data, so the API server lets only one claim have it. The store keeps the
// used indexes in memory, so that a search costs no request and no list. The memory follows the events of the cache,
// also after a restart. The store repeats a create without a response with the same index, so that a claim gets one
// Metal3Data.
//
// Two managers that act at the same time may each create a Metal3Data for a claim. hostdata.Answer chooses between
// them.
package datastore
