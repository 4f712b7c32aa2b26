// Package metal3datatemplate reconciles Metal3DataTemplates: it keeps a template while objects use it, and lists the
// indexes in use in the status.
//
// The list is for users; no controller reads it. One write covers many events, so that each machine of a large cluster
// does not cause a write of the list.
package metal3datatemplate
