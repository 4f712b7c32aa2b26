// Package staticpod turns a typed pod into the file that a kubelet runs without an API server.
//
// It refuses everything that the kubelet would have to look up in an API server: Secrets, ConfigMaps, service accounts,
// volume claims, pull secrets, resource claims, runtime classes. Kubelets refuse such pods too since 1.34, at a time
// when nobody looks; older ones wait for the object for ever. Refusing here names the place before a machine is
// written.
//
// Of volumes and of sources of environment variables, those are allowed that are known to need nothing: what a later
// version of Kubernetes adds is refused until somebody has looked at it. The trade-off is that harmless kinds of
// volumes (NFS, iSCSI) are refused as well; no pod of this project wants them.
package staticpod
