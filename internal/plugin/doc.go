// Package plugin is what people see a move with: it reads the management cluster that a Cluster leaves and the one that
// it goes to, judges them, and prints what it found. Its one write is the replica count of the Ironic of the management
// cluster, which ends the pivot.
//
//	observe                     decide (pure)                    print
//	facts of each cluster  ->   preflight: may it be moved?  ->  text for people,
//	                            status: where is everything?     JSON for programs
//	                            demotion: may Ironic go?
//
// It refuses to move anything: that is what clusterctl does. It reads names and owners of Secrets and not their
// content, so it has none to print. It keeps nothing between two runs: whoever runs it again sees what is there then.
//
// The trade-off of reading lists instead of watching is that a status which is watched costs a few requests each time;
// in return, an API server that does not answer shows at once, and not as old facts.
package plugin
