// Package ironic is a real Ironic for the lab: the release that Debian trixie packages, one process for API and
// conductor, a SQLite database, TLS, and basic authentication.
//
// EnsureRoot builds its root file system once. Package endpoint packs it into a container image with the entry points
// of the upstream image. Run starts it from the file system, for tests that require Ironic and no cluster.
//
// Ironic's own redfish driver connects to the BMCs of package bmc, whose machines boot the agent of package agent. One
// fault of the packaged API is fixed as in a later release of Ironic: see correction.go and
// docs/adr/0020-what-the-lab-changes.md.
//
// Wrong credentials, a missing image and a wrong checksum fail in Ironic itself, with last_error. A lost database is
// restored only by adoption.
package ironic
