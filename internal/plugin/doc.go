// Package plugin has the commands with which users move a cluster. It reads the source and the target, judges them, and
// prints the result. Its commands run and recover moves, and hand the VIP over.
//
//	observe                     decide (pure)                    print
//	facts of each cluster  ->   preflight: may it be moved?  ->  text for people,
//	                            status: where is everything?     JSON for programs
//	                            handover: may Ironic go?
//	                            assess: how far is a move?
//
// The library of clusterctl moves the objects. This package only completes or undoes an interrupted move, and removes
// an object only if the other side has it. It reads names and owners of Secrets. Only keep and discard read their
// content, for the backup file. It keeps no state between two runs: each run reads the current objects.
//
// The trade-off of reading lists instead of watching: status --watch costs a few requests in each interval, for
// metadata and for changed hosts. In return, it reports at once that an API server does not answer, instead of printing
// old facts.
package plugin
