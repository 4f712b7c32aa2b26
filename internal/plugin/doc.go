// Package plugin is what people move a cluster with. It reads the management cluster that a Cluster leaves and the one
// that it goes to, judges them, and prints what it found. Its commands run and recover moves, and hand the VIP over.
//
//	observe                     decide (pure)                    print
//	facts of each cluster  ->   preflight: may it be moved?  ->  text for people,
//	                            status: where is everything?     JSON for programs
//	                            handover: may Ironic go?
//	                            assess: how far is a move?
//
// The library of clusterctl moves. This package only completes or undoes what an interrupted clusterctl has left, and
// removes an object only if the other side has it. It reads names and owners of Secrets and not their
// content, so it has none to print. It keeps nothing between two runs: whoever runs it again sees what is there then.
//
// The trade-off of reading lists instead of watching is that a status which is watched costs a few requests each time,
// for metadata and for the hosts that have changed; in return, an API server that does not answer shows at once, and
// not as old facts.
package plugin
