// Package datastore finds Metal3Data and Metal3DataClaims in the cache, and creates Metal3Data with the lowest free
// index of their template.
//
// The API server decides who gets an index: the index is part of the name of the Metal3Data, and a name exists once.
// The store keeps the used indexes in memory, so that finding one costs no request and no list. Its memory follows the
// events of the cache; a lost memory is built again from them. A create whose answer was lost is repeated with the same
// index, so that a claim gets one Metal3Data.
//
// Two managers that act at the same time may still create one each for a claim. hostdata.Answer chooses between them.
package datastore
