// Package metal3dataclaim reconciles Metal3DataClaims: it creates a Metal3Data with the lowest free index of the
// Metal3DataTemplate for each claim, and deletes the Metal3Data with the claim.
//
// The existing Metal3Data are the record of the used indexes, so that many claims do not write one shared list.
package metal3dataclaim
