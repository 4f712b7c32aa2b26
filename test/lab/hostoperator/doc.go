// Package hostoperator is a stand-in for the Baremetal Operator in tests of moves: a small controller that drives
// BareMetalHosts through an Ironic. It is not the Baremetal Operator and shares no code with it but the types of its
// API.
//
// It exists so that hundreds of moves can be told in minutes, with the states, the errors, the annotations and the
// registration of the original, and above all with its behaviour during a pivot: a paused host is not touched, a status
// comes back from its annotation, and an Ironic with an empty database gets all hosts back. Labs run the original.
//
// What happens next is decided in package step; package ironicapi asks Ironic. This package reads and writes objects.
// Package step says what is refused. Further, there are no webhooks, no events and no conditions, no spec field is ever
// written (the original fills in spec.architecture), and errors are retried sooner than by the original, because nobody
// wants to watch a lab wait for minutes.
//
// Hosts and Secrets are read live and watched by their metadata: nothing secret is kept in memory, and no decision is
// made from an old copy. The price is three reads per look at a host, which a lab with a handful of hosts can afford.
package hostoperator
