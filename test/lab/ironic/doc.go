// Package ironic is a real Ironic for the lab: the release that Debian trixie packages, one process for API and
// conductor, a SQLite database, TLS, and basic authentication.
//
// EnsureRoot builds its root file system once. The same root serves two ways: packed by package endpoint into a
// container image with the entry points of the upstream image, and started straight from the file system by Run, for
// tests that need Ironic and no cluster.
//
// Machines are reached by Ironic's own redfish driver, over the board controllers of package bmc, and boot the agent of
// package agent. One condition of the packaged API is corrected as Ironic has released it: see correction.go and
// docs/adr/0020-what-the-lab-changes.md.
//
// It refuses to pretend: wrong credentials, a missing image and a wrong checksum fail inside Ironic, as last_error.
// The trade-off is that a lost database is lost: nothing but adoption brings a node back.
package ironic
