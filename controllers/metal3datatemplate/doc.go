// Package metal3datatemplate reconciles Metal3DataTemplates: it keeps a template while objects use it, and lists the
// indexes in use.
//
// The list is for people and is never read. Changes are gathered for a while before it is written, so that the machines
// of a large cluster do not each rewrite a list of all machines.
package metal3datatemplate
