// Package manifests tests the manifests of the project: the output of config/default, the release for clusterctl, the
// templates of clusters, and the table that documents their variables. It has only tests.
//
// The tests require no API server. The pinned kustomize and clusterctl render the manifests, which are decoded
// strictly into the types of a server. test/integration applies them.
package manifests
