// Package staticpod turns a typed pod into the file that a kubelet runs without an API server.
//
// It refuses everything that the kubelet would have to look up in an API server: Secrets, ConfigMaps, service accounts,
// volume claims, pull secrets, resource claims, runtime classes. Kubelets since 1.34 reject such pods, on a booting
// node; older ones wait for the object for ever. Refusing here names the place before a machine is
// written.
//
// The package has a list of allowed kinds of volumes and of sources of environment variables, so that it rejects kinds
// that a later version of Kubernetes adds. The trade-off is that it rejects harmless kinds of volumes (NFS, iSCSI) as
// well; no pod of this project uses them.
package staticpod
