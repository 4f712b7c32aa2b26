// Package endpoint creates the container images for the pods of the Ironic endpoint in a lab: those that this provider
// renders for control-plane nodes and those of config/ironic. Only the names of the images are changed.
//
//	IronicImage      Debian's Ironic, Apache httpd and dnsmasq, behind the entry points and the environment of
//	                 quay.io/metal3-io/ironic
//	GuardImage       the guard of this checkout with Debian's keepalived
//	DownloaderImage  the entry point and the environment of quay.io/metal3-io/ironic-ipa-downloader, with a ramdisk to
//	                 download
//
// The entry points are one program, cmd/entry, with the names of the upstream images. It reads the same variables and
// files, writes the configuration and executes the real program. See package entry.
//
// The cache keeps programs in folders named lab-endpoint-KEY, which may be removed while no image is being packed.
//
// The images lack features that these pods do not use: waiting for an address, MariaDB, JSON-RPC, the exporter, iPXE
// with TLS, drivers for real hardware. A variable that enables one of them is an error.
//
// The entry points implement the contract of the upstream shell scripts again. A change of that contract is not
// detected here; a change of the pods is.
package endpoint
