// Package baremetal and the packages below it are the domain of the provider: which host a machine gets, what is
// written on it, what goes into its bootstrap data, what happens at a pivot.
//
// The law of this floor: everything is a pure function of its arguments. No client, no context, no clock, no
// randomness, no environment, no logger. A function that wants one of them belongs upstairs, in internal or
// controllers. The law is enforced by the linters.
package baremetal
