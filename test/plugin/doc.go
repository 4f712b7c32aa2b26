// Package plugin tests the commands of clusterctl metal3 pivot between two management clusters: their output, writes
// and exit codes.
//
// No manager and no clusterctl runs. The stories write the objects in their place, so that a story can keep any state
// of a move. Package test/move has the real programs.
package plugin
