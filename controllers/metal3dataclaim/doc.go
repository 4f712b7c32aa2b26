// Package metal3dataclaim reconciles Metal3DataClaims: it gives each the lowest free index of its Metal3DataTemplate,
// in a Metal3Data, and deletes that with the claim.
//
// Nothing is recorded in a list that all claims share, so a thousand claims do not wait for one another. The Metal3Data
// that exist are the record.
package metal3dataclaim
