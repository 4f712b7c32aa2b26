// Package move moves clusters and their hosts from one management cluster to another with the real clusterctl, while
// the manager and the Baremetal Operator (BMO) run in both as they are released, with the rights and the webhooks that
// are installed.
//
// Each manager is a process of its own (the test binary, started again), so that it can be killed. Each story has a
// namespace of its own. Both BMOs talk to one Ironic in memory, which stands for the address that does not move. It
// records each request: a move is good if every host is afterwards as it was, and no request was for
// anything that would touch a machine. Lines to the API servers can be cut, and clusterctl can be killed at any moment.
//
// Stories go on beside one another, because most of each is waiting; those that kill managers or cut lines take turns
// in a second pair of clusters. The trade-off: one spec tells all of them, and names the story that has failed.
// -move.story=expression plays those only whose names match the regular expression.
//
// It refuses to need nodes. Cluster API runs nowhere: what it would write, the nodes of Machines above all, is written
// by the stories, and no node is armed to take the Ironic endpoint. The package test/e2e has nodes.
//
// The environment variable CAPM3_MANAGER names a manager of CAPM3. With it, one cluster moves to CAPM3.
//
// `make bench-pivot` measures with the same means.
package move
