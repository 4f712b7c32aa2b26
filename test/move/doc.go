// Package move moves clusters and their hosts from one management cluster to another with the real clusterctl. The
// manager and the Baremetal Operator (BMO) run in both clusters as they are released, with the installed permissions
// and webhooks.
//
// Each manager is a process of its own (the test binary, started again), so that a story can kill it. Each story has a
// namespace of its own. Both BMOs use one Ironic in memory, at an address that does not change. It records each
// request: a move succeeds if every host is the same afterwards, and no request acted on a machine. Stories can cut
// connections to the API servers, and kill clusterctl at any moment.
//
// Most of the time a story waits, so stories run in parallel. Stories that kill managers or cut connections run one
// after the other in a second pair of clusters, those that start another BMO or an Ironic endpoint in a third pair. The
// trade-off: all stories run before the first spec, and each spec only reports its story. -move.story=expression
// selects stories by a regular expression for their names.
//
// The tests use no nodes. Cluster API does not run: the stories write its objects, above all the nodes of Machines, and
// no node is armed to take the Ironic endpoint. The package test/e2e has nodes.
//
// The environment variable CAPM3_MANAGER names a manager of CAPM3. With it, one cluster moves to CAPM3.
//
// `make bench-pivot` measures with the same means.
package move
