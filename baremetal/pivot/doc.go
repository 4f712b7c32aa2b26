// Package pivot judges what is seen of an Ironic endpoint: who holds it, and whether that is the Ironic of this
// cluster.
//
// A pivot is the moment when the holder changes from the management cluster to the control plane. No status survives
// it, so everything here is decided from what can be observed again: the names of the conductors that answer, and the
// nodes of the control plane. A conductor is named <clusterID>-<node>.
//
// It refuses to guess: of what answers without proving itself, the holder is not known. The trade-off of telling
// clusters apart by a prefix is that a clusterID which begins with another one and a dash would pass for it; IDs that
// the provider chooses have no dash.
package pivot
