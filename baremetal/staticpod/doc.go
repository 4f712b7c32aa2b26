// Package staticpod renders a typed pod as the manifest that a kubelet runs without an API server.
//
// It returns an error for references that the kubelet would have to read from an API server: Secrets, ConfigMaps,
// service accounts, volume claims, pull secrets, resource claims, runtime classes. Kubelets since 1.34 reject such pods
// on a booting node, and older kubelets wait for the object. The error names the field before a machine is provisioned.
//
// The package has a list of allowed kinds of volumes and of sources of environment variables, so that it rejects kinds
// that a later version of Kubernetes adds. It also rejects harmless kinds of volumes (NFS, iSCSI), which no pod of this
// project uses.
package staticpod
