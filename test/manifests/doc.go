// Package manifests tests what is installed and what users fill in: the output of config/default, the release that
// clusterctl reads, the templates of clusters and the table that documents their variables. It has no code besides
// tests.
//
// Nothing here needs an API server. The real kustomize and the real clusterctl build and fill in the manifests, and
// what comes out is decoded strictly into the types that a server would decode it into. That a server accepts it, and
// what it does then, is for test/integration.
package manifests
