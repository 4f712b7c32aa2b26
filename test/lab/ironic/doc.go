// Package ironic is a real Ironic for the lab: the release that Debian trixie packages, one process for API and
// conductor, a SQLite database, TLS, basic authentication, and a hardware type of its own for the machines of the lab.
//
// EnsureRoot builds its root file system once. The same root serves two ways: packed by package endpoint into a
// container image with the entry points of the upstream image, and started straight from the file system by Run, for
// tests that need Ironic and no cluster.
//
// The hardware type "lab" (driver/lab_hardware.py) speaks HTTP to one BMC per machine. It keeps everything of Ironic
// that a provisioner depends on: states, locks, steps, cleaning, adoption, power synchronisation and error messages.
//
// It refuses to pretend: wrong credentials, a missing image and a wrong checksum fail inside Ironic, as last_error.
// The trade-off is that no agent boots in a machine. Inspection, cleaning and writing an image happen from outside
// while the machine is off, and a lost database is lost: nothing but adoption brings a node back.
package ironic
