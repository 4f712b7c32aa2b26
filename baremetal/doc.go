// Package baremetal and the packages below it are the domain of the provider: the choice of a host, the fields of a
// host, the bootstrap data, and the steps of a pivot.
//
// Every function depends on its arguments only. It has no client, no context, no clock, no randomness, no environment
// and no logger. The linters enforce this. Functions that require one of these belong to internal or controllers.
package baremetal
