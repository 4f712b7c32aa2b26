// Package plugin tells stories of kubectl pivot between two management clusters: what it prints, what it writes, and
// with which code it exits.
//
// No manager and no clusterctl runs. The stories write what they would have written, so that each state of a move can
// be held for as long as a story looks at it. Package test/move has the real programs.
package plugin
