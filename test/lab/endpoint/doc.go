// Package endpoint makes the container images that the pods of the Ironic endpoint run in a lab: those that this
// provider renders for control-plane nodes and those of config/ironic, with nothing changed but the names of the
// images.
//
//	IronicImage      Debian's Ironic, Apache httpd and dnsmasq, behind the entry points and the environment of
//	                 quay.io/metal3-io/ironic
//	GuardImage       the guard of this checkout with Debian's keepalived
//	DownloaderImage  the entry point and the environment of quay.io/metal3-io/ironic-ipa-downloader, with a ramdisk to
//	                 download
//
// The entry points are one program, cmd/entry, that is called by the names that it has in the upstream images, reads
// the same variables and files, writes the configuration and becomes the real program. See package entry.
//
// Programs are kept in the cache as lab-endpoint-KEY; such a folder may be removed whenever nothing is being packed.
//
// It is for labs and nothing else. It leaves out what these pods do not use: waiting for an address, MariaDB,
// JSON-RPC, the exporter, iPXE with TLS, drivers for real hardware. A variable that asks for one of these is an error,
// not ignored.
//
// The trade-off: what upstream's shell scripts do is done again, from their contract. A change of that contract is not
// seen here; a change of the pods is.
package endpoint
